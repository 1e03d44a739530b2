#include "tests/helpers/cluster/proc_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
