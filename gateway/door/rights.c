/* Roles and limits of API keys, in the words of the API. */
#include "gateway/door/rights.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* ---- roles ---- */

static bool has(const gw_key *k, gw_right right)
{
    switch (right) {
    case GW_RIGHT_OPEN: return true;
    case GW_RIGHT_CLIENT: return k->facts.role == GW_KEY_CLIENT || k->facts.role == GW_KEY_ADMIN;
    case GW_RIGHT_METRICS: return k->facts.role == GW_KEY_METRICS || k->facts.role == GW_KEY_ADMIN;
    case GW_RIGHT_ADMIN: return k->facts.role == GW_KEY_ADMIN;
    }
    return false;
}

bool gw_rights_may(const gw_door *d, const gw_http_request *r, gw_right right, gw_error *err)
{
    static const char *const roles[] = {[GW_RIGHT_OPEN] = "",
                                        [GW_RIGHT_CLIENT] = "role=client or role=admin",
                                        [GW_RIGHT_ADMIN] = "role=admin",
                                        [GW_RIGHT_METRICS] = "role=metrics or role=admin"};
    const gw_key *k = r->caller;
    if (!d->env.auth || right == GW_RIGHT_OPEN) return true;
    if (right == GW_RIGHT_METRICS && gw_options_metrics(d->env.options) != GW_METRICS_KEY) return true;
    if (k && has(k, right)) return true;
    if (!k)
        (void)gw_error_say(err, 401, "invalid_api_key", NULL,
                           r->has_authorization
                               ? "The API key is not one of this server's."
                               : "This server needs an API key: send 'Authorization: Bearer KEY' or "
                                 "'x-api-key: KEY'.");
    else
        (void)gw_error_say(err, 403, "insufficient_role", NULL,
                           "%.100s needs an API key with %s; the key '%s' has role=%s.", r->path,
                           roles[right], k->facts.name, gw_key_roles[k->facts.role]);
    return false;
}

bool gw_rights_is_admin(const gw_door *d, const gw_http_request *r)
{
    const gw_key *k = r->caller;
    return !d->env.auth || (k && has(k, GW_RIGHT_ADMIN));
}

bt_err gw_rights_choose_nodes(const gw_door *d, gw_key *k, const gw_ask *r, gw_error *err)
{
    const gw_node_choice choice = gw_options_node_choice(d->env.options);
    if (!r->prefer_prefill[0] && !r->prefer_decode[0]) return BT_OK;
    if (choice == GW_CHOICE_ALL || (choice == GW_CHOICE_ADMIN && k && has(k, GW_RIGHT_ADMIN))) return BT_OK;
    if (k) k->refusals[GW_KEY_FINE]++;
    if (choice == GW_CHOICE_NONE || !k)
        (void)gw_error_say(err, 403, "node_choice_not_allowed", "baton",
                           "Requests may not name their nodes here (--node-choice none): leave out 'prefill' "
                           "and 'decode'.");
    else
        (void)gw_error_say(err, 403, "node_choice_not_allowed", "baton",
                           "Only an API key with role=admin may name nodes here (--node-choice admin), and "
                           "the key '%s' has role=%s: leave out 'prefill' and 'decode'.",
                           k->facts.name, gw_key_roles[k->facts.role]);
    return BT_EAUTH;
}

uint64_t gw_rights_share(const gw_door *d, const gw_http_request *r)
{
    const gw_key *k = r->caller;
    switch (gw_options_share_by(d->env.options)) {
    case GW_SHARE_KEY: return k ? k->share : 0;
    case GW_SHARE_ADDRESS: return r->address;
    case GW_SHARE_NONE:
    case GW_SHARE_AUTO: break;
    }
    return 0;
}

/* ---- limits ---- */

void gw_rights_retry_after(gw_error *err, int64_t wait_us)
{
    err->retry_after_s = wait_us > 1000000 ? (uint32_t)((wait_us + 999999) / 1000000) : 1;
}

/* Counts and words a limit that was reached; `asked`: tokens. */
static bt_err refuse(gw_key *k, const gw_key_verdict *v, uint64_t asked, gw_error *err)
{
    const gw_key_limits *l = &k->facts.limits;
    k->refusals[v->limit]++;
    switch (v->limit) {
    case GW_KEY_FINE:
    case GW_KEY_LIMITS: return BT_OK;
    case GW_KEY_REQUESTS:
        (void)gw_error_say(err, 429, "rate_limit_exceeded", NULL,
                           "The API key '%s' may make %u requests a minute (requests-per-minute).",
                           k->facts.name, l->requests_per_minute);
        break;
    case GW_KEY_TOKENS:
        (void)gw_error_say(err, 429, "rate_limit_exceeded", NULL,
                           "The API key '%s' may use %u tokens a minute (tokens-per-minute), and the prompt "
                           "and its answer may have %llu.",
                           k->facts.name, l->tokens_per_minute, (unsigned long long)asked);
        break;
    case GW_KEY_AT_ONCE:
        (void)gw_error_say(err, 429, "rate_limit_exceeded", NULL,
                           "The API key '%s' may have %u requests at once (at-once), and has them.",
                           k->facts.name, l->at_once);
        break;
    }
    gw_rights_retry_after(err, v->wait_us);
    return BT_EAGAIN;
}

bt_err gw_rights_arrive(gw_key *k, gw_error *err)
{
    if (!k) return BT_OK;
    const gw_key_verdict v = gw_key_usage_arrive(&k->usage, bt_clock_us());
    return v.limit == GW_KEY_FINE ? BT_OK : refuse(k, &v, 0, err);
}

bt_err gw_rights_begin(gw_live *l, gw_error *err)
{
    gw_key *k = l->key;
    const uint64_t tokens = (uint64_t)l->prompt_len + l->bound.tokens;
    if (!k) return BT_OK;
    const gw_key_verdict v = gw_key_usage_begin(&k->usage, tokens, bt_clock_us());
    if (v.limit != GW_KEY_FINE) return refuse(k, &v, tokens, err);
    l->key_tokens = v.taken;
    l->is_counted = true;
    return BT_OK;
}

/* A prompt counts as soon as nodes were asked for it: who leaves before the first token has had it computed.
 */
void gw_rights_end(gw_live *l, const gw_stats *s)
{
    gw_key *k = l->key;
    if (!l->is_counted) return;
    l->is_counted = false;
    const uint64_t prompt = s && s->attempts > 0 ? s->prompt_tokens : 0,
                   answer = s ? s->completion_tokens : 0;
    gw_key_usage_end(&k->usage, l->key_tokens, prompt + answer, bt_clock_us());
    if (s) k->requests++;
    k->prompt_tokens += prompt;
    k->answer_tokens += answer;
}

uint32_t gw_rights_context(const gw_key *k, uint32_t tokens)
{
    const uint32_t own = k ? k->facts.limits.context_tokens : 0;
    return own && own < tokens ? own : tokens;
}

void gw_rights_name_context(const gw_key *k, uint32_t ctx_tokens, gw_error *err)
{
    char words[sizeof err->message];
    if (!k || k->facts.limits.context_tokens != ctx_tokens ||
        strcmp(err->code, "context_length_exceeded") != 0)
        return;
    memcpy(words, err->message, sizeof words);
    (void)snprintf(err->message, sizeof err->message, "%.400s The API key '%s' has this limit (context).",
                   words, k->facts.name);
}
