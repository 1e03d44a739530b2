/* Reads, checks and carries out --scale. See scale.h. */
#include "lab/simulate/scale.h"
#include "lab/simulate/side.h"
#include "lab/simulate/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RATIO = 1000, DECIMALS = 3 };

static const char *const roles[] = {"prefill", "decode"}, *const figures[] = {"kv", "slots", "queue"};
static bt_role role_at(size_t i) { return i ? BT_ROLE_DECODE : BT_ROLE_PREFILL; }
static const char *name_of(bt_role r) { return roles[r == BT_ROLE_DECODE]; }

static bt_err keyword(tool_simulate_words *r, const char *word, const char *wants)
{
    if (!tool_simulate_is(r, word)) return tool_simulate_wrong(r, wants, NULL);
    tool_simulate_pass(r);
    return BT_OK;
}

/* "2..16" */
static bt_err range(tool_simulate_words *r, sim_scale_rule *k)
{
    uint64_t a = 0, b = 0;
    const size_t n = tool_simulate_digits(&a, r->word, TOOL_SIMULATE_NODES);
    const char *rest = r->word + n;
    const bool dots = n && strncmp(rest, "..", 2) == 0;
    const size_t m = dots ? tool_simulate_digits(&b, rest + 2, TOOL_SIMULATE_NODES) : 0;
    if (!m || rest[2 + m] || a > b || !b || r->len >= TOOL_SIMULATE_WORD)
        return tool_simulate_wrong(r, "fewest and most nodes such as 2..16, at most 4096,", NULL);
    k->least = (uint32_t)a;
    k->most = (uint32_t)b;
    tool_simulate_pass(r);
    return BT_OK;
}

/* A number with up to three decimals, in thousandths; how many characters. 0: none, or too large. */
static size_t thousandths(uint64_t *ret, const char *c, uint64_t limit)
{
    uint64_t whole = 0, part = 0;
    size_t n = tool_simulate_digits(&whole, c, limit), m;
    if (!n) return 0;
    if (c[n] == '.') {
        m = tool_simulate_digits(&part, c + n + 1, RATIO - 1);
        if (!m || m > DECIMALS) return 0;
        for (size_t i = m; i < DECIMALS; i++) part *= 10;
        n += m + 1;
    }
    *ret = whole * RATIO + part;
    return *ret <= limit * RATIO ? n : 0;
}

/* "kv>0.8 for 10s" */
static bt_err bound(tool_simulate_words *r, sim_scale_bound *b, char op)
{
    static const char *const wants[] = {"a figure and its bound such as kv>0.8, slots>0.9 or queue>4",
                                        "a figure and its bound such as kv<0.3, slots<0.2 or queue<1"};
    int64_t us = 0;
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(figures[i]);
        if (strncmp(r->word, figures[i], n) != 0 || r->word[n] != op || r->len >= TOOL_SIMULATE_WORD)
            continue;
        const uint64_t limit = i == SIM_SCALE_QUEUE ? 1000000 : 1;
        const size_t m = thousandths(&b->milli, r->word + n + 1, limit);
        if (!m || r->word[n + 1 + m]) break;
        b->signal = (sim_scale_signal)i;
        tool_simulate_pass(r);
        bt_err e = keyword(r, "for", "'for TIME'");
        if (e == BT_OK) e = tool_simulate_duration(r, &us);
        b->for_ns = us * 1000;
        return e;
    }
    return tool_simulate_wrong(r, wants[op == '<'], NULL);
}

static bt_err rule(tool_simulate_words *r, tool_simulate_scale *s, bt_role role, const char *model)
{
    sim_scale_rule k = {.role = role};
    if (s->rules == TOOL_SIMULATE_RULES)
        return bt_fail(r->fault, BT_EARG, "--scale: has more than %d rules", TOOL_SIMULATE_RULES);
    for (size_t i = 0; i < s->rules; i++)
        if (s->rule[i].role == role && strcmp(s->model_name[i], model) == 0)
            return bt_fail(r->fault, BT_EARG, "--scale: two rules for %s%s%s", name_of(role),
                           model[0] ? "@" : "", model);
    (void)snprintf(s->model_name[s->rules], sizeof s->model_name[0], "%s", model);
    bt_err e = range(r, &k);
    if (e == BT_OK) e = keyword(r, "when", "'when'");
    if (e == BT_OK) e = bound(r, &k.up, '>');
    if (e == BT_OK && r->len) {
        k.has_down = true;
        e = keyword(r, ",", "', down when' or ';'");
        if (e == BT_OK) e = keyword(r, "down", "'down'");
        if (e == BT_OK) e = keyword(r, "when", "'when'");
        const tool_simulate_words at = *r;
        if (e == BT_OK) e = bound(r, &k.down, '<');
        if (e == BT_OK && k.up.signal == k.down.signal && k.down.milli > k.up.milli)
            return tool_simulate_wrong(&at, "a bound that is not above that of growing", NULL);
    }
    if (e == BT_OK && r->len) e = tool_simulate_wrong(r, "';'", NULL);
    if (e == BT_OK) s->rule[s->rules++] = k;
    return e;
}

static bt_err change(tool_simulate_words *r, tool_simulate_scale *s, bool is_role)
{
    tool_simulate_change k = {0};
    size_t i = 0;
    bt_err e = tool_simulate_one_of(r, &i, roles, 2, "prefill or decode");
    k.role = role_at(i);
    if (e == BT_OK) e = tool_simulate_count(r, &k.number, 0, "", "a number from 0");
    if (e == BT_OK && is_role) {
        e = tool_simulate_one_of(r, &i, roles, 2, "prefill or decode");
        k.as = role_at(i);
    }
    if (e == BT_OK) e = keyword(r, "at", "'at TIME'");
    if (e == BT_OK) e = tool_simulate_duration(r, &k.at_us);
    if (e == BT_OK && r->len) {
        e = keyword(r, "for", "'for TIME' or ';'");
        const tool_simulate_words at = *r;
        if (e == BT_OK) e = tool_simulate_duration(r, &k.for_us);
        if (e == BT_OK && !k.for_us) return tool_simulate_wrong(&at, "a time above 0", NULL);
    }
    if (e == BT_OK && r->len) e = tool_simulate_wrong(r, "';'", NULL);
    if (e == BT_OK && s->changes == TOOL_SIMULATE_CHANGES)
        return bt_fail(r->fault, BT_EARG, "--scale: has more than %d changes", TOOL_SIMULATE_CHANGES);
    if (e == BT_OK) s->change[s->changes++] = k;
    return e;
}

/* "decode@llama-3.2-1b": the model, and passes. */
static bool is_of_model(char ret[TOOL_SIMULATE_NAME], tool_simulate_words *r, const char *role)
{
    const size_t n = strlen(role);
    if (r->len < n + 2 || r->len - n - 1 >= TOOL_SIMULATE_NAME) return false;
    if (strncmp(r->at, role, n) != 0 || r->at[n] != '@') return false;
    (void)snprintf(ret, TOOL_SIMULATE_NAME, "%.*s", (int)(r->len - n - 1), r->at + n + 1);
    tool_simulate_pass(r);
    return true;
}

static bt_err part(tool_simulate_words *r, tool_simulate_scale *s)
{
    static const char *const verbs[] = {"prefill", "decode", "role", "leave", "start"};
    enum { ROLE = 2, LEAVE, START };
    char model[TOOL_SIMULATE_NAME];
    size_t verb = 0;
    for (size_t i = 0; i < 2; i++)
        if (is_of_model(model, r, roles[i])) return rule(r, s, role_at(i), model);
    bt_err e = tool_simulate_one_of(r, &verb, verbs, sizeof verbs / sizeof *verbs,
                                    "prefill, decode, role, leave or start");
    if (e < 0) return e;
    if (verb < ROLE) return rule(r, s, role_at(verb), "");
    if (verb != START) return change(r, s, verb == ROLE);
    e = tool_simulate_duration(r, &s->start_us);
    return e == BT_OK && r->len ? tool_simulate_wrong(r, "';'", NULL) : e;
}

bt_err tool_simulate_scale_read(tool_simulate_scale *ret, const char *text, bt_fault *fault)
{
    tool_simulate_words r = {.option = "scale", .text = text, .at = text, .fault = fault};
    *ret = (tool_simulate_scale){.start_us = -1};
    for (tool_simulate_look(&r); *r.at; tool_simulate_look(&r)) {
        if (*r.at == ';') {
            r.at++;
            continue;
        }
        const bt_err e = part(&r, ret);
        if (e < 0) return e;
    }
    return BT_OK;
}

uint32_t tool_simulate_scale_spare(const tool_simulate_scale *s, bt_role role, uint32_t model, uint32_t now)
{
    for (size_t i = 0; i < s->rules; i++)
        if (s->rule[i].role == role && s->rule[i].model == model && s->rule[i].most > now)
            return s->rule[i].most - now;
    return 0;
}

static bt_err check_rule(const tool_simulate_scale *s, size_t i, tool_simulate_has has, bt_fault *fault)
{
    const sim_scale_rule *k = &s->rule[i];
    const uint32_t now = has[k->model][k->role == BT_ROLE_DECODE];
    const char *at = s->model_name[i][0] ? "@" : "", *model = s->model_name[i];
    for (size_t n = 0; n < i; n++)
        if (s->rule[n].role == k->role && s->rule[n].model == k->model)
            return bt_fail(fault, BT_EARG, "--scale: two rules for %s%s%s", name_of(k->role), at, model);
    if (!now)
        return bt_fail(fault, BT_EARG,
                       "--scale: a rule for %s%s%s, of which the cluster has no node to begin with",
                       name_of(k->role), at, model);
    if (now < k->least || now > k->most)
        return bt_fail(fault, BT_EARG,
                       "--scale: the cluster begins with %u %s%s%s nodes, and the rule allows %u..%u", now,
                       name_of(k->role), at, model, k->least, k->most);
    return BT_OK;
}

bt_err tool_simulate_scale_check(const tool_simulate_scale *s, tool_simulate_has has, bt_fault *fault)
{
    for (size_t i = 0; i < s->rules; i++) {
        const bt_err e = check_rule(s, i, has, fault);
        if (e < 0) return e;
    }
    for (size_t i = 0; i < s->changes; i++) {
        const tool_simulate_change *k = &s->change[i];
        uint32_t all = 0;
        for (uint32_t m = 0; m < SIM_CLUSTER_MODELS; m++) {
            const uint32_t now = has[m][k->role == BT_ROLE_DECODE];
            all += now + tool_simulate_scale_spare(s, k->role, m, now);
        }
        if (k->number >= all)
            return bt_fail(fault, BT_EARG, "--scale: there is no %s %u; the cluster has %u", name_of(k->role),
                           k->number, all);
    }
    return BT_OK;
}

/* ---- carrying it out ---- */

static void keep(tool_simulate_scaler *s, const tool_simulate_count_at *n)
{
    if (s->counts == TOOL_SIMULATE_COUNTS) {
        for (size_t i = 0; i < TOOL_SIMULATE_COUNTS / 2; i++) s->count[i] = s->count[2 * i];
        s->counts /= 2;
    }
    s->count[s->counts++] = *n;
}

static void count(tool_simulate_scaler *s, const sim_cluster *c, int64_t at_us)
{
    tool_simulate_count_at n = {.at_us = at_us};
    s->changes = sim_cluster_changes(c);
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_state state = sim_cluster_state_of(c, i);
        n.powered += state != SIM_CLUSTER_OFF;
        if (state != SIM_CLUSTER_SERVING) continue;
        if (sim_cluster_look(c, i).role == BT_ROLE_DECODE) n.decode++;
        else n.prefill++;
    }
    const uint32_t now[] = {n.prefill, n.decode};
    for (size_t i = 0; i < 2; i++) {
        if (now[i] > s->most[i]) s->most[i] = now[i];
        if (!s->counts || now[i] < s->least[i]) s->least[i] = now[i];
    }
    const tool_simulate_count_at *last = s->counts ? &s->count[s->counts - 1] : NULL;
    if (!last || last->prefill != n.prefill || last->decode != n.decode || last->powered != n.powered)
        keep(s, &n);
}

void tool_simulate_scaler_begin(tool_simulate_scaler *s, const tool_simulate_scale *scale,
                                const sim_cluster *c)
{
    *s = (tool_simulate_scaler){.scale = scale};
    for (size_t i = 0; i < scale->rules; i++) sim_scale_begin(&s->rule[i], &scale->rule[i]);
    count(s, c, 0);
}

void tool_simulate_scaler_look(tool_simulate_scaler *s, sim_cluster *c, int64_t at_us)
{
    for (size_t i = 0; i < s->scale->rules; i++) sim_scale_look(&s->rule[i], c);
    if (s->changes != sim_cluster_changes(c)) count(s, c, at_us);
}

static bool is_leaving(const sim_cluster *c, const tool_simulate_change *k)
{
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_node n = sim_cluster_look(c, i);
        if (n.born == k->role && n.number == k->number)
            return sim_cluster_state_of(c, i) == SIM_CLUSTER_LEAVING;
    }
    return false;
}

bool tool_simulate_scaler_change(sim_cluster *c, const tool_simulate_change *k, bool is_end)
{
    const bt_role other = k->as == BT_ROLE_DECODE ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    if (k->as) sim_cluster_role(c, k->role, k->number, is_end ? other : k->as);
    else if (!is_end) (void)sim_cluster_drain(c, k->role, k->number);
    else if (!sim_cluster_join(c, k->role, k->number)) return !is_leaving(c, k);
    return true;
}
