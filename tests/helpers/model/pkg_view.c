/* Packages that are damaged. See pkg_view.h. */
#include "tests/helpers/model/pkg_view.h"
#include "npu/pkg/pkg_private.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void *pkg_view_const(const pkg_view *v, uint32_t index) { return v->bytes + v->c[index].offset; }

pkg_view pkg_view_of(uint8_t *b, size_t len)
{
    pkg_view v = {.bytes = b, .len = len, .h = (void *)b};
    v.c = (void *)(b + v.h->consts.offset);
    v.t = (void *)(b + v.h->tensors.offset);
    v.s = (void *)(b + v.h->sites.offset);
    v.r = (void *)(b + v.h->rows.offset);
    v.p = (bt_pkg_program *)(void *)(b + v.h->programs.offset) + BT_PKG_OUT_LAST;
    v.code = pkg_view_const(&v, v.p->code);
    v.plan = pkg_view_const(&v, v.p->plan);
    return v;
}

bt_pkg_inst *pkg_view_inst(const pkg_view *v, bt_pkg_op op, uint32_t n)
{
    for (uint32_t i = 0; i < v->p->insts; i++)
        if (v->code[i].op == op && n-- == 0) return &v->code[i];
    fail_msg("no %s", bt_pkg_op_name(op));
    return NULL;
}

bt_pkg_tensor *pkg_view_tensor(const pkg_view *v, uint32_t layer, bt_weight w)
{
    return &v->t[bt_pkg_tensor_index(v->h->layers, layer, w)];
}

bt_pkg_site *pkg_view_site(const pkg_view *v, uint32_t layer, bt_site_kind k)
{
    return &v->s[bt_pkg_site_index(v->h->layers, layer, k)];
}

void pkg_view_name(const pkg_view *v, uint32_t *index, uint32_t to)
{
    if (*index != BT_PKG_NONE) v->c[*index].refs--;
    if (to != BT_PKG_NONE) v->c[to].refs++;
    *index = to;
}

void pkg_view_expect(const char *words, uint8_t *b, size_t len)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    tiny_pkg_repair(b, len);
    const bt_err e = bt_pkg_from_bytes(&p, b, len, NULL, true, NULL, &f);
    if (e == BT_OK || !strstr(f.text, words)) fail_msg("wanted '%s', got %d '%s'", words, e, f.text);
    assert_true(e == BT_EFORMAT || e == BT_EVERSION);
    assert_null(p);
}

void pkg_view_each(const uint8_t *valid, size_t len, const char *const *words, int count,
                   void (*change)(pkg_view *v, int which))
{
    uint8_t *b = tiny_pkg_alloc(len);
    for (int i = 0; i < count; i++) {
        memcpy(b, valid, len);
        pkg_view v = pkg_view_of(b, len);
        change(&v, i);
        pkg_view_expect(words[i], b, len);
    }
    free(b);
}
