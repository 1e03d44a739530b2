/* The better of two choices, and choices that need not be shown. */
#include "lab/plan/space.h"

const char *const tool_plan_by_names[] = {"e2e",    "ttft",     "tpot",    "joules",
                                          "memory", "programs", "padding", NULL};
const char *const tool_plan_by_words[] = {"mean time of a whole request", "mean time to the first token",
                                          "mean time of a later token",   "joules of a request",
                                          "memory of both devices",       "programs to compile",
                                          "rows that are computed",       NULL};

uint32_t tool_plan_form_input_bits(const tool_plan_form *f)
{
    const bt_recipe *r = &f->recipe;
    uint32_t least = 16;
    for (uint8_t i = 0; i <= r->parts; i++)
        for (int k = 0; k < BT_SITE_KINDS; k++) {
            const uint32_t bits = (i ? r->part[i - 1] : r->usual).input_bits[k];
            if (bits < least) least = bits;
        }
    return least;
}

static double memory_of(const tool_plan_choice *c)
{
    return (double)c->f.prefill_bytes + (double)c->f.decode_bytes;
}

static double value_of(const tool_plan_choice *c, const tool_plan_figures *f, tool_plan_by by)
{
    switch (by) {
    case TOOL_PLAN_BY_TTFT: return f->wait_ns + f->prefill_ns;
    case TOOL_PLAN_BY_TPOT: return f->tpot_ns;
    case TOOL_PLAN_BY_JOULES: return f->prefill_energy && f->decode_energy ? f->joules : -1;
    case TOOL_PLAN_BY_MEMORY: return memory_of(c);
    case TOOL_PLAN_BY_PROGRAMS: return (double)c->programs;
    case TOOL_PLAN_BY_PADDING: return (double)f->rows;
    case TOOL_PLAN_BY_E2E:
    case TOOL_PLAN_BYS: break;
    }
    return f->e2e_ns;
}

double tool_plan_value(const tool_plan_choice *c, tool_plan_by by) { return value_of(c, &c->f, by); }

static double busy_of(const tool_plan_choice *c) { return c->f.prefill_busy + c->f.decode_busy; }

double tool_plan_margin(const tool_plan_choice *best, const tool_plan_choice *other, tool_plan_by by)
{
    const double a = tool_plan_value(best, by), b = tool_plan_value(other, by);
    if (best->f.is_overloaded) return busy_of(other) / busy_of(best);
    return a > 0 && b >= 0 ? b / a : -1;
}

static int order(double a, double b) { return (a > b) - (a < b); }

static double bits_of(const tool_plan_choice *c)
{
    return (double)c->form.weight_bits + tool_plan_form_input_bits(&c->form) + 8.0 * c->kv->elem_bytes;
}

tool_plan_key tool_plan_key_of(const tool_plan_choice *c, const tool_plan_figures *f,
                               const tool_plan_want *want)
{
    const double busy = f->prefill_busy + f->decode_busy;
    const bool is_idle = c->gains_no_time && want->by != TOOL_PLAN_BY_MEMORY;
    return (tool_plan_key){{c->is_allowed ? 0 : 1, f->is_overloaded ? 1 : 0, is_idle ? 1 : 0,
                            f->is_overloaded ? busy : 0, want->has_limits ? -f->kept : 0,
                            value_of(c, f, want->by), f->e2e_ns, (double)c->programs, memory_of(c),
                            -bits_of(c)}};
}

int tool_plan_key_compare(const tool_plan_key *a, const tool_plan_key *b)
{
    int r = 0;
    for (int i = 0; !r && i < TOOL_PLAN_KEYS; i++) r = order(a->of[i], b->of[i]);
    return r;
}

int tool_plan_compare(const tool_plan_choice *a, const tool_plan_choice *b, const tool_plan_want *want)
{
    const tool_plan_key x = tool_plan_key_of(a, &a->f, want), y = tool_plan_key_of(b, &b->f, want);
    return tool_plan_key_compare(&x, &y);
}

enum { SIDES = 12 };
/* Less of each is better. */
static void sides_of(double ret[SIDES], const tool_plan_choice *c)
{
    const tool_plan_figures *f = &c->f;
    const double all[SIDES] = {
        (double)f->rows,
        f->prefill_ns,
        (double)f->p99_ns,
        f->tpot_ns,
        f->e2e_ns,
        tool_plan_value(c, TOOL_PLAN_BY_JOULES),
        (double)c->programs,
        memory_of(c),
        -(double)c->form.weight_bits,
        -(double)tool_plan_form_input_bits(&c->form),
        -(double)c->kv->elem_bytes,
        -(double)(c->attention.ratio_ppm ? c->attention.ratio_ppm : BT_ATTENTION_ALL_PPM),
    };
    for (int i = 0; i < SIDES; i++) ret[i] = all[i];
}

bool tool_plan_dominates(const tool_plan_choice *a, const tool_plan_choice *b)
{
    double x[SIDES], y[SIDES];
    bool is_better = false;
    sides_of(x, a);
    sides_of(y, b);
    for (int i = 0; i < SIDES; i++) {
        if (x[i] > y[i]) return false;
        is_better = is_better || x[i] < y[i];
    }
    return is_better;
}

bool tool_plan_is_alike(const tool_plan_choice *a, const tool_plan_choice *b)
{
    double x[SIDES], y[SIDES];
    bool is = true;
    sides_of(x, a);
    sides_of(y, b);
    for (int i = 0; i < SIDES; i++) is = is && !(x[i] < y[i]) && !(x[i] > y[i]);
    return is;
}
