/* Numbers are taken from the plan once, into JSON; the page reads the same object. */
#include "lab/plan/report.h"
#include "lab/plan/drawn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const schedules[] = {BT_STAGE_POLICY_NAMES};

static double ms(double ns) { return ns / 1e6; }
static json_t *text(const char *s) { return json_string(s); }
static json_t *whole(uint64_t v) { return json_integer(v > INT64_MAX ? INT64_MAX : (json_int_t)v); }
static void set(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }

void tool_plan_name(char ret[TOOL_PLAN_NAME_BYTES], const tool_plan_choice *c)
{
    snprintf(ret, TOOL_PLAN_NAME_BYTES, "%s%s, %s, KV %s%s%s", c->policy,
             c->is_one_bucket ? " in one context" : "", c->form.name, c->kv->name,
             c->has_schedules ? ", " : "", c->has_schedules ? schedules[c->schedule] : "");
}

static double padding(const tool_plan_figures *f)
{
    return f->rows ? 1 - (double)f->input_rows / (double)f->rows : 0;
}

/* A request's joules by engine, and by the tokens that come in and go out. */
typedef struct energy {
    double prefill, decode, input, output;
    const char *bound;
} energy;

static energy energy_of(const tool_plan_choice *c, const tool_plan_report *r, const bt_profile *prefill)
{
    const double n = (double)r->load->n, decode = c->f.joules - c->f.prefill_joules;
    return (energy){.prefill = c->f.prefill_joules, .decode = decode,
                    .input = c->f.prefill_joules * n / (double)r->load->input_tokens,
                    .output = decode * n / ((double)r->load->steps + n),
                    .bound = bt_energy_bound_both(bt_energy_bound(&prefill->time),
                                                  bt_energy_bound(&r->want->decode->time))};
}

static json_t *joules(const tool_plan_choice *c)
{
    const double j = tool_plan_value(c, TOOL_PLAN_BY_JOULES);
    return j < 0 ? json_null() : json_real(j);
}

/* ---- how far figures may be from real ones ---- */

/* is_alone: of the decode device alone. */
static bt_forecast_error error_of(const tool_plan_choice *c, bt_figure kind, const tool_plan_report *r,
                                  bool is_alone)
{
    const tool_plan_load *l = r->load;
    const bt_profile *prefill = is_alone ? r->want->decode : r->want->prefill;
    const bt_forecast_at prompt = {.rows = c->chunk_tokens ? c->chunk_tokens : l->length[l->lengths - 1],
                                   .batch = 1, .context = l->length[l->lengths - 1], .model = r->want->dims},
                         step = {.rows = c->f.batch, .batch = c->f.batch, .context = l->step_ctx,
                                 .model = r->want->dims};
    const bt_forecast_error first = bt_forecast_error_of(prefill, kind, &prompt),
                            later = bt_forecast_error_of(r->want->decode, kind, &step);
    if (kind == BT_FIGURE_TTFT) return first;
    return kind == BT_FIGURE_TPOT ? later : bt_forecast_error_worse(&first, &later);
}

static json_t *errors_json(const tool_plan_choice *c, const tool_plan_report *r, bool is_alone)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    json_t *o = json_object();
    for (int k = 0; k < BT_FIGURES; k++) {
        const bt_forecast_error e = error_of(c, (bt_figure)k, r, is_alone);
        set(o, names[k], bt_forecast_error_json(&e));
    }
    return o;
}

/* The band of a figure: [low, high]. */
static json_t *band_json(const tool_plan_choice *c, tool_plan_banded kind, double by)
{
    return json_pack("[f, f]", c->band[kind].low / by, c->band[kind].high / by);
}

static json_t *bands_json(const tool_plan_choice *c, const tool_plan_report *r)
{
    json_t *o = json_object();
    if (!r->want->draws) return o;
    set(o, "ttft_ms", band_json(c, TOOL_PLAN_BAND_TTFT, 1e6));
    set(o, "tpot_ms", r->load->steps ? band_json(c, TOOL_PLAN_BAND_TPOT, 1e6) : json_null());
    set(o, "e2e_ms", c->f.is_overloaded ? json_null() : band_json(c, TOOL_PLAN_BAND_E2E, 1e6));
    set(o, "joules",
        tool_plan_value(c, TOOL_PLAN_BY_JOULES) < 0 ? json_null() : band_json(c, TOOL_PLAN_BAND_JOULES, 1));
    return o;
}

static double certain_of(const tool_plan_report *r)
{
    return (double)r->result->choice[0].wins / (double)r->want->draws;
}

static json_t *ties_json(const tool_plan_report *r)
{
    json_t *ties = json_array();
    for (size_t i = 0; i < r->result->choices; i++) {
        char name[TOOL_PLAN_NAME_BYTES];
        tool_plan_name(name, &r->result->choice[i]);
        if (r->result->choice[i].is_tie) json_array_append_new(ties, text(name));
    }
    return ties;
}

static json_t *choice_json(const tool_plan_choice *c, const tool_plan_report *r, bool is_alone)
{
    const tool_plan_figures *f = &c->f;
    const energy e = energy_of(c, r, is_alone ? r->want->decode : r->want->prefill);
    const bool known = tool_plan_value(c, TOOL_PLAN_BY_JOULES) >= 0;
    char attention[BT_ATTENTION_MAX_TEXT];
    json_t *o = json_object();
    set(o, "shape_policy", text(c->policy));
    set(o, "chunk_tokens", whole(c->chunk_tokens));
    set(o, "recipe", text(c->form.name));
    bt_attention_text(attention, &c->attention);
    set(o, "attention", text(attention));
    set(o, "kv_dtype", text(c->kv->name));
    set(o, "schedule", c->has_schedules ? text(schedules[c->schedule]) : json_null());
    set(o, "contexts", whole(c->buckets));
    set(o, "padding_ratio", json_real(padding(f)));
    set(o, "launches_per_prompt", json_real((double)f->chunks / (double)r->load->n));
    set(o, "ttft_ms", json_real(ms(f->prefill_ns)));
    set(o, "ttft_p50_ms", json_real(ms((double)f->p50_ns)));
    set(o, "ttft_p99_ms", json_real(ms((double)f->p99_ns)));
    set(o, "queue_ms", json_real(ms(f->wait_ns)));
    set(o, "queued_ttft_p50_ms", json_real(ms((double)f->loaded_p50_ns)));
    set(o, "queued_ttft_p99_ms", json_real(ms((double)f->loaded_p99_ns)));
    set(o, "exposed_transfer_ms", json_real(ms(f->exposed_ns)));
    set(o, "tpot_ms", r->load->steps ? json_real(ms(f->tpot_ns)) : json_null());
    set(o, "tpot_alone_ms", r->load->steps ? json_real(ms(f->alone_tpot_ns)) : json_null());
    set(o, "decode_batch", whole(f->batch));
    set(o, "e2e_ms", json_real(ms(f->e2e_ns)));
    set(o, "joules", joules(c));
    set(o, "prefill_joules", known ? json_real(e.prefill) : json_null());
    set(o, "decode_joules", known ? json_real(e.decode) : json_null());
    set(o, "joules_per_input_token", known ? json_real(e.input) : json_null());
    set(o, "joules_per_output_token", known ? json_real(e.output) : json_null());
    set(o, "joules_bound", text(known ? e.bound : ""));
    set(o, "joules_of_tdp",
        json_boolean(f->prefill_energy == BT_ENERGY_TDP || f->decode_energy == BT_ENERGY_TDP));
    set(o, "utilisation", json_real(f->utilisation));
    set(o, "prefill_busy_ratio", r->load->has_arrivals ? json_real(f->prefill_busy) : json_null());
    set(o, "decode_busy_ratio", r->load->has_arrivals ? json_real(f->decode_busy) : json_null());
    set(o, "keeps_up", r->load->has_arrivals ? json_boolean(!f->is_overloaded) : json_null());
    set(o, "allowed", json_boolean(c->is_allowed));
    set(o, "gains_time", r->want->prefill->companion ? json_boolean(!c->gains_no_time) : json_null());
    set(o, "slo_ratio", r->want->has_limits ? json_real(f->kept) : json_null());
    set(o, "programs", whole(c->programs));
    set(o, "compile_ms", json_real(ms((double)c->compile_ns)));
    set(o, "sessions", whole(c->sessions));
    set(o, "spill_bytes", whole(c->spill_bytes));
    set(o, "prefill_memory_bytes", whole(f->prefill_bytes));
    set(o, "decode_memory_bytes", whole(f->decode_bytes));
    set(o, "error", errors_json(c, r, is_alone));
    set(o, "band", bands_json(c, r));
    set(o, "wins", r->want->draws && !is_alone ? whole(c->wins) : json_null());
    return o;
}

/* [seq, ctx] of a choice with one context: what --shape-policy enumerated:FILE reads. */
static json_t *shapes_json(const tool_plan_choice *c, size_t ctx_tokens)
{
    bt_shapes s;
    json_t *list = json_array();
    if (bt_shapes_parse(&s, c->policy, ctx_tokens, NULL) == BT_OK)
        for (size_t i = 0; i < s.shapes; i++)
            json_array_append_new(list,
                                  json_pack("[I,I]", (json_int_t)s.shape[i].seq, (json_int_t)ctx_tokens));
    return list;
}

static json_t *length_json(const tool_plan_load *l)
{
    uint64_t most = l->length[l->lengths - 1];
    json_t *list = json_array();
    for (uint64_t low = 1; low <= most; low *= 2) {
        uint64_t n = 0;
        for (size_t i = 0; i < l->lengths; i++)
            if (l->length[i] >= low && l->length[i] < 2 * low) n += l->count[i];
        json_array_append_new(list, json_pack("[I,I]", (json_int_t)low, (json_int_t)n));
    }
    return list;
}

static json_t *margin(const tool_plan_report *r, const tool_plan_choice *other, bool is_alone)
{
    const tool_plan_choice *best = &r->result->choice[0];
    const double ratio = tool_plan_margin(best, other, r->want->by),
                 beats = tool_plan_beats(best, other, is_alone, r->want);
    char name[TOOL_PLAN_NAME_BYTES];
    json_t *o = json_object();
    tool_plan_name(name, other);
    set(o, "name", text(name));
    set(o, "value_ratio", ratio >= 0 ? json_real(ratio) : json_null());
    set(o, "is_overloaded", json_boolean(other->f.is_overloaded));
    set(o, "is_allowed", json_boolean(other->is_allowed));
    set(o, "certain", beats < 0 ? json_null() : json_real(beats));
    return o;
}

/* Each device with its stack, its standing and its errors. */
static json_t *devices_json(const tool_plan_want *w)
{
    const bt_profile *const device[] = {w->prefill, w->decode};
    json_t *list = json_array();
    char line[BT_FORECAST_LINE_BYTES];
    for (size_t i = 0; i < 2; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", i ? "decode" : "prefill", "standing",
                                              bt_forecast_standing_text(line, device[i])));
    return list;
}

json_t *tool_plan_json(const tool_plan_report *r)
{
    const tool_plan_result *p = r->result;
    json_t *o = json_object(), *choices = json_array(), *refused = json_array(), *alone = json_array(),
           *instead = json_array();
    set(o, "model", text(r->want->dims->name));
    set(o, "prefill", text(r->want->prefill->name));
    set(o, "prefill_stack", text(r->want->prefill->time.stack));
    set(o, "devices", devices_json(r->want));
    set(o, "companion", r->want->companion ? text(r->want->companion->name) : json_null());
    set(o, "decode", text(r->want->decode->name));
    set(o, "decode_stack", text(r->want->decode->time.stack));
    set(o, "decode_weights", text(r->decode_form));
    set(o, "link", text(r->link));
    set(o, "trace", text(r->trace));
    set(o, "ctx_tokens", whole(r->want->ctx_tokens));
    set(o, "requests", whole(r->load->n));
    set(o, "too_long", whole(r->load->too_long));
    set(o, "requests_per_second",
        r->load->has_arrivals ? json_real((double)r->load->n / r->load->span_s) : json_null());
    set(o, "input_tokens_mean", json_real((double)r->load->input_tokens / (double)r->load->n));
    set(o, "output_tokens_mean", json_real((double)r->load->steps / (double)r->load->n + 1));
    set(o, "by", text(tool_plan_by_names[r->want->by]));
    set(o, "minimises", text(tool_plan_by_words[r->want->by]));
    for (size_t i = 0; i < p->choices; i++)
        json_array_append_new(choices, choice_json(&p->choice[i], r, false));
    for (size_t i = 0; i < p->alones; i++) json_array_append_new(alone, choice_json(&p->alone[i], r, true));
    for (size_t i = 0; i < p->refusals; i++)
        json_array_append_new(refused,
                              json_pack("{s:s,s:s}", "choice", p->refused[i].what, "why", p->refused[i].why));
    set(o, "best", choice_json(&p->choice[0], r, false));
    if (p->choice[0].is_one_bucket)
        set(json_object_get(o, "best"), "shapes", shapes_json(&p->choice[0], r->want->ctx_tokens));
    set(o, "runner_up", p->choices > 1 ? margin(r, &p->choice[1], false) : json_null());
    set(o, "usual", p->has_usual ? margin(r, &p->usual, false) : json_null());
    set(o, "decode_device_alone", p->alones ? margin(r, &p->alone[0], true) : json_null());
    set(o, "draws", whole(r->want->draws));
    set(o, "seed", whole(r->want->seed));
    set(o, "certain", r->want->draws ? json_real(certain_of(r)) : json_null());
    set(o, "ties", ties_json(r));
    set(o, "choices", choices);
    set(o, "priced", whole(p->priced));
    set(o, "dominated", whole(p->priced - p->choices));
    set(o, "refused", refused);
    for (int i = 0; i < 2; i++)
        if (*r->instead[i]) json_array_append_new(instead, text(r->instead[i]));
    set(o, "instead", instead);
    set(o, "ignored", tool_plan_ignored(json_array(), r->want->dims));
    set(o, "colocated", alone);
    set(o, "lengths", length_json(r->load));
    (void)json_object_set(o, "made_by", r->made_by);
    return o;
}

/* ---- for people ---- */
enum { COLUMNS = 15, CELL = BT_RECIPE_MAX_TEXT, REFUSALS = 8 };
typedef struct table {
    char cell[COLUMNS][CELL];
} table;
static const char *const heads[COLUMNS] = {"shape policy", "recipe",     "KV",      "schedule", "contexts",
                                           "programs",     "padding",    "TTFT ms", "p99",      "queue",
                                           "TPOT ms",      "request ms", "J",       "MiB",      "keeps up"};

static void fill(table *t, const tool_plan_choice *c, const tool_plan_report *r)
{
    const tool_plan_figures *f = &c->f;
    const double j = tool_plan_value(c, TOOL_PLAN_BY_JOULES);
    char attention[BT_ATTENTION_MAX_TEXT];
    snprintf(t->cell[0], CELL, "%s", c->policy);
    bt_attention_text(attention, &c->attention);
    snprintf(t->cell[1], CELL, "%.100s%s%s", c->form.name, c->attention.ratio_ppm ? ", " : "",
             c->attention.ratio_ppm ? attention : "");
    snprintf(t->cell[2], CELL, "%s", c->kv->name);
    snprintf(t->cell[3], CELL, "%s", c->has_schedules ? schedules[c->schedule] : "-");
    snprintf(t->cell[4], CELL, "%u", (unsigned)c->buckets);
    snprintf(t->cell[5], CELL, "%" PRIu64, c->programs);
    snprintf(t->cell[6], CELL, "%.1f%%", 100 * padding(f));
    snprintf(t->cell[7], CELL, "%.2f", ms(f->prefill_ns));
    snprintf(t->cell[8], CELL, "%.2f", ms((double)f->p99_ns));
    if (f->is_overloaded) snprintf(t->cell[9], CELL, "grows");
    else snprintf(t->cell[9], CELL, "%.2f", ms(f->wait_ns));
    snprintf(t->cell[10], CELL, "%.3f", ms(f->tpot_ns));
    if (f->is_overloaded) snprintf(t->cell[11], CELL, "-");
    else snprintf(t->cell[11], CELL, "%.1f", ms(f->e2e_ns));
    if (j < 0) snprintf(t->cell[12], CELL, "-");
    else snprintf(t->cell[12], CELL, "%.3f", j);
    snprintf(t->cell[13], CELL, "%.0f", ((double)f->prefill_bytes + (double)f->decode_bytes) / 1048576);
    if (!r->load->has_arrivals) snprintf(t->cell[14], CELL, "-");
    else snprintf(t->cell[14], CELL, "%s", f->is_overloaded ? "no" : "yes");
}

static void print_line(const table *t, const int *width, char mark)
{
    int columns = COLUMNS;
    while (columns && !*t->cell[columns - 1]) columns--;
    putchar(mark);
    for (int k = 0; k < columns; k++)
        printf(" %*s%s", k < 4 ? -width[k] : width[k], t->cell[k], k + 1 < columns ? " " : "");
    putchar('\n');
}

/* Under the heads of modelled figures: the error of the best, whose devices the others have too. */
static void fill_errors(table *t, const tool_plan_report *r)
{
    enum { NONE, TTFT, TPOT, JOULES, WHOLE };
    static const int kind_of[COLUMNS] = {
        [7] = TTFT, [8] = TTFT, [9] = TTFT, [10] = TPOT, [11] = WHOLE, [12] = JOULES};
    char cell[BT_FORECAST_TEXT_BYTES];
    const bool has_joules = tool_plan_value(&r->result->choice[0], TOOL_PLAN_BY_JOULES) >= 0;
    snprintf(t->cell[0], CELL, "error");
    for (int k = 1; k < COLUMNS; k++) {
        const bt_figure kind = kind_of[k] == JOULES ? BT_FIGURE_JOULES
                               : kind_of[k] == TPOT ? BT_FIGURE_TPOT
                                                    : BT_FIGURE_TTFT;
        bt_forecast_error e = error_of(&r->result->choice[0], kind, r, false);
        if (kind_of[k] == WHOLE) {
            const bt_forecast_error later = error_of(&r->result->choice[0], BT_FIGURE_TPOT, r, false);
            e = bt_forecast_error_worse(&e, &later);
        }
        e.outside = 0; /* these stand below */
        if (e.standing == BT_STANDING_FITTED) e.standing = BT_STANDING_CALIBRATED;
        const bool is_there = kind_of[k] != NONE && (kind_of[k] != JOULES || has_joules);
        snprintf(t->cell[k], CELL, "%s", is_there ? bt_forecast_error_text(cell, &e) : "");
    }
}

static void print_table(const tool_plan_report *r, size_t rows)
{
    const tool_plan_result *p = r->result;
    table t;
    int width[COLUMNS];
    for (int k = 0; k < COLUMNS; k++) width[k] = (int)strlen(heads[k]);
    for (size_t i = 0; i <= rows + p->alones; i++) {
        if (i == rows + p->alones) fill_errors(&t, r);
        else fill(&t, i < rows ? &p->choice[i] : &p->alone[i - rows], r);
        for (int k = 0; k < COLUMNS; k++)
            if ((int)strlen(t.cell[k]) > width[k]) width[k] = (int)strlen(t.cell[k]);
    }
    for (int k = 0; k < COLUMNS; k++) snprintf(t.cell[k], CELL, "%s", heads[k]);
    print_line(&t, width, ' ');
    fill_errors(&t, r);
    print_line(&t, width, ' ');
    for (size_t i = 0; i < rows; i++) {
        fill(&t, &p->choice[i], r);
        print_line(&t, width, i ? ' ' : '*');
    }
    if (p->alones) printf("\n  %s alone, prompts and tokens in mixed steps\n", r->want->decode->name);
    for (size_t i = 0; i < p->alones; i++) {
        fill(&t, &p->alone[i], r);
        print_line(&t, width, ' ');
    }
}

static void print_margin(const char *than, const tool_plan_report *r, const tool_plan_choice *other,
                         bool is_alone)
{
    const tool_plan_choice *best = &r->result->choice[0];
    char name[TOOL_PLAN_NAME_BYTES];
    const double ratio = tool_plan_margin(best, other, r->want->by),
                 beats = tool_plan_beats(best, other, is_alone, r->want);
    tool_plan_name(name, other);
    printf("  %s, %s, ", than, name);
    if (best->is_allowed && !other->is_allowed) printf("has fewer bits\n");
    else {
        if (!best->f.is_overloaded && other->f.is_overloaded) printf("does not keep up");
        else if (best->f.is_overloaded) printf("asks for %.3f times the devices' time", ratio);
        else if (ratio >= 0) printf("has %.3f times that", ratio);
        else printf("has no such figure");
        if (beats >= 0)
            printf("; %s%s wins in %.0f of %u draws",
                   beats < BT_FORECAST_CERTAIN && 1 - beats < BT_FORECAST_CERTAIN ? "cannot tell: " : "",
                   is_alone ? "the pair" : "the best", beats * r->want->draws, (unsigned)r->want->draws);
        printf("\n");
    }
}

/* Whether the best is the best, whatever the devices really take. */
static void print_verdict(const tool_plan_report *r)
{
    enum { TIES = 6 };
    const tool_plan_result *p = r->result;
    size_t ties = 0;
    if (!r->want->draws) return;
    const bool is_certain = certain_of(r) >= BT_FORECAST_CERTAIN;
    printf("  %sit wins in %u of %u draws\n", is_certain ? "" : "cannot tell: ", (unsigned)p->choice[0].wins,
           (unsigned)r->want->draws);
    for (size_t i = 0; i < p->choices; i++) {
        char name[TOOL_PLAN_NAME_BYTES];
        if (!p->choice[i].is_tie) continue;
        tool_plan_name(name, &p->choice[i]);
        if (++ties <= TIES) printf("  ties: %s, in %u\n", name, (unsigned)p->choice[i].wins);
    }
    if (ties > TIES) printf("  and %zu more tie (--json)\n", ties - TIES);
}

static void print_standing(const tool_plan_report *r)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    const bt_profile *const device[] = {r->want->prefill, r->want->decode};
    char line[BT_FORECAST_LINE_BYTES], error[BT_FORECAST_TEXT_BYTES];
    for (size_t i = 0; i < 2; i++)
        if (!i || strcmp(device[0]->name, device[1]->name))
            printf("%s\n", bt_forecast_standing_text(line, device[i]));
    for (int k = 0; k < BT_FIGURES; k++) {
        const bt_forecast_error e = error_of(&r->result->choice[0], (bt_figure)k, r, false);
        if (e.outside && k != BT_FIGURE_JOULES)
            printf("the best's %s is not within what was calibrated: %s\n", names[k],
                   bt_forecast_error_text(error, &e));
    }
}

/* A form that would be best if fewer bits for no time were. */
static void print_idle_form(const tool_plan_report *r)
{
    const tool_plan_choice *best = &r->result->choice[0];
    char name[TOOL_PLAN_NAME_BYTES];
    for (size_t i = 1; i < r->result->choices; i++) {
        const tool_plan_choice *c = &r->result->choice[i];
        const double value = tool_plan_value(c, r->want->by);
        if (!c->gains_no_time || c->is_allowed < best->is_allowed || best->gains_no_time ||
            value >= tool_plan_value(best, r->want->by))
            continue;
        tool_plan_name(name, c);
        printf("  %s, is not offered: its weights gain under 1 %% of the time over f16\n", name);
        return;
    }
}

static void print_load(const tool_plan_report *r)
{
    const tool_plan_choice *best = &r->result->choice[0];
    if (!r->load->has_arrivals) {
        printf("  the trace has no arrivals: nothing queues, and one sequence decodes\n");
        return;
    }
    printf("  at %.3f requests/s prefill is busy %.1f %% of the time, decode %.1f %% (%u sequences): %s\n",
           (double)r->load->n / r->load->span_s, 100 * best->f.prefill_busy, 100 * best->f.decode_busy,
           (unsigned)best->f.batch, best->f.is_overloaded ? "this pair is overloaded" : "it keeps up");
    if (r->want->has_limits) printf("  %.1f %% of the requests keep the limits\n", 100 * best->f.kept);
}

static void print_energy(const tool_plan_report *r)
{
    const tool_plan_choice *best = &r->result->choice[0];
    const energy e = energy_of(best, r, r->want->prefill);
    if (tool_plan_value(best, TOOL_PLAN_BY_JOULES) < 0) return;
    printf("energy of a request of the best: prefill %.3f J (%.2f mJ an input token), decode %.3f J (%.2f mJ "
           "an output "
           "token)\n",
           e.prefill, 1e3 * e.input, e.decode, 1e3 * e.output);
    if (!strcmp(e.bound, "no bound"))
        printf("joules are no bound: one device's are at least, the other's at most so many\n");
    else if (best->f.prefill_energy == BT_ENERGY_TDP || best->f.decode_energy == BT_ENERGY_TDP)
        printf("joules are at most so many: a thermal design power is in them\n");
    else if (*e.bound)
        printf("joules are %s so many: a byte of memory costs 5 to 100 pJ, and not so in the profile\n",
               e.bound);
}

void tool_plan_print(const tool_plan_report *r, size_t rows)
{
    const tool_plan_result *p = r->result;
    char name[TOOL_PLAN_NAME_BYTES];
    if (rows > p->choices) rows = p->choices;
    printf("%s: prefill on %s (%s), decode on %s (%s, %s), link %s; modelled, nothing was run\n",
           r->want->dims->name, r->want->prefill->name, r->want->prefill->time.stack, r->want->decode->name,
           r->want->decode->time.stack, r->decode_form, r->link);
    printf("%s: %zu requests, %.0f + %.0f tokens on average, contexts up to %zu", r->trace, r->load->n,
           (double)r->load->input_tokens / (double)r->load->n,
           (double)r->load->steps / (double)r->load->n + 1, r->want->ctx_tokens);
    if (r->load->too_long) printf("; %zu longer ones left out", r->load->too_long);
    for (int i = 0; i < 2; i++)
        if (*r->instead[i]) printf("\n%s: it %s instead", r->instead[i], i ? "decodes" : "prefills");
    printf("\n\n");
    print_table(r, rows);
    printf("\n%zu choices priced, %zu of them dominated by others", p->priced, p->priced - p->choices);
    if (rows < p->choices) printf("; %zu more that are not (--rows, --json)", p->choices - rows);
    printf("\n");
    print_energy(r);
    for (size_t i = 0; i < p->refusals && i < REFUSALS; i++)
        printf("refused: %s: %s\n", p->refused[i].what, p->refused[i].why);
    if (p->refusals > REFUSALS) printf("and %zu more refused (--json)\n", p->refusals - REFUSALS);
    tool_plan_ignored_print(stdout, "ignored: ", r->want->dims);
    print_standing(r);
    tool_plan_name(name, &p->choice[0]);
    printf("\nbest by %s (%s): %s\n", tool_plan_by_names[r->want->by],
           p->choice[0].f.is_overloaded ? "all are overloaded, so: least time of the devices"
                                        : tool_plan_by_words[r->want->by],
           name);
    print_verdict(r);
    print_idle_form(r);
    if (p->choices > 1) print_margin("the next", r, &p->choice[1], false);
    if (p->has_usual) print_margin("the usual choice", r, &p->usual, false);
    if (p->alones) print_margin("the decode device alone", r, &p->alone[0], true);
    print_load(r);
}

/* ---- fields that a forecast ignores ---- */

json_t *tool_plan_ignored(json_t *rows, const bt_dims *s)
{
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const size_t n = bt_dims_ignored_of(all, s);
    for (size_t i = 0; rows && i < n; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "model", s->name, "field", all[i].field,
                                              "bound", all[i].bound, "effect", all[i].effect));
    return rows;
}

char *tool_plan_ignored_text(char ret[TOOL_PLAN_IGNORED_BYTES], const bt_dims_ignored *i)
{
    const char *bound = !strcmp(i->bound, "upper")   ? "an upper bound"
                        : !strcmp(i->bound, "lower") ? "a lower bound"
                                                     : "no bound";
    (void)snprintf(ret, TOOL_PLAN_IGNORED_BYTES, "%s: %s (%s)", i->field, i->effect, bound);
    return ret;
}

void tool_plan_ignored_print(FILE *f, const char *head, const bt_dims *s)
{
    char text[TOOL_PLAN_IGNORED_BYTES];
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const size_t n = bt_dims_ignored_of(all, s);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%s, %s\n", head, s->name, tool_plan_ignored_text(text, &all[i]));
}
