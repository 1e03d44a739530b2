#ifndef TESTS_HELPERS_SLOW_H
#define TESTS_HELPERS_SLOW_H
#include <stdbool.h>
#include <stdlib.h>

/* True under a sanitizer and under an emulator (BATON_RUNNER), which make programs ten to a hundred times slower. Tests
 * of many like cases take a part of them there; every row of the dispatch table and every form stays. */
static inline bool slow_run(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    const char *runner = getenv("BATON_RUNNER");
    return runner && *runner;
#endif
}
#endif
