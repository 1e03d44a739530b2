/* Rows that nothing can be judged by, named and counted apart: those faster than the device's own peaks,
 * which a cache or an error explains, those of models that need terms which prices lack, and those that
 * contradict another row of the same device and stack. Whole prompts and steps are compared beyond their
 * model too: by what a price counts. */
#include "tests/validate/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char beyond_memory[] = "faster than the memory's peak";
static const char beyond_peak[] = "faster than the matrix unit's peak";
static const char lacks_terms[] = "the model needs terms that prices lack: experts, latents";
static const char beyond_window[] = "beyond a window: no such row calibrates, so that no error is told of it";
static const char other_says[] = "the same setting was measured otherwise: over 25 % apart";
static const char falls[] = "contradicts others: a larger setting takes under 0.8 of a smaller one";
static const char more_is_less[] =
    "contradicts others: as much work of every kind or more takes under 0.8 of the time";

/* Weights and KV that a step reads, of all devices. A served token's request is half through its output. */
static double step_bytes(const val_row *r, const bt_dims *s)
{
    bt_price_recipe f;
    if (!val_recipe(&f, r)) return 0;
    const bt_price_model m = bt_price_model_of(s, &f);
    const uint64_t context = r->kind == VAL_STEP ? r->context : r->rows + r->out / 2;
    return (double)m.weight_bytes + (double)m.kv_bytes * (double)(r->batch * context);
}

/* Bytes that must be read, of a device. */
static double bytes_of(const val_row *r)
{
    unsigned a = 0, b = 0, c = 0;
    bt_dims s;
    if (r->kind == VAL_ATTENTION_STEP && sscanf(r->shape, "%u/%u/%u", &a, &b, &c) == 3)
        return (double)r->batch * (double)r->context * 2 * b * c * (strstr(r->form, "/fp8") ? 1 : 2);
    const double of_weight = strncmp(r->form, "fp8", 3) ? 2 : 1;
    if (r->kind == VAL_LINEAR && sscanf(r->shape, "%ux%u", &a, &b) == 2) return (double)a * b * of_weight;
    if (r->kind == VAL_PRODUCTS && val_dims(&s, r->shape))
        return (double)bt_dims_body(&s) * of_weight / r->devices;
    if ((r->kind == VAL_STEP || r->kind == VAL_SERVED_TPOT) && val_dims(&s, r->shape))
        return step_bytes(r, &s) / r->devices;
    return 0;
}

static double ops_of(const val_row *r)
{
    unsigned a = 0, b = 0, c = 0;
    bt_dims s;
    if (r->kind == VAL_ATTENTION && sscanf(r->shape, "%u/%u/%u", &a, &b, &c) == 3)
        return 2.0 * (double)r->batch * (double)r->rows * (double)r->rows * a * c;
    if (r->kind == VAL_LINEAR && sscanf(r->shape, "%ux%u", &a, &b) == 2) return 2.0 * (double)r->rows * a * b;
    if ((r->kind == VAL_PRODUCTS || (r->kind == VAL_PROMPT && !*r->programs)) && val_dims(&s, r->shape))
        return 2.0 * (double)r->rows * (double)bt_dims_body(&s) / r->devices;
    return 0;
}

static const char *beyond(const val_row *r)
{
    const char *why;
    const bt_profile *p = val_profile(r, &why);
    if (!p || r->unpriced) return NULL;
    const double peak =
        (double)p->time.f16_ops_per_us *
        (strncmp(r->form, "fp8", 3) && strncmp(r->form, "w8a8", 4) && strncmp(r->form, "nvfp4", 5)
             ? 1
             : (double)(p->time.int8_permille ? p->time.int8_permille : 1000) / 1000) *
        (strncmp(r->form, "nvfp4", 5) ? 1 : 2) *
        (r->kind == VAL_ATTENTION && strstr(r->form, "/fp8") ? 2 : 1);
    if (bytes_of(r) > r->measured * (double)p->time.memory_bytes_per_us) return beyond_memory;
    return ops_of(r) > r->measured * peak ? beyond_peak : NULL;
}

/* Prices of whole models are bounds where they leave a field of the sizes out; beyond a window forecasts know
 * no error (device/forecast.h). NULL: neither. */
static const char *unknown(const val_row *r)
{
    bt_dims s;
    if (r->kind < VAL_PROMPT || !val_dims(&s, r->shape)) return NULL;
    const uint64_t positions = r->rows_to + r->out > r->context ? r->rows_to + r->out : r->context;
    if (s.experts || s.latent_rank || s.others) return lacks_terms;
    return s.windowed && positions > s.window ? beyond_window : NULL;
}

/* All that a price counts: it is a sum of terms that each grow with one of these. */
enum { COUNTS = 6 };
typedef struct counts {
    double of[COUNTS]; /* launches; weights; their products; KV; pairs of a row and a position; small
                          operators */
} counts;

static bool is_whole(const val_row *r) { return r->kind == VAL_PROMPT || r->kind == VAL_STEP; }

/* false: sizes that are not known. */
static bool count(counts *ret, const val_row *r)
{
    bt_dims s;
    if (!val_dims(&s, r->shape) || !s.heads) return false;
    const double rows = r->kind == VAL_STEP ? (double)r->batch : (double)(r->rows + r->rows_to) / 2,
                 batch = r->kind == VAL_STEP ? (double)r->batch : 1,
                 positions = r->kind == VAL_STEP ? (double)r->context : rows,
                 pairs = r->kind == VAL_STEP ? rows * positions : rows * positions / 2,
                 body = (double)bt_dims_body(&s), head = (double)bt_dims_head(&s), layers = s.layers;
    *ret = (counts){{layers, body + head, rows * body + batch * head,
                     batch * positions * layers * s.kv_heads * s.head_dim,
                     pairs * layers * s.heads * s.head_dim, rows * layers * s.hidden}};
    return true;
}

/* -1: a is less in some counts and more in none, 1: the other way round, 0: all are equal; 2: neither. */
static int compare(const counts *a, const counts *b)
{
    bool is_less = false, is_more = false;
    for (int i = 0; i < COUNTS; i++) is_less |= a->of[i]<b->of[i], is_more |= a->of[i]> b->of[i];
    return is_less && is_more ? 2 : is_less ? -1 : is_more;
}

/* Rows of one setting but for its length or its batch stand together; whole prompts and steps of all models.
 */
static int by_setting(const void *a, const void *b)
{
    const val_row *x = *(val_row *const *)a, *y = *(val_row *const *)b;
    int c = (int)x->kind - (int)y->kind;
    if (!c) c = strcmp(x->device, y->device);
    if (!c) c = strcmp(x->stack, y->stack);
    if (!c && !is_whole(x)) c = strcmp(x->shape, y->shape);
    if (!c) c = strcmp(x->form, y->form);
    if (!c) c = strcmp(x->programs, y->programs);
    if (!c) c = strcmp(x->note, y->note);
    if (!c) c = (int)x->devices - (int)y->devices;
    if (!c) c = (x->out > y->out) - (x->out < y->out);
    if (!c) c = (x->batch > y->batch) - (x->batch < y->batch);
    if (!c) c = (x->context > y->context) - (x->context < y->context);
    if (!c) c = (x->rows > y->rows) - (x->rows < y->rows);
    return c;
}
static bool is_one_group(const val_row *x, const val_row *y)
{
    return x->kind == y->kind && x->devices == y->devices && x->out == y->out &&
           !strcmp(x->device, y->device) && !strcmp(x->stack, y->stack) &&
           (is_whole(x) || !strcmp(x->shape, y->shape)) && !strcmp(x->form, y->form) &&
           !strcmp(x->programs, y->programs) && !strcmp(x->note, y->note);
}

/* Whole prompts and steps are compared whatever their model. */
static const char *contradict_by_work(const val_row *x, const val_row *y)
{
    counts a, b;
    const double ratio = y->measured / x->measured;
    if (!count(&a, x) || !count(&b, y)) return NULL;
    const int c = compare(&a, &b);
    if (!c) return ratio > 1.25 || ratio < 0.8 ? other_says : NULL;
    return (c == -1 && ratio < 0.8) || (c == 1 && ratio > 1.25) ? more_is_less : NULL;
}

/* Why two rows contradict each other; NULL: they do not. */
static const char *contradict(const val_row *x, const val_row *y)
{
    const uint64_t mean_x = x->rows + x->rows_to, mean_y = y->rows + y->rows_to;
    const bool is_equal =
                   x->batch == y->batch && mean_x == mean_y && (x->context == y->context || x->rows > 1),
               is_less = x->batch <= y->batch && mean_x <= mean_y && x->context <= y->context,
               is_more = x->batch >= y->batch && mean_x >= mean_y && x->context >= y->context;
    const double ratio = y->measured / x->measured;
    const char *by_work = is_whole(x) ? contradict_by_work(x, y) : NULL;
    if (by_work || strcmp(x->shape, y->shape)) return by_work;
    if (is_equal) return ratio > 1.25 || ratio < 0.8 ? other_says : NULL;
    return (is_less && ratio < 0.8) || (is_more && ratio > 1.25) ? falls : NULL;
}

/* The row that contradicts most others goes apart, until no two do; of two that contradict only each other,
 * both. */
static void settle(val_row **by, size_t n)
{
    for (;;) {
        size_t most = 0, which = 0;
        const char *why = NULL, *most_why = NULL;
        for (size_t i = 0; i < n; i++) {
            size_t count = 0;
            for (size_t k = 0; k < n && !by[i]->apart; k++) {
                const char *w = k == i || by[k]->apart ? NULL : contradict(by[i], by[k]);
                if (w) count++, why = w;
            }
            if (count > most) most = count, which = i, most_why = why;
        }
        if (!most) return;
        for (size_t k = 0; most == 1 && k < n; k++)
            if (k != which && !by[k]->apart && contradict(by[which], by[k])) by[k]->apart = most_why;
        by[which]->apart = most_why;
    }
}

void val_set_apart(val_table *t)
{
    val_row **by = malloc(t->len * sizeof *by);
    size_t n = 0;
    if (!by) val_die("rows", "out of memory");
    for (size_t i = 0; i < t->len; i++) {
        t->row[i].apart = unknown(&t->row[i]);
        if (!t->row[i].apart) t->row[i].apart = beyond(&t->row[i]);
        if (!t->row[i].unpriced && !t->row[i].apart) by[n++] = &t->row[i];
    }
    qsort(by, n, sizeof *by, by_setting);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && is_one_group(by[i], by[end]);) end++;
        settle(by + i, end - i);
    }
    free(by);
}
