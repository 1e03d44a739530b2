/* Names of models, and whose a request is. See models.h. */
#include "lab/simulate/models.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_of(const char *name) { return bt_hash64(name, strlen(name)); }

static bool is_called(const tool_simulate_models *m, uint32_t i, const char *name)
{
    return strcmp(name, m->given[i]) == 0 || strcmp(name, m->dims[i].name) == 0;
}

bt_err tool_simulate_model_of(uint32_t *ret, const tool_simulate_models *m, const char *name, bt_fault *fault)
{
    const size_t len = strlen(name);
    uint32_t found = 0, matches = 0;
    for (uint32_t i = 0; i < m->len; i++) {
        if (is_called(m, i, name)) {
            *ret = i;
            return BT_OK;
        }
        if (!len || strncmp(m->given[i], name, len) != 0) continue;
        found = i;
        matches++;
    }
    if (matches != 1)
        return bt_fail(fault, BT_EARG, "'%.60s' is %s of the models that --model names; the first is '%.60s'",
                       name, matches ? "the beginning of several" : "none", m->given[0]);
    *ret = found;
    return BT_OK;
}

/* A word behind @ that is a stack may have been meant as a model. */
static bt_err check_stack(const tool_simulate_models *m, const tool_simulate_group *g, const char *option,
                          bt_fault *fault)
{
    uint32_t i = 0;
    while (i < m->len && !is_called(m, i, g->stack)) i++;
    if (!g->stack[0] || g->model_name[0] || i == m->len) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "--%s: '@%s' is a stack of '%s' and a model of --model; give both, as in @%s@%s, or give the "
        "model another name",
        option, g->stack, g->profile.name, g->stack, g->stack);
}

static bt_err place(const tool_simulate_models *m, tool_simulate_side *s, const char *option,
                    uint32_t nodes[TOOL_SIMULATE_MODELS], bt_fault *fault)
{
    for (size_t i = 0; i < s->len; i++) {
        tool_simulate_group *g = &s->group[i];
        bt_fault why = {""};
        const bt_err e = check_stack(m, g, option, fault);
        if (e < 0) return e;
        g->model = 0;
        if (g->model_name[0] && tool_simulate_model_of(&g->model, m, g->model_name, &why) < 0)
            return bt_fail(fault, BT_EARG, "--%s: %.250s", option, why.text);
        nodes[g->model] += g->least;
    }
    return BT_OK;
}

bt_err tool_simulate_models_place(const tool_simulate_models *m, tool_simulate_side *prefill,
                                  tool_simulate_side *decode, bool is_colocated, bt_fault *fault)
{
    uint32_t nodes[2][TOOL_SIMULATE_MODELS] = {{0}};
    bt_err e = place(m, prefill, "prefill", nodes[0], fault);
    if (e == BT_OK) e = place(m, decode, "decode", nodes[1], fault);
    for (uint32_t i = 0; e == BT_OK && i < m->len; i++)
        if (!nodes[1][i] && !(is_colocated && nodes[0][i]))
            e = bt_fail(fault, BT_EARG, "--decode: no node serves '%.60s'; as in 4:h100@%.60s", m->given[i],
                        m->given[i]);
    return e;
}

bt_err tool_simulate_models_rules(const tool_simulate_models *m, tool_simulate_scale *s, bt_fault *fault)
{
    for (size_t i = 0; i < s->rules; i++) {
        bt_fault why = {""};
        s->rule[i].model = 0;
        if (s->model_name[i][0] && tool_simulate_model_of(&s->rule[i].model, m, s->model_name[i], &why) < 0)
            return bt_fail(fault, BT_EARG, "--scale: %.250s", why.text);
    }
    return BT_OK;
}

static bt_err take_part(tool_simulate_models *m, const char *part, bt_fault *fault)
{
    char text[160];
    bt_fault why = {""};
    uint32_t model = 0;
    double share = 0;
    (void)snprintf(text, sizeof text, "%s", part);
    char *is = strchr(text, '='), *of = is ? NULL : strrchr(text, ':');
    if (is) {
        *is = 0;
        if (!text[0] || m->named_len == TOOL_SIMULATE_NAMED)
            return bt_fail(fault, BT_EARG, "--requests '%.60s': a name and a model, at most %d of them", part,
                           TOOL_SIMULATE_NAMED);
        if (tool_simulate_model_of(&model, m, is + 1, &why) < 0)
            return bt_fail(fault, BT_EARG, "--requests: %.250s", why.text);
        m->named[m->named_len].name = hash_of(text);
        m->named[m->named_len++].model = model;
        return BT_OK;
    }
    if (of) *of = 0;
    if (!of || bt_num_double(&share, of + 1, 1e-9, 1e9, NULL) < 0)
        return bt_fail(fault, BT_EARG,
                       "--requests '%.60s': a model and its share, as in %.60s:3, or a name of the trace and "
                       "its model, as in GPT-4=%.60s",
                       part, m->given[0], m->given[0]);
    if (tool_simulate_model_of(&model, m, text, &why) < 0)
        return bt_fail(fault, BT_EARG, "--requests: %.250s", why.text);
    m->share[model] += share;
    return BT_OK;
}

bt_err tool_simulate_models_requests(tool_simulate_models *m, const char *text, bt_fault *fault)
{
    for (const char *at = text;;) {
        char part[160];
        const size_t len = strcspn(at, ",");
        const int shown = len < sizeof part ? (int)len : 0; /* too long is no part */
        (void)snprintf(part, sizeof part, "%.*s", shown, at);
        const bt_err e = take_part(m, part, fault);
        if (e < 0) return e;
        if (!at[len]) return BT_OK;
        at += len + 1;
    }
}

/* m->len: the row names none that is known. */
static uint32_t named(const tool_simulate_models *m, uint64_t name)
{
    for (size_t i = 0; name && i < m->named_len; i++)
        if (m->named[i].name == name) return m->named[i].model;
    for (uint32_t i = 0; name && i < m->len; i++)
        if (hash_of(m->given[i]) == name || hash_of(m->dims[i].name) == name) return i;
    return m->len;
}

static uint32_t drawn(const tool_simulate_models *m, uint64_t seed, uint64_t stream, double all)
{
    double left = bt_rng_uniform(bt_rng_u64(seed, 0x6d6f64656c), stream) * all;
    uint32_t last = 0;
    for (uint32_t i = 0; i < m->len; i++) {
        if (m->share[i] <= 0) continue;
        last = i;
        if (left < m->share[i]) return i;
        left -= m->share[i];
    }
    return last;
}

static bt_err nobodys(const tool_replay_plan *p, const tool_simulate_models *m, size_t item, bt_fault *fault)
{
    for (size_t i = 0; i < p->names; i++)
        if (p->name[i].hash == p->item[item].name)
            return bt_fail(
                fault, BT_EARG,
                "request %zu asks for '%.60s', which is no --model: give --requests '%.60s=%.60s,...'",
                item + 1, p->name[i].text, p->name[i].text, m->given[0]);
    return bt_fail(fault, BT_EARG,
                   "request %zu names no model: give --requests '%.60s:3,%.60s:1', their shares", item + 1,
                   m->given[0], m->given[1]);
}

bt_err tool_simulate_models_assign(tool_replay_plan *p, const tool_simulate_models *m, uint64_t seed,
                                   bt_fault *fault)
{
    double all = 0;
    for (uint32_t i = 0; i < m->len; i++) all += m->share[i];
    for (size_t i = 0; m->len > 1 && i < p->len; i++) {
        tool_replay_item *t = &p->item[i];
        t->model = named(m, t->name);
        if (t->model < m->len) continue;
        if (all <= 0) return nobodys(p, m, i, fault);
        t->model = drawn(m, seed, t->stream, all);
    }
    return BT_OK;
}
