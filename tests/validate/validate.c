/* make validate: the time model against what others measured. measured.json holds every published figure with
 * its source, what may calibrate a profile and what is held out, and the constants of each profile that
 * calibration may set. Everything is compared as a time: error = predicted / published - 1.
 *
 *   validate FILE          the table, and what the held-out rows say together
 *   validate FILE --fit    the constants that calibration rows give; fails where a profile has others */
#include "device/price.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    return v ? json_number_value(v) : 0;
}
static uint64_t whole(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}
static const char *text(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}
static void die(const char *what, const bt_fault *fault)
{
    fprintf(stderr, "validate: %s: %s\n", what, fault ? fault->text : "cannot be read");
    exit(1);
}

/* A model of which only the weights are published has no shape: one square matrix a layer stands for it. */
static bt_dims shape_of(const json_t *row)
{
    const bt_dims *known = bt_dims_find(text(row, "shape"));
    if (known) return *known;
    if (!whole(row, "weights")) die(text(row, "shape"), NULL);
    return (bt_dims){.name = "", .layers = 1,      .hidden = 1, .ffn = (uint32_t)(whole(row, "weights") / 2),
                     .vocab = 1, .ffn_matrices = 2};
}

static bt_price_recipe recipe_of(const json_t *row)
{
    return (bt_price_recipe){
        .weight_bits = (uint32_t)whole(row, "weight_bits"),
        .input_bits = (uint32_t)whole(row, "input_bits"),
        .kv_elem_bits = 16,
        .ctx = strcmp(text(row, "kind"), "program") ? 0 : (uint32_t)whole(row, "ctx"),
        .weight_bytes_permille = (uint32_t)whole(row, "weight_bytes_permille"),
    };
}

static double step_ns(const bt_profile *p, const bt_price_model *m, bt_price_step s)
{
    return (double)bt_price_step_of(p, m, &s).ns;
}

/* Prompts one after the other in batches that a step of the GPU holds, then all sequences decode together. */
static double batch_ns(const bt_profile *p, const bt_price_model *m, const json_t *row)
{
    const uint64_t batch = whole(row, "batch"), in = whole(row, "tokens"), out = whole(row, "steps");
    double ns = (double)batch * (double)in / 2048 * step_ns(p, m, bt_price_prefill_step(0, 2048));
    for (uint64_t i = 1; i < out; i++) ns += step_ns(p, m, bt_price_decode_step(batch, in + i));
    return ns;
}

static double predicted_ns(const bt_profile *p, const json_t *row)
{
    const char *kind = text(row, "kind");
    const bt_price_recipe r = recipe_of(row);
    bt_fault fault = {""};
    if (!strcmp(kind, "matrix")) {
        const bt_time_matrix m = {.rows = whole(row, "rows"), .inputs = whole(row, "inputs"),
                                  .outputs = whole(row, "outputs"), .weight_bits = r.weight_bits,
                                  .input_bits = r.input_bits};
        return (double)bt_time_of_matrix(p, &m);
    }
    const bt_dims s = shape_of(row);
    const bt_price_model m = bt_price_model_of(&s, &r);
    if (!strcmp(kind, "step_prompt")) return step_ns(p, &m, bt_price_prefill_step(0, whole(row, "tokens")));
    if (!strcmp(kind, "decode"))
        return (double)whole(row, "steps") * step_ns(p, &m, bt_price_decode_step(1, whole(row, "ctx")));
    if (!strcmp(kind, "batch")) return batch_ns(p, &m, row);
    static bt_price price;
    const json_t *list = json_object_get(row, "programs");
    uint32_t rows[BT_PRICE_MAX_PROGRAMS];
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < BT_PRICE_MAX_PROGRAMS; i++)
        rows[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    if (bt_price_of_dims(&price, p, &s, &r, rows, n, &fault) < 0) die(p->name, &fault);
    /* A published mean over prompts of several lengths: the mean over these lengths. */
    const uint64_t from = whole(row, "tokens"), to = whole(row, "tokens_to") ? whole(row, "tokens_to") : from;
    double sum = 0;
    for (uint64_t tokens = from; tokens <= to; tokens++) sum += (double)bt_price_prompt(&price, tokens).ns;
    return sum / (double)(to - from + 1);
}

static double published_ns(const json_t *row)
{
    const double v = number(row, "published");
    if (!strcmp(text(row, "unit"), "ms")) return v * 1e6;
    if (!strcmp(text(row, "unit"), "s")) return v * 1e9;
    if (!strcmp(text(row, "kind"), "decode")) return (double)whole(row, "steps") / v * 1e9;
    if (!strcmp(text(row, "kind"), "batch"))
        return (double)(whole(row, "batch") * whole(row, "steps")) / v * 1e9;
    return (double)whole(row, "tokens") / v * 1e9;
}

static bt_profile profile_of(const char *name)
{
    bt_profile p;
    bt_fault fault = {""};
    if (bt_profile_load(&p, name, &fault) < 0) die(name, &fault);
    return p;
}

/* ---- the table ---- */
enum { MAX_HELD = 512 };
typedef struct tally {
    double error[MAX_HELD];
    size_t n;
} tally;
static int by_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}
static void print_tally(tally *t, const char *what)
{
    size_t within = 0, near = 0;
    if (!t->n) return;
    qsort(t->error, t->n, sizeof *t->error, by_size);
    const double median = (fabs(t->error[(t->n - 1) / 2]) + fabs(t->error[t->n / 2])) / 2;
    for (size_t i = 0; i < t->n; i++) {
        near += fabs(t->error[i]) <= 0.15;
        within += fabs(t->error[i]) <= 0.35;
    }
    printf("%-24s %3zu held out: median %4.1f %%, within 15 %%: %zu, within 35 %%: %zu (%.1f %%), worst "
           "%+.0f %%\n",
           what, t->n, median * 100, near, within, 100.0 * (double)within / (double)t->n,
           t->error[t->n - 1] * 100);
}

static const char *use_of(const json_t *row)
{
    const char *use = text(row, "use");
    return !strcmp(use, "hold")        ? "held out"
           : !strcmp(use, "calibrate") ? "calibration"
           : !strcmp(use, "other")     ? "not judged"
                                       : "uncalibrated";
}

static void print_row(const json_t *row, tally *held)
{
    const char *use = text(row, "use");
    if (!strcmp(use, "none")) {
        printf("%3" PRIu64 "  %-12s  %s: %s [%s]\n", whole(row, "row"), use_of(row), text(row, "setting"),
               text(row, "why"), text(row, "source"));
        return;
    }
    const bt_profile p = profile_of(text(row, "profile"));
    const double want = published_ns(row), got = predicted_ns(&p, row), error = got / want - 1;
    printf("%3" PRIu64 "  %-12s  %-22s  %-15s  %-34s  %10.2f  %10.2f  %+5.0f %%%s%s\n", whole(row, "row"),
           use_of(row), p.name, text(row, "shape"), text(row, "setting"), want / 1e6, got / 1e6, error * 100,
           !strcmp(use, "other") ? "  " : "", text(row, "why"));
    if (!strcmp(use, "hold") && held->n < MAX_HELD) held->error[held->n++] = error;
}

static void print_table(const json_t *rows, const json_t *free_of)
{
    tally all = {.n = 0};
    size_t i;
    json_t *row;
    const char *name;
    json_t *constants;
    printf("row  use           profile                 model            setting                             "
           "published  "
           " predicted    error  (ms)\n");
    json_array_foreach((json_t *)(uintptr_t)rows, i, row) print_row(row, &all);
    printf("\n");
    json_object_foreach((json_t *)(uintptr_t)free_of, name, constants) {
        tally one = {.n = 0};
        size_t calibration = 0;
        json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
            if (strcmp(text(row, "profile"), name)) continue;
            const bt_profile p = profile_of(name);
            if (!strcmp(text(row, "use"), "calibrate")) calibration++;
            if (!strcmp(text(row, "use"), "hold"))
                one.error[one.n++] = predicted_ns(&p, row) / published_ns(row) - 1;
        }
        printf("%-24s %zu free constants, %zu calibration figures:", name, json_array_size(constants),
               calibration);
        json_array_foreach(constants, i, row) printf(" %s", json_string_value(row));
        printf("\n");
        print_tally(&one, "");
    }
    printf("\n");
    print_tally(&all, "together");
    printf("goal: median within 15 %%, nine in ten within 35 %%\n");
}

/* ---- calibration ---- */
/* Constants are set in the profile's own text, so that its checks stand: no rate above the memory's. */
static bt_err with(bt_profile *ret, json_t *root, const char *name, int64_t value)
{
    json_t *time = json_object_get(root, "time");
    bt_fault fault;
    if (!strncmp(name, "efficiency.", 11)) {
        json_t *pair = json_array_get(json_object_get(time, "efficiency"), (size_t)atoi(name + 11));
        json_array_set_new(pair, 1, json_integer(value));
    } else {
        json_object_set_new(time, name, json_integer(value));
    }
    char *s = json_dumps(root, 0);
    const bt_err e = s ? bt_profile_parse(ret, s, strlen(s), &fault) : BT_ENOMEM;
    free(s);
    return e;
}
static int64_t value_of(const json_t *root, const char *name)
{
    const json_t *time = json_object_get(root, "time");
    if (!strncmp(name, "efficiency.", 11))
        return json_integer_value(
            json_array_get(json_array_get(json_object_get(time, "efficiency"), (size_t)atoi(name + 11)), 1));
    return json_integer_value(json_object_get(time, name));
}
/* The penalty of x = ln(predicted / published): a square where x is small, so that there is one best answer,
 * and a line where it is large, so that one wild figure does not pull it away (pseudo-Huber, bent at a
 * fifth). The loss is its mean over the calibration figures. */
static double penalty(double x) { return 0.2 * (sqrt(1 + x * x / 0.04) - 1); }
static double loss(const bt_profile *p, const json_t *rows)
{
    size_t i, n = 0;
    json_t *row;
    double sum = 0;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
        if (!strcmp(text(row, "profile"), p->name) && !strcmp(text(row, "use"), "calibrate")) {
            sum += penalty(log(predicted_ns(p, row) / published_ns(row)));
            n++;
        }
    return n ? sum / (double)n : 0;
}

/* Each constant in turn, then two at a time in opposite directions, by steps that halve. */
static double try_steps(json_t *root, const json_t *rows, const json_t *names, double step, double best)
{
    const size_t n = json_array_size(names);
    bt_profile p;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++)
            for (int d = 0; d < 4; d++) {
                const char *a = json_string_value(json_array_get(names, i)),
                           *b = json_string_value(json_array_get(names, k));
                const int64_t old_a = value_of(root, a), old_b = value_of(root, b);
                const int64_t new_a = llround((double)old_a * (d & 1 ? 1 + step : 1 / (1 + step))),
                              new_b = llround((double)old_b * (d & 2 ? 1 + step : 1 / (1 + step)));
                bool ok = with(&p, root, a, new_a) == BT_OK && (i == k || with(&p, root, b, new_b) == BT_OK);
                const double now = ok ? loss(&p, rows) : INFINITY;
                if (now < best - 1e-9) {
                    best = now;
                } else {
                    (void)with(&p, root, b, old_b);
                    (void)with(&p, root, a, old_a);
                }
            }
    return best;
}

static int fit(const json_t *rows, const json_t *free_of)
{
    const char *name;
    json_t *names;
    int rc = 0;
    json_object_foreach((json_t *)(uintptr_t)free_of, name, names) {
        json_t *root = NULL;
        size_t i = 0;
        json_t *c;
        for (; bt_profile_name(i); i++)
            if (!strcmp(bt_profile_name(i), name)) root = json_loads(bt_profile_json(i), 0, NULL);
        if (!root) die(name, NULL);
        const bt_profile given = profile_of(name);
        const double first = loss(&given, rows);
        double best = first;
        for (double step = 0.2; step > 0.0005;) {
            const double next = try_steps(root, rows, names, step, best);
            if (next > best - 1e-6) step /= 2;
            best = next;
        }
        const bool is_fitted = first < best + 0.0005;
        printf("%-24s loss %.4f, profile %.4f%s:", name, best, first, is_fitted ? "" : " NOT FITTED");
        json_array_foreach(names, i, c)
            printf(" %s=%" PRId64, json_string_value(c), value_of(root, json_string_value(c)));
        printf("\n");
        rc |= !is_fitted;
        json_decref(root);
    }
    return rc;
}

int main(int argc, char **argv)
{
    json_error_t je;
    json_t *root = argc >= 2 ? json_load_file(argv[1], 0, &je) : NULL;
    if (!root) {
        fprintf(stderr, "usage: validate tests/validate/measured.json [--fit]\n");
        return 2;
    }
    const json_t *rows = json_object_get(root, "rows"), *free_of = json_object_get(root, "free");
    int rc = 0;
    if (argc > 2 && !strcmp(argv[2], "--fit")) rc = fit(rows, free_of);
    else print_table(rows, free_of);
    json_decref(root);
    return rc;
}
