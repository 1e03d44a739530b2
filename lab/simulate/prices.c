/* Programs come from a package or from sizes alone; from there on they are one kind of price. See prices.h.
 */
#include "lab/simulate/prices.h"
#include "npu/price/price_pkg.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg_shapes.h"
#include "lab/plan/programs.h"

#include <stdlib.h>
#include <string.h>

static const char GPU_POLICY[] = "chunk:8192+tail";

typedef tool_simulate_programs made;

static bool has_sizes(const bt_pkg_header *h, const bt_dims *d)
{
    return h->layers == d->layers && h->dim == d->hidden && h->ffn == d->ffn && h->heads == d->heads &&
           h->kv_heads == d->kv_heads && h->head_dim == d->head_dim && h->vocab == d->vocab;
}

bool tool_simulate_is_of_package(const tool_simulate_setup *s, const tool_simulate_group *g)
{
    if (!s->package) return false;
    const bt_pkg_header *h = bt_pkg_header_of(s->package);
    return strcmp(h->profile, g->profile.name) == 0 && has_sizes(h, tool_simulate_dims(s, g->model));
}

bool tool_simulate_has_engines(const tool_simulate_group *g)
{
    return sim_cost_has_programs(&g->profile) && g->profile.time.companion[0];
}

/* Each chunk under way holds one. */
static uint64_t arenas_of(const tool_simulate_setup *s, const tool_simulate_group *g)
{
    return s->schedule == BT_SCHEDULE_SERIAL || !tool_simulate_has_engines(g) ? 1 : s->window;
}

bt_err tool_simulate_check_schedule(const tool_simulate_setup *s, bt_fault *fault)
{
    if (s->schedule == BT_SCHEDULE_SERIAL) return BT_OK;
    for (size_t i = 0; i < s->prefill.len; i++)
        if (tool_simulate_has_engines(&s->prefill.group[i]) && !s->is_colocated) return BT_OK;
    return bt_fail(fault, BT_EARG,
                   "--schedule: no prefill node has an NPU and a companion that could share a prompt; as in "
                   "--prefill 1:hexagon-v75");
}

static bt_err of_package(made *m, const tool_simulate_setup *s, const tool_simulate_group *g, bt_fault *fault)
{
    const bt_profile *p = &g->profile;
    const bt_pkg_header *h = bt_pkg_header_of(s->package);
    const bt_pkg_session *session = bt_pkg_sessions(s->package);
    if (h->ctx_tokens < s->ctx_tokens)
        return bt_fail(fault, BT_EARG, "-c %u: --package is for sequences of at most %u tokens",
                       (unsigned)s->ctx_tokens, (unsigned)h->ctx_tokens);
    bt_err e = bt_price_pkg(&m->programs.price, s->package, p, 8 * s->kv_elem_bytes, fault);
    if (e == BT_OK) e = bt_pkg_shapes(&m->shapes, s->package, fault);
    for (uint32_t i = 0; i < h->sessions.count; i++)
        m->bytes += session[i].mapped_bytes + (arenas_of(s, g) - 1) * h->arena_bytes;
    return e;
}

bt_err tool_simulate_programs_of(tool_simulate_programs *m, const tool_simulate_setup *s,
                                 const tool_simulate_group *g, bt_fault *fault)
{
    const bt_profile *p = &g->profile;
    const bt_dims *dims = tool_simulate_dims(s, g->model);
    bt_profile companion;
    bt_recipe recipe;
    bt_attention attention;
    const tool_plan_kv *kv = tool_plan_kvs;
    const bool has_companion = p->time.companion[0];
    const char *policy = s->shape_policy ? s->shape_policy : BT_SHAPES_DEFAULT;
    while (kv[1].name && kv->elem_bytes != s->kv_elem_bytes) kv++;
    bt_err e = bt_shapes_parse(&m->shapes, policy, s->ctx_tokens, fault);
    if (e == BT_OK) e = bt_recipe_parse(&recipe, s->recipe, fault);
    if (e == BT_OK) e = bt_attention_parse(&attention, s->attention, fault);
    if (e == BT_OK && has_companion) e = bt_profile_companion(&companion, p, fault);
    if (e == BT_OK) e = tool_plan_form_check(p, dims, &recipe, fault);
    if (e < 0) return e;
    const tool_plan_form form = tool_plan_form_of(&recipe);
    e = tool_plan_programs_make(&m->programs, p, has_companion ? &companion : NULL, dims, &form, kv,
                                &attention, &m->shapes, s->ctx_tokens, false, fault);
    m->bytes = m->programs.weight_bytes + arenas_of(s, g) * m->programs.sessions * m->programs.arena_bytes;
    return e;
}

/* As npu/run/exec.h has it. */
static bool runs_alone(const tool_simulate_setup *s, const tool_simulate_group *g, const bt_price *price)
{
    if (price->sparse.heads) return true;
    return tool_simulate_is_of_package(s, g) && price->program[0].attention_part == BT_PRICE_PKG_NPU;
}

bt_err tool_simulate_price_node(sim_cost *ret, const tool_simulate_setup *s, const tool_simulate_group *g,
                                bt_fault *fault)
{
    const bt_profile *p = &g->profile;
    const bt_dims *dims = tool_simulate_dims(s, g->model);
    made *m = calloc(1, sizeof *m);
    bt_err e = BT_OK;
    if (!m) return bt_fail(fault, BT_ENOMEM, "prices of a cluster");
    const bool has_programs = sim_cost_has_programs(p);
    if (has_programs)
        e = tool_simulate_is_of_package(s, g) ? of_package(m, s, g, fault)
                                              : tool_simulate_programs_of(m, s, g, fault);
    else
        e = bt_shapes_parse(&m->shapes, s->shape_policy ? s->shape_policy : GPU_POLICY, s->ctx_tokens, fault);
    const sim_cost_options o = {.model = dims,
                                .profile = p,
                                .weight_bits = s->weight_bits,
                                .weight_permille = s->weight_permille,
                                .kv_elem_bytes = s->kv_elem_bytes,
                                .shapes = &m->shapes,
                                .programs = has_programs ? &m->programs.price : NULL,
                                .program_bytes = m->bytes,
                                .runs_alone = has_programs && runs_alone(s, g, &m->programs.price),
                                .pace = s->pace};
    if (e == BT_OK) e = sim_cost_begin(ret, &o, fault);
    free(m);
    return e;
}

/* Only nodes with programs attend sparsely, and what a package does is its own. */
static bt_err check_attention(const tool_simulate_setup *s, bt_fault *fault)
{
    char own[BT_ATTENTION_MAX_TEXT] = "";
    bt_attention a, of_package;
    const bt_err e = bt_attention_parse(&a, s->attention, fault);
    if (e < 0 || !s->attention) return e;
    if (s->package) {
        of_package = bt_attention_of(bt_pkg_header_of(s->package));
        bt_attention_text(own, &of_package);
        if (memcmp(&a, &of_package, sizeof a) != 0)
            return bt_fail(fault, BT_EARG, "--attention %.40s: --package was compiled for %s; leave one out",
                           s->attention, own);
    }
    for (size_t i = 0; i < s->prefill.len; i++)
        if (sim_cost_has_programs(&s->prefill.group[i].profile)) return BT_OK;
    return !a.ratio_ppm ? BT_OK
                        : bt_fail(fault, BT_EARG,
                                  "--attention %.40s: no prefill node is an NPU, and only those attend "
                                  "sparsely; as in --prefill 1:hexagon-v75",
                                  s->attention);
}

bt_err tool_simulate_check_package(const tool_simulate_setup *s, bt_fault *fault)
{
    bool is_one = false;
    const bt_err e = check_attention(s, fault);
    if (e < 0 || !s->package) return e;
    const bt_pkg_header *h = bt_pkg_header_of(s->package);
    for (uint32_t i = 0; i <= s->mores; i++) is_one |= has_sizes(h, tool_simulate_dims(s, i));
    if (!is_one)
        return bt_fail(fault, BT_EARG, "--package is of '%.60s', whose sizes are not those of '%.60s'",
                       h->model_name, s->model->name);
    if (s->shape_policy && strcmp(s->shape_policy, h->shape_policy) != 0)
        return bt_fail(fault, BT_EARG,
                       "--shape-policy %.40s: --package was compiled for %.60s; leave one out",
                       s->shape_policy, h->shape_policy);
    for (size_t i = 0; i < s->prefill.len; i++)
        if (tool_simulate_is_of_package(s, &s->prefill.group[i])) return BT_OK;
    return bt_fail(fault, BT_EARG, "--package is for '%.60s', and no prefill node is one: --prefill 1:%.60s",
                   h->profile, h->profile);
}
