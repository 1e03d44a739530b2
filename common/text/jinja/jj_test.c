/* Tests: what stands behind `is`. */
#include "text/jinja/jj_natives.h"

#include "text/jinja/jj_case.h"
#include "text/jinja/jj_op.h"
#include "text/jinja/jj_show.h"

#include <string.h>

#define TEST(name) \
    static bool name(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
/* one that only looks at `self` */
#define LOOK(name, expr) \
    TEST(name) \
    { \
        (void)r, (void)self, (void)a, (void)call; \
        *ret = jj_bool(expr); \
        return true; \
    }
#define COMPARE(name, op) \
    TEST(name) \
    { \
        (void)call; \
        *ret = jj_bool(false); \
        return bt_jj_op_compare(r, &ret->b, op, self, &a[0]); \
    }

LOOK(defined, self->kind != JJ_UNDEFINED)
LOOK(undefined, self->kind == JJ_UNDEFINED)
LOOK(none, self->kind == JJ_NONE)
LOOK(boolean, self->kind == JJ_BOOL)
LOOK(is_false, self->kind == JJ_BOOL && !self->b)
LOOK(is_true, self->kind == JJ_BOOL && self->b)
LOOK(integer, self->kind == JJ_INT)
LOOK(is_float, self->kind == JJ_FLOAT)
LOOK(number, jj_is_number(self))
LOOK(string, self->kind == JJ_STR)
LOOK(mapping, self->kind == JJ_DICT)
LOOK(iterable, bt_jj_value_is_iterable(self))
LOOK(callable, self->kind == JJ_NATIVE || self->kind == JJ_MACRO || self->kind == JJ_LOOP ||
                   (self->kind == JJ_UNDEFINED) || self->kind == JJ_TURNS)
LOOK(escaped, self->is_markup)
/* what has a length and elements */
LOOK(sequence, self->kind == JJ_STR || self->kind == JJ_DICT || self->kind == JJ_UNDEFINED ||
                   (self->kind == JJ_LIST && self->list->style <= JJ_RANGE))
LOOK(is_filter, self->kind == JJ_STR && r->filter(self->s->ptr, self->s->len) != NULL)
LOOK(is_test, self->kind == JJ_STR && r->test(self->s->ptr, self->s->len) != NULL)
COMPARE(eq, JJ_EQ)
COMPARE(ne, JJ_NE)
COMPARE(lt, JJ_LT)
COMPARE(le, JJ_LE)
COMPARE(gt, JJ_GT)
COMPARE(ge, JJ_GE)
COMPARE(in, JJ_IN)

TEST(sameas)
{
    (void)call;
    const bool are_texts = self->kind == JJ_STR && a[0].kind == JJ_STR && self->s->len == a[0].s->len;
    *ret = jj_bool(bt_jj_value_same(self, &a[0]));
    return jj_step(r, are_texts ? self->s->len / 64 : 0);
}

static bool has_rest(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *by, int64_t want)
{
    jj_value rest;
    const jj_value wanted = jj_int(want);
    *ret = jj_bool(false);
    return bt_jj_op_math(r, &rest, JJ_MOD, self, by) && bt_jj_value_equal(r, &ret->b, &rest, &wanted);
}
TEST(odd)
{
    (void)a, (void)call;
    const jj_value two = jj_int(2);
    return has_rest(r, ret, self, &two, 1);
}
TEST(even)
{
    (void)a, (void)call;
    const jj_value two = jj_int(2);
    return has_rest(r, ret, self, &two, 0);
}
TEST(divisibleby)
{
    (void)call;
    return has_rest(r, ret, self, &a[0], 0);
}

static bool in_case(jj_run *r, jj_value *ret, const jj_value *self, jj_class c)
{
    const jj_str *s = bt_jj_show_str(r, self);
    if (!s) return false;
    *ret = jj_bool(bt_jj_case_is(s, c));
    return jj_step_bytes(r, s->len);
}
TEST(lower)
{
    (void)a, (void)call;
    return in_case(r, ret, self, JJ_IS_LOWER);
}
TEST(upper)
{
    (void)a, (void)call;
    return in_case(r, ret, self, JJ_IS_UPPER);
}

// clang-format off
static const jj_native tests[] = {
    {"boolean", "", 0, boolean}, {"callable", "", 0, callable}, {"defined", "", 0, defined},
    {"divisibleby", "num", 1, divisibleby}, {"eq", "other", 1, eq}, {"equalto", "other", 1, eq}, {"==", "other", 1, eq},
    {"escaped", "", 0, escaped}, {"even", "", 0, even}, {"false", "", 0, is_false}, {"filter", "", 0, is_filter},
    {"float", "", 0, is_float}, {"ge", "other", 1, ge}, {">=", "other", 1, ge}, {"greaterthan", "other", 1, gt},
    {"gt", "other", 1, gt}, {">", "other", 1, gt}, {"in", "seq", 1, in}, {"integer", "", 0, integer},
    {"iterable", "", 0, iterable}, {"le", "other", 1, le}, {"<=", "other", 1, le}, {"lessthan", "other", 1, lt},
    {"lower", "", 0, lower}, {"lt", "other", 1, lt}, {"<", "other", 1, lt}, {"mapping", "", 0, mapping},
    {"ne", "other", 1, ne}, {"!=", "other", 1, ne}, {"none", "", 0, none}, {"number", "", 0, number},
    {"odd", "", 0, odd},
    {"sameas", "other", 1, sameas}, {"sequence", "", 0, sequence}, {"string", "", 0, string}, {"test", "", 0, is_test},
    {"true", "", 0, is_true}, {"undefined", "", 0, undefined}, {"upper", "", 0, upper},
};
// clang-format on

const jj_native *bt_jj_test_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strlen(tests[i].name) == len && memcmp(tests[i].name, name, len) == 0) return &tests[i];
    return NULL;
}
