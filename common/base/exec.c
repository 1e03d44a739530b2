/* Programs that start others do it here, so that one place knows of runners. */
#include "base/exec.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNNER_WORDS = 15, RUNNER_BYTES = 1024, PROGRAM_WORDS = 200 };

void bt_exec(const char *path, const char *const *argv)
{
    const char *runner = getenv("BATON_RUNNER"), *all[RUNNER_WORDS + PROGRAM_WORDS + 2];
    char words[RUNNER_BYTES], *save = NULL;
    size_t n = 0;
    if (!runner || !*runner) {
        (void)execv(path, (char *const *)argv);
        return;
    }
    errno = E2BIG;
    if (strlen(runner) >= sizeof words) return;
    strcpy(words, runner);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        if (n == RUNNER_WORDS) return;
        all[n++] = w;
    }
    all[n++] = path;
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        if (i > PROGRAM_WORDS) return;
        all[n++] = argv[i];
    }
    all[n] = NULL;
    (void)execvp(all[0], (char *const *)all);
}
