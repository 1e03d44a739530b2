/* A machine that has every instruction set: what kernels/kernels.c asks the processor is answered with yes. Put before
 * that file by the compiler's -include (make test-emulated). AVX2 must really be there. */
#ifndef TESTS_EMULATED_CPU_H
#define TESTS_EMULATED_CPU_H
#include <cpuid.h>

static inline int emulated_cpuid(unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    *a = *b = *c = *d = ~0u;
    return 1;
}

#define __builtin_cpu_supports(name)             1
#define __get_cpuid(leaf, a, b, c, d)            emulated_cpuid(a, b, c, d)
#define __get_cpuid_count(leaf, sub, a, b, c, d) emulated_cpuid(a, b, c, d)
#endif
