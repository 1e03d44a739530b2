/* Package files: written and read again, found rows, and the sizes that sharing of constants gives. */
#include "npu/pkg.h"
#include "kernels/kernels.h"
#include "model/packed.h"
#include "tests/helpers/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_pkg *accept(const uint8_t *b, size_t len)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    if (bt_pkg_from_bytes(&p, b, len, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static void what_was_written_is_read_again(void **state)
{
    (void)state;
    const tiny_pkg kind[] = {{.seqs = {4}}, {.rotate = true, .bits = 4}, {.ops_all = true}, {.ops_all = true, .rotate = true, .seqs = {1, 3, 8}}};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        size_t len;
        uint8_t *b = tiny_pkg_bytes(&len, &kind[i]);
        bt_pkg *p = accept(b, len);
        const bt_pkg_header *h = bt_pkg_header_of(p);
        assert_int_equal(h->layers, 2);
        assert_string_equal(h->model_name, "tiny");
        assert_int_equal(bt_pkg_tensors(p)[3].weight, BT_WEIGHT_V);
        assert_null(bt_pkg_const_at(p, BT_PKG_NONE));
        bt_pkg_close(p);
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
