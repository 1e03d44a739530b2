#ifndef TESTS_FOREIGN_COPIES_H
#define TESTS_FOREIGN_COPIES_H

/* Included by a test program that sends much through libzmq itself. For the thread sanitizer what libzmq's thread
 * copies was written by another thread, which looks like a race (tests/tsan.supp), and looking for where it was can
 * take for ever. So copies are not looked at, in this process only: not in the programs that it starts. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "ignore_interceptors_accesses=1"; }
#endif
