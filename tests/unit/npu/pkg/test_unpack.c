/* Packed programs and sessions: unpacked they are the programs that were packed; every field of a piece, of a
 * body and of a session instruction that was changed is refused by name. */
#include "npu/pkg/pkg_private.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const tiny_pkg packed = {.layers = 3, .packed = true, .two_sessions = true, .seqs = {2, 4}},
                      flat = {.layers = 3, .two_sessions = true, .seqs = {2, 4}};

static bt_pkg *open_bytes(const uint8_t *b, size_t len)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    if (bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static void an_unpacked_program_is_the_one_that_was_packed(void **state)
{
    (void)state;
    size_t len[2];
    for (int all = 0; all < 2; all++) {
        tiny_pkg kind[2] = {packed, flat};
        kind[0].ops_all = kind[1].ops_all = all;
        uint8_t *b[2] = {tiny_pkg_bytes(&len[0], &kind[0]), tiny_pkg_bytes(&len[1], &kind[1])};
        bt_pkg *p[2] = {open_bytes(b[0], len[0]), open_bytes(b[1], len[1])};
        assert_int_equal(bt_pkg_header_of(p[0])->rows.count, bt_pkg_header_of(p[1])->rows.count);
        assert_int_equal(bt_pkg_header_of(p[0])->programs.count, 2 * bt_pkg_header_of(p[1])->programs.count);
        for (uint32_t r = 0; r < bt_pkg_header_of(p[0])->rows.count; r++)
            for (int o = 0; o < BT_PKG_OUTS; o++) {
                const uint32_t at[2] = {bt_pkg_rows(p[0])[r].program[o], bt_pkg_rows(p[1])[r].program[o]};
                const bt_pkg_program *x = &bt_pkg_programs(p[0])[at[0]], *y = &bt_pkg_programs(p[1])[at[1]];
                assert_true(bt_pkg_is_packed(p[0], at[0]) && !bt_pkg_is_packed(p[1], at[1]));
                assert_int_equal(x->ctx, bt_pkg_rows(p[0])[r].ctx);
                assert_true(x->insts == y->insts && x->places == y->places);
                assert_memory_equal(bt_pkg_code(p[0], at[0]), bt_pkg_code(p[1], at[1]),
                                    x->insts * sizeof(bt_pkg_inst));
                assert_memory_equal(bt_pkg_plan(p[0], at[0]), bt_pkg_plan(p[1], at[1]),
                                    x->places * sizeof(bt_pkg_place));
            }
        assert_true(len[0] < len[1]);
        for (int i = 0; i < 2; i++) {
            bt_pkg_close(p[i]);
            free(b[i]);
        }
    }
}

/* Compared as they are unpacked. */
static bool are_alike(const bt_pkg *p, uint32_t a, uint32_t b)
{
    const bt_pkg_program *g = bt_pkg_programs(p);
    bool alike = g[a].insts == g[b].insts;
    for (uint32_t i = 0; alike && i < g[a].insts; i++)
        alike = bt_pkg_code(p, a)[i].op == bt_pkg_code(p, b)[i].op &&
                bt_pkg_code(p, a)[i].unit == bt_pkg_code(p, b)[i].unit;
    return alike;
}

static void programs_of_other_rows_have_the_same_steps_and_of_other_endings_others(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t len, alike = 0, others = 0;
        uint8_t *b = tiny_pkg_bytes(&len, i ? &packed : &flat);
        bt_pkg *p = open_bytes(b, len);
        const uint32_t programs = bt_pkg_header_of(p)->programs.count;
        for (uint32_t x = 0; x < programs; x++)
            for (uint32_t y = 0; y < programs; y++) {
                assert_int_equal(bt_pkg_has_steps_of(p, x, y), are_alike(p, x, y));
                if (!are_alike(p, x, y)) others++;
                else if (bt_pkg_programs(p)[x].code != bt_pkg_programs(p)[y].code) alike++;
            }
        assert_true(alike && others);
        bt_pkg_close(p);
        free(b);
    }
}

/* The last program of a package that may be written to. */
typedef struct view {
    bt_pkg_header *h;
    bt_pkg_const *c;
    bt_pkg_row *r;
    bt_pkg_program *p;
    bt_pkg_session *s;
    bt_pkg_piece *q;
    bt_pkg_inst *inst;
    bt_pkg_place *place;
    uint32_t pieces;
    bool packed;
} view;

static view view_of(uint8_t *b)
{
    view v = {.h = (void *)b};
    v.c = (void *)(b + v.h->consts.offset);
    v.r = (void *)(b + v.h->rows.offset);
    v.s = (void *)(b + v.h->sessions.offset);
    v.p = (bt_pkg_program *)(void *)(b + v.h->programs.offset) + v.h->programs.count - 1;
    v.packed = v.h->body_code != 0;
    if (v.packed) v.q = (void *)(b + v.c[v.p->code].offset);
    v.pieces = v.packed ? (uint32_t)(v.c[v.p->code].bytes / sizeof *v.q) : 0;
    v.inst = (void *)(b + v.c[v.packed ? v.h->body_code : v.p->code].offset);
    v.place = (void *)(b + v.c[v.packed ? v.h->body_plan : v.p->plan].offset);
    return v;
}

/* The first piece of a layer; its first instruction with a tensor; with a site; the n-th SESSION of a flat
 * program. */
static bt_pkg_piece *layer_piece(const view *v)
{
    uint32_t i = 0;
    while (v->q[i].layer == UINT32_MAX) i++;
    return &v->q[i];
}
static bt_pkg_inst *with_tensor(const view *v)
{
    bt_pkg_inst *i = &v->inst[layer_piece(v)->inst];
    while (i->tensor == BT_PKG_NONE) i++;
    return i;
}
static bt_pkg_inst *with_site(const view *v)
{
    bt_pkg_inst *i = &v->inst[layer_piece(v)->inst];
    while (i->site == BT_PKG_NONE) i++;
    return i;
}
static bt_pkg_inst *session(const view *v, int n)
{
    bt_pkg_inst *i = v->inst;
    while (i->op != BT_PKG_SESSION || n-- > 0) i++;
    return i;
}

#define DAMAGES(X) \
    X("piece 0", v->q[0].inst = UINT32_MAX) \
    X("piece 0", v->q[0].insts = 0) \
    X("piece 0", v->q[0].insts = UINT32_MAX) \
    X("piece 0", v->q[0].place = UINT32_MAX) \
    X("piece 0", v->q[0].places = UINT32_MAX) \
    X("piece 0", v->q[0].reserved = 1) \
    X(": piece", v->q[1].insts++) \
    X(": piece", layer_piece(v)->layer = 3) \
    X(": piece", layer_piece(v)->layer = UINT32_MAX) \
    X(": piece", with_tensor(v)->tensor = BT_PKG_LAYER_TENSORS) \
    X(": piece", with_site(v)->site = BT_PKG_LAYER_SITES) \
    X(": piece", with_site(v)->layer = 1) \
    X(": piece", with_tensor(v)->params = 1) \
    X(": piece", with_tensor(v)->params = UINT64_MAX) \
    X(": piece", with_tensor(v)->cluster = UINT32_MAX, layer_piece(v)->cluster = 1) \
    X(": piece", v->place[layer_piece(v)->place].last_inst = UINT32_MAX) \
    X("the pieces have", v->q[v->pieces - 1].places--) \
    X("layer", layer_piece(v)->layer = 2) \
    X("header: body_code", v->c[v->h->body_code].refs--, v->c[1].refs++, v->h->body_code = 1) \
    X("header: body_plan", v->c[v->h->body_plan].refs--, v->h->body_plan = UINT32_MAX) \
    X("header: body_params", v->c[v->h->body_code].refs++, v->h->body_params = v->h->body_code) \
    X("piece 0", v->c[v->h->body_code].refs--, v->h->body_code = 0) \
    X("plan names no constant of places", v->c[v->h->body_plan].refs++, v->p->plan = v->h->body_plan) \
    X("insts", v->p->insts--) \
    X("ctx 33", v->p->ctx = 33) \
    X("is for ctx 15", v->p->ctx = 15)

/* Damages of a package whose programs are flat. */
#define DAMAGES_FLAT(X) \
    X("(session): session 2 of 2", session(v, 1)->arg = 2) \
    X("(session): session 0 is mapped already", session(v, 1)->arg = 0) \
    X("(session): costs 1000000001 ns", session(v, 0)->params = 1000000001) \
    X("(session): has an operand", session(v, 0)->out = 0) \
    X("(session): has an operand", session(v, 0)->layer = 0) \
    X("(session): has an operand", session(v, 0)->unit = BT_PKG_NPU) \
    X("(session): has an operand", session(v, 0)->macs_per_row = 1) \
    X("of layer 0, and session 1 maps layers 1 to 3", session(v, 0)->arg = 1, session(v, 1)->arg = 0) \
    X("session 1: layers 1 to 4", v->s[1].last_layer = 4) \
    X("of layer 3, and session 1 maps layers 1 to 2", v->s[1].last_layer = 2)

#define WORDS(words, ...) words,
#define CHANGE(words, ...) \
    if (i++ == which) { \
        (void)(__VA_ARGS__); \
        return; \
    }
static const char *const words[] = {DAMAGES(WORDS)}, *const words_flat[] = {DAMAGES_FLAT(WORDS)};

static void damage(view *v, int which)
{
    int i = 0;
    DAMAGES(CHANGE)
}
static void damage_flat(view *v, int which)
{
    int i = 0;
    DAMAGES_FLAT(CHANGE)
}

static void each_is_refused(const tiny_pkg *kind, const char *const *want, size_t count,
                            void (*change)(view *, int))
{
    size_t len;
    uint8_t *valid = tiny_pkg_bytes(&len, kind), *b = tiny_pkg_alloc(len);
    for (size_t i = 0; i < count; i++) {
        bt_pkg *p = NULL;
        bt_fault f = {""};
        memcpy(b, valid, len);
        view v = view_of(b);
        change(&v, (int)i);
        tiny_pkg_repair(b, len);
        const bt_err e = bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, &f);
        if (e != BT_EFORMAT || !strstr(f.text, want[i]))
            fail_msg("%zu: wanted '%s', got %d '%s'", i, want[i], e, f.text);
    }
    free(b);
    free(valid);
}

static void each_damage_of_a_piece_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&packed, words, sizeof words / sizeof *words, damage);
}

static void each_damage_of_a_session_is_refused_by_name(void **state)
{
    (void)state;
    each_is_refused(&flat, words_flat, sizeof words_flat / sizeof *words_flat, damage_flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unpacked_program_is_the_one_that_was_packed),
        cmocka_unit_test(programs_of_other_rows_have_the_same_steps_and_of_other_endings_others),
        cmocka_unit_test(each_damage_of_a_piece_is_refused_by_name),
        cmocka_unit_test(each_damage_of_a_session_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
