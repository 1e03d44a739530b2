/* Prompts on an NPU, by the programs that the compiler would make of the model's sizes: the price that `baton
 * price`, plan and simulate forecast by: linears on the NPU and all else beside it, or all of it on the NPU
 * where
 * "~all" stands behind a row's programs. The recipe has the
 * bits of the row's form and nothing that is Baton's own: no rotation and no shadow. */
#include "lab/plan/sketch.h"
#include "npu/price/schedule_play.h"
#include "tests/validate/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKETCHES = 256, WINDOW = 4, KEY_BYTES = 256 };
typedef struct sketched {
    char key[KEY_BYTES];
    const char *why; /* it has no programs; NULL: it has */
    bt_pkg *pkg;
    bt_price_pkg *price; /* NULL: to be made, of the profile as it is */
} sketched;
static sketched all[SKETCHES];
static size_t len;

void val_programs_forget(bool is_compiled_too)
{
    for (size_t i = 0; i < len; i++) {
        bt_price_pkg_free(all[i].price);
        all[i].price = NULL;
        if (is_compiled_too) bt_pkg_close(all[i].pkg);
    }
    if (is_compiled_too) len = 0;
}

/* The context that programs are static in, or that holds the row's longest prompt. */
static uint32_t ctx_of(const val_row *r)
{
    const char *at = strchr(r->programs, '@');
    uint32_t ctx = at ? (uint32_t)atoi(at + 1) : 512;
    while (!at && ctx < r->rows_to) ctx *= 2;
    return ctx;
}

/* "128", "32+64", "32:256" (all multiples of the first), "@4096" behind it: their context. */
static void shapes_of(bt_shapes *ret, const val_row *r)
{
    const uint32_t ctx = strchr(r->programs, '@') ? ctx_of(r) : 0;
    char *end;
    *ret = (bt_shapes){.all = 0};
    for (const char *t = r->programs;; t = end + 1) {
        const uint32_t by = (uint32_t)strtoul(t, &end, 10);
        const uint32_t most = *end == ':' ? (uint32_t)strtoul(end + 1, &end, 10) : by;
        for (uint32_t rows = by; by && rows <= most && ret->all < BT_SHAPES_MAX; rows += by)
            ret->shape[ret->all++] = (bt_shape){.seq_min = rows, .seq = rows, .ctx = ctx, .batch = 1};
        if (*end != '+') break;
    }
    bt_shapes_arrange(ret);
}

/* Floats have weights of their own width, so any bits will do; inputs that a device lacks have 8. */
static bt_err recipe_of(bt_recipe *ret, const bt_profile *p, const bt_dims *s, const bt_price_recipe *f,
                        bt_fault *fault)
{
    char name[64];
    (void)snprintf(name, sizeof name, "w%ua%u:no-rotate,shadow=off", f->weight_bits == 4 ? 4U : 8U,
                   (unsigned)f->input_bits);
    const bt_err e = bt_recipe_parse(ret, name, fault);
    if (e < 0 || tool_plan_sketch_check(p, s, ret, fault) == BT_OK) return e;
    return bt_recipe_parse(ret, "w8a8:no-rotate,shadow=off", fault);
}

static void compile(sketched *k, const bt_profile *p, const val_row *r, const bt_dims *s,
                    const bt_price_recipe *f)
{
    bt_shapes shapes;
    bt_recipe recipe;
    bt_attention attention;
    bt_fault fault;
    const tool_plan_sketch_want w = {.profile = p,
                                     .dims = s,
                                     .recipe = &recipe,
                                     .attention = &attention,
                                     .shapes = &shapes,
                                     .ctx_tokens = ctx_of(r),
                                     .npu_ops =
                                         strstr(r->programs, "~all") ? BT_PKG_OPS_ALL : BT_PKG_OPS_LINEAR};
    shapes_of(&shapes, r);
    if (recipe_of(&recipe, p, s, f, &fault) < 0 || bt_attention_parse(&attention, NULL, &fault) < 0 ||
        tool_plan_sketch_check(p, s, &recipe, &fault) < 0 || tool_plan_sketch(&k->pkg, &w, &fault) < 0)
        k->why = "no programs are compiled of such a model";
}

static sketched *find(const bt_profile *p, const val_row *r, const bt_dims *s, const bt_price_recipe *f)
{
    char key[KEY_BYTES];
    size_t i = 0;
    bt_fault fault;
    (void)snprintf(key, sizeof key, "%.60s@%.30s %.90s %.16s %.40s %u", r->device, r->stack, r->shape,
                   r->form, r->programs, (unsigned)ctx_of(r));
    while (i < len && strcmp(all[i].key, key)) i++;
    if (i == SKETCHES) val_die(key, "more programs than are kept");
    sketched *k = &all[i];
    if (i == len) {
        *k = (sketched){.why = NULL};
        memcpy(k->key, key, sizeof key);
        compile(k, p, r, s, f);
        len++;
    }
    const bt_price_pkg_config config = {.pkg = k->pkg, .npu = p, .kv_elem_bits = f->kv_elem_bits};
    if (!k->why && !k->price && bt_price_pkg_new(&k->price, &config, &fault) < 0) val_die(key, fault.text);
    return k;
}

/* "~ooo" behind the programs: chunks that the stack itself runs out of order. */
static double played_us(bt_schedule_play *play, uint64_t tokens)
{
    bt_work_played w;
    if (!bt_schedule_play_prompt(play, &w, 0, tokens)) val_die("ooo", "a prompt cannot be played");
    return (double)w.ns / 1e3;
}

static double serial_us(bt_price_pkg *price, uint64_t tokens)
{
    bt_price_pkg_chunk c;
    bt_fault fault;
    double us = 0;
    for (uint64_t at = 0; at < tokens; at += c.valid) {
        if (bt_price_pkg_cut(&c, price, 0, at, tokens, &fault) < 0) val_die("programs", fault.text);
        us += (double)bt_price_pkg_sum(price, &c).ns / 1e3;
    }
    return us;
}

/* Nothing can be compiled where only the number of weights is known: the price is arithmetic. */
static double arithmetic_us(const val_row *r, const bt_profile *p, const bt_dims *s, const bt_price_recipe *f)
{
    static bt_price price;
    const uint32_t rows = (uint32_t)strtoul(r->programs, NULL, 10);
    bt_fault fault;
    if (bt_price_of_dims(&price, p, s, f, &rows, 1, &fault) < 0) val_die(r->shape, fault.text);
    return (double)bt_price_prompt(&price, r->rows).ns / 1e3;
}

double val_programs_us(val_row *r, const bt_profile *p, const bt_dims *s, const bt_price_recipe *f)
{
    if (!s->heads) return arithmetic_us(r, p, s, f);
    sketched *k = find(p, r, s, f);
    const bt_schedule_play_config config = {.price = k->price, .policy = BT_SCHEDULE_OOO, .window = WINDOW};
    bt_schedule_play *play = NULL;
    bt_fault fault;
    double us = 0;
    r->unpriced = k->why;
    if (k->why) return 0;
    if (strstr(r->programs, "~ooo") && bt_schedule_play_new(&play, &config, &fault) < 0)
        val_die("ooo", fault.text);
    for (uint64_t tokens = r->rows; tokens <= r->rows_to; tokens++)
        us += play ? played_us(play, tokens) : serial_us(k->price, tokens);
    bt_schedule_play_free(play);
    return us / (double)(r->rows_to - r->rows + 1);
}
