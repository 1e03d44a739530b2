/* The list of operators as tables: what every row must have, whichever operators there are. */
#include "npu/pkg/pkg_ops.h"
#include "npu/pkg/areas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_operator_has_an_instruction_in_floats(void **state)
{
    (void)state;
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const bt_op_info *o = &bt_op_infos[k];
        const bt_pkg_op_info *f = bt_pkg_op_info_of(bt_pkg_op_in_floats((bt_op_kind)k)),
                             *i = bt_pkg_op_info_of(bt_pkg_op_in_integers((bt_op_kind)k));
        assert_true(o->name && o->inputs >= 1 && o->inputs <= 2);
        assert_int_equal(f->of, k);
        assert_int_equal(f->on, o->class == BT_CLASS_EDGE ? BT_PKG_ON_COMPANION : BT_PKG_ON_FLOATS);
        assert_int_equal(f->in_place, o->in_place);
        assert_int_equal(f->shape, o->shape);
        if (!bt_pkg_op_in_integers((bt_op_kind)k)) continue;
        assert_true(o->class != BT_CLASS_EDGE);
        assert_int_equal(i->of, k);
        assert_int_equal(i->on, BT_PKG_ON_NPU);
        assert_int_equal(i->beside, o->beside);
        assert_int_equal(i->price, o->price);
    }
}

static void names_of_instructions_differ_and_unknown_numbers_have_none(void **state)
{
    (void)state;
    for (uint32_t a = 0; a < 256; a++) {
        const char *name = bt_pkg_op_name((bt_pkg_op)a);
        if (!bt_pkg_op_info_of(a)->on) assert_string_equal(name, "?");
        for (uint32_t b = 0; b < a && strcmp(name, "?") != 0; b++)
            assert_string_not_equal(name, bt_pkg_op_name((bt_pkg_op)b));
    }
    assert_string_equal(bt_op_name(BT_OP_NONE), "?");
}

/* Values that lie in the arena in floats are never read as integers without an instruction of EDGES between.
 */
static void only_edges_turn_floats_into_integers_or_back(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < BT_PKG_OP_NUMBERS; op++) {
        const bt_pkg_op_info *r = bt_pkg_op_info_of(op);
        if (!r->on || r->in0 == BT_PKG_FORM_NONE || r->out == BT_PKG_FORM_NONE || r->is_edge) continue;
        assert_int_equal(r->in0 == BT_PKG_FORM_F32,
                         r->out == BT_PKG_FORM_F32 || r->out == BT_PKG_FORM_ROUTES);
        assert_int_equal(r->in0 == BT_PKG_FORM_F32, r->on != BT_PKG_ON_NPU);
    }
}

static void what_an_instruction_writes_in_place_has_the_stride_that_it_is_read_with(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < BT_PKG_OP_NUMBERS; op++) {
        const bt_pkg_inst i = {.op = (uint8_t)op, .in_stride = 64, .out_stride = 128};
        assert_int_equal(bt_areas_in0_stride(&i), bt_pkg_op_info_of(op)->in_place ? 128 : 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_an_instruction_in_floats),
        cmocka_unit_test(names_of_instructions_differ_and_unknown_numbers_have_none),
        cmocka_unit_test(only_edges_turn_floats_into_integers_or_back),
        cmocka_unit_test(what_an_instruction_writes_in_place_has_the_stride_that_it_is_read_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
