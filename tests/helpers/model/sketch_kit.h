#ifndef TESTS_SKETCH_KIT_H
#define TESTS_SKETCH_KIT_H
#include "base/pool.h"
#include "npu/compile/compile.h"

/* Compiles a package in a folder, sketches it, and fails the test where tables or code of the sketch are not the
 * package's, byte for byte, what is measured left out (npu/compile/compile.h). ids[n] calibrate. */
typedef struct sketch_kit {
    const bt_model *model;
    const char *dir;
    const int32_t *ids;
    size_t n;
    bt_pool *pool;
    const char *attention; /* as --attention; NULL: dense */
} sketch_kit;
void sketch_kit_check(const sketch_kit *k, const char *recipe, const char *profile, uint32_t npu_ops,
                      const char *policy);
#endif
