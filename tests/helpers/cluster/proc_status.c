#include "tests/helpers/cluster/proc_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long proc_status_kb(pid_t pid, const char *field)
{
    char path[64], line[256];
    const size_t len = strlen(field);
    long kb = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && kb < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, field, len) && line[len] == ':') kb = strtol(line + len + 1, NULL, 10);
    if (f) fclose(f);
    return kb;
}

double proc_cpu_s(pid_t pid)
{
    char path[64], line[1024] = "";
    unsigned long user, system;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    const char *at = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    (void)fclose(f);
    if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return -1;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
