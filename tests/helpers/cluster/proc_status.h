#ifndef TESTS_PROC_STATUS_H
#define TESTS_PROC_STATUS_H
#include <sys/types.h>

/* A field of /proc/PID/status in KiB, such as VmHWM (the most it has had) or RssAnon (its own pages, without what is
 * mapped from files); -1: no such process or field. */
long proc_status_kb(pid_t pid, const char *field);
/* Seconds of the CPU that it has used; -1: no such process. */
double proc_cpu_s(pid_t pid);
#endif
