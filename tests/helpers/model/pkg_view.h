#ifndef TESTS_PKG_VIEW_H
#define TESTS_PKG_VIEW_H
#include <stddef.h>
#include <stdint.h>
#include "model/weight.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/recipe.h"

/* A package's bytes with everything in them writable, for tests that damage one thing. Failures of the helper itself
 * abort. p: the program that ends with the last row's logits, its code and its plan. */
typedef struct pkg_view {
    uint8_t *bytes;
    size_t len;
    bt_pkg_header *h;
    bt_pkg_const *c;
    bt_pkg_tensor *t;
    bt_pkg_site *s;
    bt_pkg_row *r;
    bt_pkg_program *p;
    bt_pkg_inst *code;
    bt_pkg_place *plan;
} pkg_view;
pkg_view pkg_view_of(uint8_t *bytes, size_t len);
void *pkg_view_const(const pkg_view *v, uint32_t index);
bt_pkg_inst *pkg_view_inst(const pkg_view *v, bt_pkg_op op, uint32_t n); /* the n-th of this kind */
bt_pkg_tensor *pkg_view_tensor(const pkg_view *v, uint32_t layer, bt_weight w);
bt_pkg_site *pkg_view_site(const pkg_view *v, uint32_t layer, bt_site_kind k);
/* Points an index at another constant and keeps both counts of references. */
void pkg_view_name(const pkg_view *v, uint32_t *index, uint32_t to);

/* For a list of damages, DAMAGES(X), of X(words of the message, what is changed) with a pkg_view *v at hand: the words
 * as a list, and the which-th change in a function that has `which` and i, 0. */
#define INST(op, n)        pkg_view_inst(v, BT_PKG_##op, n)
#define TENSOR(layer, w)   pkg_view_tensor(v, layer, BT_WEIGHT_##w)
#define SITE(layer, k)     pkg_view_site(v, layer, BT_SITE_##k)
#define CONST(type, index) (*(type *)pkg_view_const(v, index)) /* the value at the head of a constant */
#define NAMED(index, at)   pkg_view_name(v, &(index), at)
#define WORDS(words, ...)  words,
#define CHANGE(words, ...) \
    if (i++ == which) { \
        (void)(__VA_ARGS__); \
        return; \
    }

/* The bytes, made right again (tiny_pkg_repair), must be refused with these words. */
void pkg_view_expect(const char *words, uint8_t *bytes, size_t len);
/* Each of `count` damages, of a copy of the valid package, must be refused with its words. */
void pkg_view_each(const uint8_t *valid, size_t len, const char *const *words, int count,
                   void (*change)(pkg_view *v, int which));
#endif
