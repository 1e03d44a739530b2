/* Nested lists: the outer ones change what is dearer to compute. */
#include "lab/plan/drawn.h"
#include "lab/plan/sketch.h"
#include "npu/compile/plan_limits.h"
#include "npu/lower/probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual_recipes[] = {"w8a8", "w8a16", "w4a8", "w4a16", NULL};
static const char *const usual_steps[] = {"whole", "step:2048", "step:512", "step:256", NULL};

/* ---- forms of weights and of KV rows ---- */

tool_plan_form tool_plan_float_form(size_t i)
{
    const bt_price_form *form = bt_price_form_at(i);
    const bt_price_recipe *r = &form->recipe;
    tool_plan_form f = {.weight_bits = r->weight_bits, .weight_permille = r->weight_bytes_permille,
                        .is_float = r->is_float};
    f.recipe.usual.weight_bits = r->weight_bits;
    for (int k = 0; k < BT_SITE_KINDS; k++) f.recipe.usual.input_bits[k] = r->input_bits;
    snprintf(f.name, sizeof f.name, "%s", form->name);
    return f;
}

static tool_plan_form form_of_recipe(const bt_recipe *r)
{
    tool_plan_form f = {.recipe = *r, .weight_bits = r->usual.weight_bits};
    for (uint8_t i = 0; i < r->parts; i++)
        if (r->part[i].weight_bits < f.weight_bits) f.weight_bits = r->part[i].weight_bits;
    bt_recipe_text(f.name, r);
    return f;
}

/* ---- choices and refusals ---- */

typedef struct space {
    tool_plan_result *r;
    const tool_plan_want *want;
    const tool_plan_load *load;
    tool_plan_pair pair;
    bt_err first;
    bt_fault why;         /* of the first refusal by memory */
    tool_plan_form *form; /* [forms], owned */
    size_t forms;
    bt_shapes shapes;
} space;

static size_t count_of(const char *const *list)
{
    size_t n = 0;
    while (list[n]) n++;
    return n;
}

static bt_err keep(tool_plan_result *r, const tool_plan_choice *c, bt_fault *fault)
{
    if (r->choices == TOOL_PLAN_MAX_CHOICES)
        return bt_fail(fault, BT_ELIMIT, "more than %d choices; name fewer policies or recipes",
                       TOOL_PLAN_MAX_CHOICES);
    if (r->choices == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        tool_plan_choice *more = reallocarray(r->choice, room, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory planning");
        r->choice = more;
        r->room = room;
    }
    r->choice[r->choices++] = *c;
    return BT_OK;
}

/* Notes a reason that is one of the plan's answers; any other error ends the plan. */
static bt_err refuse(space *s, bt_err e, const char *policy, const char *recipe, const bt_fault *why,
                     bt_fault *fault)
{
    tool_plan_result *r = s->r;
    if (e != BT_EARG && e != BT_ELIMIT) return bt_fail(fault, e, "%.240s", why->text);
    if (s->first == BT_OK || (s->first == BT_EARG && e == BT_ELIMIT)) {
        s->first = e;
        s->why = *why;
    }
    if (r->refusals == r->refusal_room) {
        const size_t room = r->refusal_room ? 2 * r->refusal_room : 16;
        tool_plan_refusal *more = reallocarray(r->refused, room, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory planning");
        r->refused = more;
        r->refusal_room = room;
    }
    tool_plan_refusal *one = &r->refused[r->refusals];
    snprintf(one->what, sizeof one->what, "%.100s%s%.80s", policy, recipe ? ", " : "", recipe ? recipe : "");
    snprintf(one->why, sizeof one->why, "%s", why->text);
    for (size_t i = 0; i < r->refusals; i++)
        if (!strcmp(r->refused[i].what, one->what) && !strcmp(r->refused[i].why, one->why)) return BT_OK;
    r->refusals++;
    return BT_OK;
}

/* A recipe or form that was named is allowed whatever its bits. */
static bool is_allowed(const tool_plan_want *w, const tool_plan_form *form, const bt_price_kv *kv)
{
    const bool coarse_form = form->weight_bits < 8 || tool_plan_form_input_bits(form) < 8;
    return w->any_bits || ((!coarse_form || w->recipes) && (kv->elem_bytes >= 2 || w->kvs));
}

static bool is_usual(const tool_plan_choice *c)
{
    return (!strcmp(c->policy, BT_SHAPES_DEFAULT) || !strcmp(c->policy, usual_steps[0])) &&
           (!strcmp(c->form.name, BT_RECIPE_DEFAULT) || !strcmp(c->form.name, "f16")) &&
           !strcmp(c->kv->name, "f16") && !c->attention.ratio_ppm && c->schedule == BT_SCHEDULE_SERIAL &&
           !c->is_one_bucket;
}

static bt_err add_one(space *s, tool_plan_choice *c, const tool_plan_how *how, bt_fault *fault)
{
    bt_fault why = {""};
    c->is_allowed = is_allowed(s->want, &c->form, c->kv);
    const bt_err e = tool_plan_figure(&c->f, &s->pair, how, s->load, &s->want->limits, &why);
    if (e == BT_OK && is_usual(c)) {
        s->r->usual = *c;
        s->r->has_usual = true;
    }
    if (e == BT_OK) return keep(s->r, c, fault);
    return refuse(s, e, c->policy, c->form.name, &why, fault);
}

/* ---- a device with programs ---- */

/* Whether a node could run the package so; split is a question alone. */
static bt_err check_schedule(int schedule, const tool_plan_how *how, bt_fault *why)
{
    const bool is_beside = schedule == BT_SCHEDULE_FIFO || schedule == BT_SCHEDULE_OOO;
    return is_beside ? bt_pkg_check_overlap(bt_price_pkg_of(how->price), why) : BT_OK;
}

/* The schedules that are asked for, else those of the engine, which an NPU alone has. */
static bt_err add_schedules(space *s, tool_plan_choice *c, tool_plan_how *how, bt_fault *fault)
{
    static const int usual[] = {BT_SCHEDULE_SERIAL, BT_SCHEDULE_FIFO, BT_SCHEDULE_OOO};
    const tool_plan_want *w = s->want;
    const int *all = w->schedules ? w->schedule : usual;
    const size_t n = w->schedules ? w->schedules : w->companion ? 3 : 1;
    bt_err e = BT_OK;
    c->has_schedules = w->schedules || w->companion;
    for (size_t k = 0; e == BT_OK && k < n; k++) {
        bt_fault why = {""};
        const bt_err can = check_schedule(all[k], how, &why);
        how->schedule = c->schedule = all[k];
        if (can == BT_OK) e = add_one(s, c, how, fault);
        else if (w->schedules) e = refuse(s, can, c->policy, c->form.name, &why, fault);
    }
    return e;
}

static bt_err add_kv(space *s, tool_plan_choice *c, const bt_pkg *sketch, const bt_price_kv *kv,
                     bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    bt_fault why = {""};
    const bt_price_pkg_config config = {.pkg = sketch, .npu = w->prefill, .companion = w->companion,
                                        .kv_elem_bits = 8 * kv->elem_bytes};
    tool_plan_how how = {.arenas = w->arenas, .profile = w->prefill, .link = w->link,
                         .kv_bytes = bt_price_kv_bytes(kv, w->dims)};
    c->kv = kv;
    how.kv = bt_link_kv_of(w->dims, how.kv_bytes);
    bt_err e = bt_price_pkg_new(&how.price, &config, &why);
    if (e < 0) return refuse(s, e, c->policy, c->form.name, &why, fault);
    e = add_schedules(s, c, &how, fault);
    bt_price_pkg_free(how.price);
    return e;
}

static bool kv_is_wanted(const tool_plan_want *w, const bt_price_kv *kv)
{
    bool is = !w->kvs && (!kv->is_fp8 || (w->prefill->time.fp8_permille && w->decode->time.fp8_permille));
    for (size_t i = 0; i < w->kvs; i++) is = is || !strcmp(w->kv[i], kv->name);
    return is;
}

static bt_err add_attention(space *s, tool_plan_choice *c, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    const tool_plan_sketch_want k = {.profile = w->prefill,     .dims = w->dims,
                                     .recipe = &c->form.recipe, .attention = &c->attention,
                                     .shapes = &s->shapes,      .ctx_tokens = w->ctx_tokens,
                                     .npu_ops = w->npu_ops};
    bt_pkg *sketch = NULL;
    bt_fault why = {""};
    bt_err e = tool_plan_sketch(&sketch, &k, &why);
    if (e < 0) return refuse(s, e, c->policy, c->form.name, &why, fault);
    c->sessions = bt_pkg_header_of(sketch)->sessions.count;
    c->spill_bytes = tool_plan_spilled_bytes(sketch);
    for (size_t i = 0; e == BT_OK && i < BT_PRICE_KVS; i++)
        if (kv_is_wanted(w, bt_price_kv_at(i))) e = add_kv(s, c, sketch, bt_price_kv_at(i), fault);
    bt_pkg_close(sketch);
    return e;
}

static bt_err add_form(space *s, tool_plan_choice *c, const tool_plan_form *form, bt_fault *fault)
{
    const size_t attentions = s->want->attentions ? s->want->attentions : 1;
    bt_err e = BT_OK;
    c->form = *form;
    for (size_t i = 0; e == BT_OK && i < attentions; i++) {
        e = bt_attention_parse(&c->attention, s->want->attentions ? s->want->attention[i] : NULL, fault);
        if (e == BT_OK) e = add_attention(s, c, fault);
    }
    return e;
}

/* The recipes that the NPU can run. */
static bt_err find_forms(space *s, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    const char *const *name = w->recipes ? w->recipe : usual_recipes;
    const size_t n = w->recipes ? w->recipes : count_of(usual_recipes);
    bt_err e = BT_OK;
    s->form = calloc(n, sizeof *s->form);
    if (!s->form) return bt_fail(fault, BT_ENOMEM, "out of memory planning");
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        bt_recipe recipe;
        bt_fault why = {""};
        if ((e = bt_recipe_parse(&recipe, name[i], fault)) < 0) break;
        const tool_plan_form form = form_of_recipe(&recipe);
        e = tool_plan_sketch_check(w->prefill, w->dims, &recipe, &why);
        if (e == BT_OK) s->form[s->forms++] = form;
        else e = refuse(s, e, "every policy", form.name, &why, fault);
    }
    return e;
}

static bool has_own_ctx(const bt_shapes *shapes)
{
    bool has = false;
    for (size_t i = 0; i < shapes->shapes; i++) has = has || shapes->shape[i].ctx;
    return has;
}

static bt_err add_policy(space *s, const char *policy, bool is_one_bucket, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    tool_plan_choice c = {.is_one_bucket = is_one_bucket};
    bt_fault why = {""};
    bt_err e = bt_shapes_parse(&s->shapes, policy, w->ctx_tokens, &why);
    if (e < 0)
        return w->policies ? bt_fail(fault, e, "%.240s", why.text)
                           : refuse(s, BT_EARG, policy, NULL, &why, fault);
    if (is_one_bucket && has_own_ctx(&s->shapes)) return BT_OK;
    if (is_one_bucket)
        for (size_t i = 0; i < s->shapes.all; i++) s->shapes.shape[i].ctx = (uint32_t)w->ctx_tokens;
    e = bt_plan_limits_check(w->prefill, &s->shapes, w->ctx_tokens, &why);
    if (e < 0) return refuse(s, e, policy, NULL, &why, fault);
    const bt_shape *longest = &s->shapes.shape[s->shapes.shapes - 1];
    while (bt_shapes_bucket(longest, w->ctx_tokens, c.buckets)) c.buckets++;
    snprintf(c.policy, sizeof c.policy, "%s", s->shapes.text);
    c.chunk_tokens = longest->seq;
    c.programs = bt_probes_rows(w->prefill, &s->shapes, w->ctx_tokens);
    c.compile_ns = bt_time_times(c.programs, w->prefill->time.program_compile_ns);
    for (size_t i = 0; e == BT_OK && i < s->forms; i++) e = add_form(s, &c, &s->form[i], fault);
    return e;
}

static bt_err add_programs(space *s, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    const char *const *policy = w->policies ? w->policy : bt_shapes_usual;
    const size_t policies = w->policies ? w->policies : count_of(bt_shapes_usual);
    bt_err e = find_forms(s, fault);
    for (size_t i = 0; e == BT_OK && i < policies; i++) {
        e = add_policy(s, policy[i], false, fault);
        if (e == BT_OK && w->prefill->static_ctx && w->ctx_tokens > 512)
            e = add_policy(s, policy[i], true, fault);
    }
    return e;
}

/* ---- a device that runs steps ---- */

static bt_err piece_of(uint64_t *ret, const char *name, bt_fault *fault)
{
    char *end = NULL;
    *ret = 0;
    if (!strcmp(name, "whole")) return BT_OK;
    if (!strncmp(name, "step:", 5) && name[5] >= '1' && name[5] <= '9') {
        const unsigned long v = strtoul(name + 5, &end, 10);
        *ret = v;
        if (!*end && v <= BT_SHAPES_MAX_SEQ) return BT_OK;
    }
    return bt_fail(
        fault, BT_EARG,
        "policy '%.60s': the prefill device has no programs; it takes whole, or step:N with N from 1 to %d",
        name, BT_SHAPES_MAX_SEQ);
}

static bt_err form_of(tool_plan_form *ret, const char *name, bt_fault *fault)
{
    for (size_t i = 0; i < BT_PRICE_FORMS; i++)
        if (!strcmp(name, bt_price_form_at(i)->name)) {
            *ret = tool_plan_float_form(i);
            return BT_OK;
        }
    return bt_fail(
        fault, BT_EARG,
        "recipe '%.60s': the prefill device has no programs; it takes f16, int8, fp4, fp8 or nvfp4", name);
}

static bt_price_model model_of(const bt_dims *dims, const tool_plan_form *f)
{
    const bt_price_recipe r = {.weight_bits = f->weight_bits, .input_bits = tool_plan_form_input_bits(f),
                               .kv_elem_bits = 16, .weight_bytes_permille = f->weight_permille,
                               .is_float = f->is_float};
    return bt_price_model_of(dims, &r);
}

static bt_err add_step(space *s, const char *policy, const char *form, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    tool_plan_choice c = {.programs = 0};
    tool_plan_how how = {.profile = w->prefill, .link = w->link};
    bt_fault why = {""};
    bt_err e = piece_of(&how.piece, policy, fault);
    if (e == BT_OK) e = form_of(&c.form, form, fault);
    if (e < 0) return e;
    if ((e = bt_price_check_forms(w->prefill, bt_price_form_find(form), NULL, &why)) < 0)
        return w->recipes ? refuse(s, e, policy, form, &why, fault) : BT_OK;
    snprintf(c.policy, sizeof c.policy, "%.127s", policy);
    c.chunk_tokens = (uint32_t)how.piece;
    for (size_t i = 0; e == BT_OK && i < BT_PRICE_KVS; i++) {
        const bt_price_kv *kv = bt_price_kv_at(i);
        if (!kv_is_wanted(w, kv)) continue;
        c.kv = kv;
        how.kv_bytes = bt_price_kv_bytes(kv, w->dims);
        how.kv = bt_link_kv_of(w->dims, how.kv_bytes);
        how.model = model_of(w->dims, &c.form);
        how.model.kv_bytes = how.kv_bytes;
        e = add_one(s, &c, &how, fault);
    }
    return e;
}

static bt_err add_steps(space *s, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    const char *const *policy = w->policies ? w->policy : usual_steps;
    const char *const *recipe = w->recipes ? w->recipe : bt_price_form_names;
    const size_t policies = w->policies ? w->policies : count_of(usual_steps),
                 recipes = w->recipes ? w->recipes : BT_PRICE_FORMS;
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < policies; i++)
        for (size_t k = 0; e == BT_OK && k < recipes; k++) e = add_step(s, policy[i], recipe[k], fault);
    return e;
}

/* ---- the decode device alone ---- */

static bt_err add_alone(space *s, bt_fault *fault)
{
    const tool_plan_want *w = s->want;
    const size_t steps = count_of(usual_steps);
    bt_err e = BT_OK;
    s->r->alone = calloc(BT_PRICE_KVS * steps, sizeof *s->r->alone);
    if (!s->r->alone) return bt_fail(fault, BT_ENOMEM, "out of memory planning");
    for (size_t i = 0; e == BT_OK && i < steps; i++)
        for (size_t k = 0; e == BT_OK && k < BT_PRICE_KVS; k++) {
            const bt_price_kv *kv = bt_price_kv_at(k);
            tool_plan_choice c = {.form = w->decode_form, .kv = kv,
                                  .is_allowed = is_allowed(w, &w->decode_form, kv)};
            tool_plan_how how = {.profile = w->decode, .model = s->pair.decode_model,
                                 .kv_bytes = bt_price_kv_bytes(kv, w->dims)};
            bt_fault why = {""};
            if (!kv_is_wanted(w, kv)) continue;
            how.model.kv_bytes = how.kv_bytes;
            e = piece_of(&how.piece, usual_steps[i], fault);
            snprintf(c.policy, sizeof c.policy, "%s", usual_steps[i]);
            c.chunk_tokens = (uint32_t)how.piece;
            if (e == BT_OK) e = tool_plan_figure_colocated(&c.f, &s->pair, &how, s->load, &w->limits, &why);
            if (e == BT_OK) s->r->alone[s->r->alones++] = c;
            else e = refuse(s, e, "the decode device alone", c.policy, &why, fault);
        }
    return e;
}

/* ---- all of them ---- */

static void sort(tool_plan_choice *at, size_t n, const tool_plan_want *want)
{
    /* by insertion: stable, and what is left of a plan is short */
    for (size_t i = 1; i < n; i++) {
        const tool_plan_choice c = at[i];
        size_t k = i;
        for (; k && tool_plan_compare(&c, &at[k - 1], want) < 0; k--) at[k] = at[k - 1];
        at[k] = c;
    }
}

/* Fewer bits for nothing: the time that is asked for, by default that of whole requests, is not 1 % less than
 * in f16, and the first token not 10 %. */
static void mark_idle_forms(tool_plan_result *r, tool_plan_by by)
{
    const double least = 1.01, least_first = 1.1;
    const tool_plan_by time = by == TOOL_PLAN_BY_TTFT || by == TOOL_PLAN_BY_TPOT ? by : TOOL_PLAN_BY_E2E;
    for (size_t i = 0; i < r->choices; i++)
        for (size_t k = 0; k < r->choices; k++) {
            tool_plan_choice *c = &r->choice[i];
            const tool_plan_choice *plain = &r->choice[k];
            if (c->form.weight_bits < 16 && plain->form.weight_bits == 16 && plain->kv == c->kv &&
                !strcmp(plain->policy, c->policy))
                c->gains_no_time = tool_plan_value(plain, time) <= least * tool_plan_value(c, time) &&
                                   plain->f.prefill_ns <= least_first * c->f.prefill_ns;
        }
}

/* Where several are alike in all figures the first is kept. */
static void drop_dominated(tool_plan_result *r)
{
    bool *is_out = calloc(r->choices + 1, sizeof *is_out);
    size_t kept = 0;
    if (!is_out) return; /* then all are shown */
    for (size_t i = 0; i < r->choices; i++)
        for (size_t k = 0; k < r->choices && !is_out[i]; k++)
            is_out[i] = k != i && !r->choice[i].is_tie &&
                        (tool_plan_dominates(&r->choice[k], &r->choice[i]) ||
                         (k < i && tool_plan_is_alike(&r->choice[k], &r->choice[i])));
    for (size_t i = 0; i < r->choices; i++)
        if (!is_out[i]) r->choice[kept++] = r->choice[i];
    r->choices = kept;
    free(is_out);
}

static bt_err check_names(const tool_plan_want *w, bt_fault *fault)
{
    for (size_t i = 0; i < w->attentions; i++) {
        bt_attention a;
        const bt_err e = bt_attention_parse(&a, w->attention[i], fault);
        if (e < 0) return e;
        if (a.ratio_ppm && w->prefill->companion)
            return bt_fail(
                fault, BT_EARG,
                "attention '%.40s': the prefill device '%s' has no programs, and only an NPU's attend "
                "sparsely",
                w->attention[i], w->prefill->name);
    }
    for (size_t i = 0; i < w->kvs; i++) {
        const bt_price_kv *kv = bt_price_kv_find(w->kv[i]);
        if (!kv) return bt_fail(fault, BT_EARG, "KV rows '%.40s' are none of f16, int8 and fp8", w->kv[i]);
        bt_err e = bt_price_check_forms(w->prefill, NULL, kv, fault);
        if (e == BT_OK) e = bt_price_check_forms(w->decode, NULL, kv, fault);
        if (e < 0) return e;
    }
    return bt_price_check_forms(w->decode, bt_price_form_find(w->decode_form.name), NULL, fault);
}

bt_err tool_plan_make(tool_plan_result *ret, const tool_plan_want *want, const tool_plan_load *load,
                      bool is_colocated, bt_fault *fault)
{
    space *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory planning");
    s->r = ret;
    s->want = want;
    s->load = load;
    s->pair = (tool_plan_pair){
        .prefill = want->prefill,    .decode = want->decode,
        .link = want->link,          .dims = want->dims,
        .slots = want->slots,        .ctx_tokens = want->ctx_tokens,
        .is_drawn = want->draws > 0, .decode_model = model_of(want->dims, &want->decode_form)};
    bt_err e = check_names(want, fault);
    if (e == BT_OK) e = want->prefill->companion ? add_steps(s, fault) : add_programs(s, fault);
    ret->priced = ret->choices;
    if (e == BT_OK && !ret->choices) e = bt_fail(fault, BT_ELIMIT, "%.240s", s->why.text);
    if (e == BT_OK && tool_plan_value(&ret->choice[0], want->by) < 0)
        e = bt_fail(fault, BT_EARG, "--by %s: profiles '%s' and '%s' have no source for what they draw",
                    tool_plan_by_names[want->by], want->prefill->name, want->decode->name);
    if (e == BT_OK && is_colocated) e = add_alone(s, fault);
    if (e == BT_OK && want->prefill->companion) mark_idle_forms(ret, want->by);
    if (e == BT_OK) e = tool_plan_draw(ret, want, fault);
    if (e == BT_OK) {
        drop_dominated(ret);
        sort(ret->choice, ret->choices, want);
        sort(ret->alone, ret->alones, want);
    }
    free(s->form);
    free(s);
    return e;
}

void tool_plan_result_done(tool_plan_result *r)
{
    free(r->choice);
    free(r->refused);
    free(r->alone);
    *r = (tool_plan_result){0};
}
