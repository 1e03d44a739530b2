/* The tables of text: results beside the goals, by tier, kind, device and stack; signed errors by rows, batch
 * and context; rows apart. */
#include "tests/validate/validate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* v is sorted. */
static double at_share(const double *v, size_t n, double share)
{
    const double at = share * (double)(n - 1);
    const size_t i = (size_t)at;
    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[n - 1];
}
double val_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n ? at_share(v, n, 0.5) : 0;
}

/* ---- classes and goals ---- */
// clang-format off
const val_goal val_goals[VAL_CLASSES] = {
    [VAL_CLASS_LINEAR] = {"linear layers", "rows", "devices", 1, 0.06, 0.90, 0.20},
    [VAL_CLASS_SMALL] = {"small operators", "rows", "devices", 1, 0, 0, 0},
    [VAL_CLASS_ATTENTION] = {"attention, prompts", "rows", "batch", 1, 0.12, 0.75, 0.25},
    [VAL_CLASS_ATTENTION_STEP] = {"attention, decode", "context", "batch", 1, 0.12, 0.75, 0.25},
    [VAL_CLASS_ALL_REDUCE] = {"all-reduce", "bytes", "devices", 1, 0.12, 0.75, 0.25},
    [VAL_CLASS_STEP] = {"steps and TPOT", "context", "batch", 2, 0.05, 0.90, 0.15, true},
    [VAL_CLASS_PROMPT] = {"first token, no queue", "rows", "batch", 2, 0.10, 0, 0},
    [VAL_CLASS_JOULES] = {"joules", "context", "batch", 2, 0, 0, 0},
};
// clang-format on
static const val_goal of_npu = {.median = 0.14, .share = 0.90, .within = 0.35};

val_class val_class_of(const val_row *r)
{
    static const val_class of[VAL_KINDS] = {
        [VAL_LINEAR] = VAL_CLASS_LINEAR,         [VAL_MATRIX] = VAL_CLASS_LINEAR,
        [VAL_PRODUCTS] = VAL_CLASS_LINEAR,       [VAL_SMALL] = VAL_CLASS_SMALL,
        [VAL_ATTENTION] = VAL_CLASS_ATTENTION,   [VAL_ATTENTION_STEP] = VAL_CLASS_ATTENTION_STEP,
        [VAL_ALL_REDUCE] = VAL_CLASS_ALL_REDUCE, [VAL_STEP] = VAL_CLASS_STEP,
        [VAL_SERVED_TPOT] = VAL_CLASS_STEP,      [VAL_RUN] = VAL_CLASS_STEP,
        [VAL_PROMPT] = VAL_CLASS_PROMPT,         [VAL_JOULES_PROMPT] = VAL_CLASS_JOULES,
        [VAL_JOULES_STEP] = VAL_CLASS_JOULES,
    };
    return of[r->kind];
}

bool val_is_npu(const val_row *r) { return strstr(r->file, "npus") || strstr(r->file, "aihub"); }

val_goal val_goal_of(val_class c, bool is_npu, val_use use)
{
    val_goal g = val_goals[c];
    if (is_npu && c != VAL_CLASS_JOULES)
        g.median = of_npu.median, g.share = of_npu.share, g.within = of_npu.within, g.is_at_share = false;
    else if (c == VAL_CLASS_STEP && use != VAL_MODEL) g.median = 0.12, g.within = 0.25;
    return g;
}

/* ---- cells ---- */
static const uint64_t lengths[VAL_CELLS] = {0, 2, 17, 129, 513, 2049, 8193, 32769},
                      sums[VAL_CELLS] = {0, 4097, 32769, 131073, 524289, 2097153, 8388609, 67108865},
                      heights[VAL_CELLS] = {0, 2, 3, 5, 9, 33, 129, 513};

static size_t cell_of(const uint64_t *bound, uint64_t v)
{
    size_t i = 0;
    while (i + 1 < VAL_CELLS && bound[i + 1] <= v) i++;
    return i;
}
size_t val_cell(val_class c, uint64_t length)
{
    return cell_of(c == VAL_CLASS_ALL_REDUCE ? sums : lengths, length);
}
size_t val_cell_up(uint64_t height) { return cell_of(heights, height); }
const char *val_cell_name(char ret[24], val_class c, size_t i, bool is_up)
{
    const uint64_t *bound = is_up ? heights : c == VAL_CLASS_ALL_REDUCE ? sums : lengths;
    const uint64_t last = i + 1 < VAL_CELLS ? bound[i + 1] - 1 : 0;
    const uint64_t by = last % 1048576 == 0 && last ? 1048576 : last % 1024 == 0 && last ? 1024 : 1;
    const char *unit = by == 1 ? "" : by == 1024 ? "k" : "M";
    if (last) snprintf(ret, 24, "to %" PRIu64 "%s", last / by, unit);
    else snprintf(ret, 24, "more");
    return ret;
}

uint64_t val_length(const val_row *r)
{
    if (r->kind == VAL_ALL_REDUCE) return strtoull(r->shape, NULL, 10);
    if (r->kind == VAL_SERVED_TPOT || r->kind == VAL_RUN) return r->rows + r->out / 2;
    const val_class c = val_class_of(r);
    return c == VAL_CLASS_ATTENTION_STEP || c == VAL_CLASS_STEP || c == VAL_CLASS_JOULES ? r->context
                                                                                         : r->rows;
}
uint64_t val_height(const val_row *r)
{
    const val_class c = val_class_of(r);
    return c == VAL_CLASS_LINEAR || c == VAL_CLASS_SMALL || c == VAL_CLASS_ALL_REDUCE ? r->devices
           : r->batch                                                                 ? r->batch
                                                                                      : 1;
}

size_t val_pairs(val_pair ret[VAL_PAIRS], const val_table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        size_t k = 0;
        while (k < n && (strcmp(ret[k].device, r->device) || strcmp(ret[k].stack, r->stack))) k++;
        if (r->unpriced || k < n) continue;
        if (n == VAL_PAIRS) val_die("pairs of device and stack", "too many");
        ret[n++] = (val_pair){r->device, r->stack, val_is_npu(r)};
    }
    return n;
}

/* ---- text ---- */
static bool is_asked(const val_row *r, const val_asked *a)
{
    return !r->unpriced && !r->apart && val_class_of(r) == a->class && a->uses & 1u << r->use &&
           (!a->pair || (!strcmp(a->pair->device, r->device) && !strcmp(a->pair->stack, r->stack))) &&
           (!a->is_cell ||
            (val_cell(a->class, val_length(r)) == a->length && val_cell_up(val_height(r)) == a->height));
}

static bool is_tiny(const val_row *r) { return r->kind == VAL_ALL_REDUCE && r->measured < 15; }

val_stat val_stat_of(const val_table *t, const val_asked *a, double within)
{
    val_stat s = {.n = 0};
    double *v = malloc((t->len + 1) * sizeof *v);
    size_t n = 0, near = 0;
    if (!v) val_die("errors", "out of memory");
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        if (!is_asked(r, a)) continue;
        s.n++;
        if (is_tiny(r) && !a->is_cell) near += fabs(r->modelled - r->measured) <= 5;
        else near += fabs(val_error(r)) <= within, v[n++] = val_error(r);
    }
    if (s.n) s.share = (double)near / (double)s.n;
    if (n) {
        s.bias = val_median(v, n);
        for (size_t i = 0; i < n; i++) v[i] = fabs(v[i]);
        s.median = val_median(v, n);
        s.p75 = at_share(v, n, 0.75);
        s.p90 = at_share(v, n, 0.9);
        s.worst = v[n - 1];
    }
    free(v);
    return s;
}

bool val_is_met(const val_stat *s, const val_goal *g)
{
    return s->median <= g->median && (g->is_at_share ? s->p90 <= g->within : s->share >= g->share);
}

bool val_cell_error(double *ret, size_t *devices, const val_table *t, val_class c, size_t length,
                    size_t height)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    double sum = 0;
    *devices = 0;
    for (size_t i = 0; i < pairs; i++) {
        const val_asked a = {&pair[i], c, VAL_ALL, length, height, true};
        const val_stat s = val_stat_of(t, &a, 0);
        if (s.n) sum += s.bias, ++*devices;
    }
    if (*devices) *ret = sum / (double)*devices;
    return *devices;
}

static void print_stat(const val_stat *s, const val_goal *g)
{
    if (!s->n) {
        printf("                           ");
        return;
    }
    const double tail = g->share < 0.9 && g->share > 0 ? s->p75 : s->p90;
    printf("  %5zu %6.1f %% %6.1f %% %s", s->n, s->median * 100, tail * 100,
           !g->median         ? "  "
           : val_is_met(s, g) ? "ok"
                              : " -");
}

/* A class: a line for each pair; what devices say together, each as much as any other. */
static void show_class(const val_table *t, const val_pair *pair, size_t pairs, val_class c)
{
    double medians[VAL_PAIRS], biases[VAL_PAIRS];
    size_t n = 0, lines = 0;
    const val_goal *g = &val_goals[c];
    for (size_t i = 0; i < pairs; i++) {
        val_asked a = {.pair = &pair[i], .class = c, .uses = VAL_ALL};
        if (!val_stat_of(t, &a, 0).n) continue;
        if (!lines++)
            printf("\n%-36s  %-27s%-27s%-27s%-27s%s\n", g->name, "calibrate: rows median tail",
                   "held out by model", "by group", "by region", "  bias    worst");
        char name[64];
        snprintf(name, sizeof name, "%s@%s", pair[i].device, pair[i].stack);
        printf("  %-34.34s", name);
        for (int use = VAL_CALIBRATES; use < VAL_USES; use++) {
            const val_goal goal = val_goal_of(c, pair[i].is_npu, (val_use)use);
            a.uses = 1u << use;
            const val_stat s = val_stat_of(t, &a, goal.within);
            print_stat(&s, &goal);
        }
        a.uses = VAL_HELD;
        const val_stat held = val_stat_of(t, &a, g->within);
        if (held.n) {
            printf("  %+6.1f %% %+7.0f %%", held.bias * 100, held.worst * 100);
            medians[n] = held.median;
            biases[n++] = held.bias;
        }
        printf("\n");
    }
    double median = 0, bias = 0;
    for (size_t i = 0; i < n; i++) median += medians[i] / (double)n, bias += biases[i] / (double)n;
    if (n)
        printf("  %-34s  held out: median %.1f %%, bias %+.1f %%", "devices alike", median * 100, bias * 100);
    if (n && g->median) printf("; goal: median %.0f %%", g->median * 100);
    if (n && g->share) printf(", %.0f %% of rows within %.0f %%", g->share * 100, g->within * 100);
    if (n && c == VAL_CLASS_STEP) printf("; unseen group or region 12 %% and 25 %%");
    if (n) printf("\n");
}

/* How many goals are met on held-out rows, of pairs and classes that have a goal. */
static void show_met(const val_table *t, const val_pair *pair, size_t pairs, int tier)
{
    size_t met[VAL_USES] = {0}, of[VAL_USES] = {0};
    for (size_t i = 0; i < pairs; i++)
        for (int c = 0; c < VAL_CLASSES; c++)
            for (int use = VAL_MODEL; use < VAL_USES && val_goals[c].tier == tier; use++) {
                const val_goal g = val_goal_of((val_class)c, pair[i].is_npu, (val_use)use);
                const val_asked a = {.pair = &pair[i], .class = (val_class)c, .uses = 1u << use};
                const val_stat s = val_stat_of(t, &a, g.within);
                if (!s.n || !g.median) continue;
                of[use]++;
                met[use] += val_is_met(&s, &g);
            }
    printf("\n  goals met: held out by model %zu of %zu, by group %zu of %zu, by region %zu of %zu\n",
           met[VAL_MODEL], of[VAL_MODEL], met[VAL_GROUP], of[VAL_GROUP], met[VAL_REGION], of[VAL_REGION]);
}

static void show_cells(const val_table *t, val_class c)
{
    char name[24];
    double cell[VAL_CELLS][VAL_CELLS];
    bool has[VAL_CELLS][VAL_CELLS], has_any = false;
    size_t devices;
    for (size_t y = 0; y < VAL_CELLS; y++)
        for (size_t x = 0; x < VAL_CELLS; x++)
            has_any |= has[y][x] = val_cell_error(&cell[y][x], &devices, t, c, x, y);
    if (!has_any) return;
    printf("  %s: %s down, %s across\n  %10s", val_goals[c].name, val_goals[c].height, val_goals[c].length,
           "");
    for (size_t x = 0; x < VAL_CELLS; x++) printf(" %9s", val_cell_name(name, c, x, false));
    printf("\n");
    for (size_t y = 0; y < VAL_CELLS; y++) {
        bool any = false;
        for (size_t x = 0; x < VAL_CELLS; x++) any |= has[y][x];
        if (!any) continue;
        printf("  %10s", val_cell_name(name, c, y, true));
        for (size_t x = 0; x < VAL_CELLS; x++)
            if (has[y][x]) printf(" %+7.0f %%", cell[y][x] * 100);
            else printf(" %9s", "");
        printf("\n");
    }
}

/* Rows by what keeps them from a price or a judgement. */
static void show_counts(const val_table *t, bool is_apart)
{
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const char *why = is_apart ? r->apart : r->unpriced;
        size_t before = 0, n = 0, of = 0;
        if (!why) continue;
        for (size_t k = 0; k < t->len; k++) {
            const val_row *o = &t->row[k];
            if (o->kind != r->kind || strcmp(o->device, r->device) || strcmp(o->stack, r->stack)) continue;
            const char *other = is_apart ? o->apart : o->unpriced;
            of++;
            if (!other || strcmp(other, why)) continue;
            n++;
            before += k < i;
        }
        if (!before)
            printf("  %5zu of %5zu  %s@%s, %s: %s\n", n, of, r->device, r->stack, val_kind_names[r->kind],
                   why);
    }
}

/* Rows of whole prompts and steps by name. */
static void show_names(const val_table *t)
{
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        if (r->apart && (val_goals[val_class_of(r)].tier == 2 || val_is_npu(r)))
            printf("    %s:%u  %s@%s, %s of %.40s, %" PRIu64 " x %" PRIu64
                   ": measured %.4g, modelled %.4g us\n",
                   r->file, (unsigned)r->line, r->device, r->stack, val_kind_names[r->kind], r->shape,
                   val_height(r), val_length(r), r->measured, r->modelled);
    }
}

void val_show(const val_table *t)
{
    static const char *const tiers[] = {"", "kernels and layers", "steps of an engine"};
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    for (int tier = 1; tier <= 2; tier++) {
        printf("tier %d: %s\n", tier, tiers[tier]);
        for (int c = 0; c < VAL_CLASSES; c++)
            if (val_goals[c].tier == tier) show_class(t, pair, pairs, (val_class)c);
        show_met(t, pair, pairs, tier);
        printf("\n");
    }
    printf("signed error (modelled by measured, less one), mean of the devices' medians\n");
    for (int c = 0; c < VAL_CLASSES; c++) show_cells(t, (val_class)c);
    printf("\nrows apart, not judged\n");
    show_counts(t, true);
    show_names(t);
    printf("\nrows without a price\n");
    show_counts(t, false);
    printf("\n");
}

/* The mean of the devices' held-out medians. */
static double class_median(const val_table *t, const val_pair *pair, size_t pairs, val_class c)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < pairs; i++) {
        const val_asked a = {.pair = &pair[i], .class = c, .uses = VAL_HELD};
        const val_stat s = val_stat_of(t, &a, 0);
        if (s.n) sum += s.median, n++;
    }
    return n ? sum / (double)n : 0;
}

void val_show_terms(val_table *t)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    printf("held-out medians, devices alike, with one term switched off\n\n%-24s", "without");
    for (int c = 0; c < VAL_CLASSES; c++) printf(" %12.12s", val_goals[c].name);
    printf("\n");
    for (int term = 0; term < VAL_TERMS; term++) {
        printf("%-24s", val_switch_off(term));
        for (size_t i = 0; i < t->len; i++) val_price(&t->row[i]);
        for (int c = 0; c < VAL_CLASSES; c++)
            printf(" %10.1f %%", class_median(t, pair, pairs, (val_class)c) * 100);
        printf("\n");
    }
    (void)val_switch_off(0);
}

void val_show_predictions(const val_table *t)
{
    printf("file,line,device,stack,devices,kind,shape,form,rows,batch,context,out,measured,modelled,use,"
           "apart\n");
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const char *base = strrchr(r->file, '/');
        if (r->unpriced) continue;
        printf("%s,%u,%s,%s,%u,%s,%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6g,%.6g,%s,%s\n",
               base ? base + 1 : r->file, (unsigned)r->line, r->device, r->stack, (unsigned)r->devices,
               val_kind_names[r->kind], r->shape, r->form, r->rows, r->batch, r->context, r->out, r->measured,
               r->modelled, val_use_names[r->use], r->apart ? r->apart : "");
    }
}
