/* Programs come from a package or from sizes alone; from there on they are one kind of price. See prices.h.
 */
#include "lab/simulate/prices.h"
#include "lab/plan/sketch.h"
#include "npu/pkg/pkg_ops.h"

#include <string.h>

static const char GPU_POLICY[] = "chunk:8192+tail";

/* Dims say how many layers have a window, and not which. */
static bool has_windows(const bt_pkg_header *h, const bt_dims *d)
{
    uint32_t every, windowed = 0;
    for (uint32_t i = 0; i < h->layers; i++) windowed += bt_pkg_window(h, i) > 0;
    if (!bt_dims_global_every(&every, d)) return !windowed;
    return windowed == d->windowed && h->window == d->window;
}

static bool has_sizes(const bt_pkg_header *h, const bt_dims *d)
{
    const uint32_t ffn = d->experts ? d->expert_ffn : d->ffn;
    return h->layers == d->layers && h->dim == d->hidden && h->ffn == ffn && h->heads == d->heads &&
           h->kv_heads == d->kv_heads && h->head_dim == d->head_dim && h->vocab == d->vocab &&
           h->experts == d->experts && h->experts_used == d->experts_used && has_windows(h, d);
}

bool tool_simulate_is_of_package(const tool_simulate_setup *s, const tool_simulate_group *g)
{
    if (!s->package) return false;
    const bt_pkg_header *h = bt_pkg_header_of(s->package);
    return strcmp(h->profile, g->profile.name) == 0 && has_sizes(h, tool_simulate_dims(s, g->model));
}

/* Each chunk under way holds one. */
static uint64_t arenas_of(const tool_simulate_setup *s)
{
    return s->schedule == BT_SCHEDULE_SERIAL ? 1 : s->window;
}

bt_err tool_simulate_check_schedule(const tool_simulate_setup *s, bt_fault *fault)
{
    if (s->schedule == BT_SCHEDULE_SERIAL) return BT_OK;
    for (size_t i = 0; i < s->prefill.len; i++)
        if (sim_cost_has_programs(&s->prefill.group[i].profile) && !s->is_colocated) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "--schedule: no prefill node is an NPU, of whose prompts several chunks could be under way; as in "
        "--prefill 1:hexagon-v75");
}

static bt_err sketch_of(bt_pkg **ret, const tool_simulate_setup *s, const tool_simulate_group *g,
                        bt_fault *fault)
{
    bt_shapes shapes;
    bt_recipe recipe;
    bt_attention attention;
    const tool_plan_sketch_want w = {.profile = &g->profile, .dims = tool_simulate_dims(s, g->model),
                                     .recipe = &recipe,      .attention = &attention,
                                     .shapes = &shapes,      .ctx_tokens = s->ctx_tokens};
    bt_err e =
        bt_shapes_parse(&shapes, s->shape_policy ? s->shape_policy : BT_SHAPES_DEFAULT, s->ctx_tokens, fault);
    if (e == BT_OK) e = bt_recipe_parse(&recipe, s->recipe, fault);
    if (e == BT_OK) e = bt_attention_parse(&attention, s->attention, fault);
    if (e == BT_OK) e = tool_plan_sketch_check(&g->profile, w.dims, &recipe, fault);
    return e == BT_OK ? tool_plan_sketch(ret, &w, fault) : e;
}

static bt_err price_programs(tool_simulate_priced *p, const tool_simulate_setup *s,
                             const tool_simulate_group *g, bt_fault *fault)
{
    const bool is_given = tool_simulate_is_of_package(s, g);
    if (is_given && bt_pkg_header_of(s->package)->ctx_tokens < s->ctx_tokens)
        return bt_fail(fault, BT_EARG, "-c %u: --package is for sequences of at most %u tokens",
                       (unsigned)s->ctx_tokens, (unsigned)bt_pkg_header_of(s->package)->ctx_tokens);
    bt_err e = is_given ? BT_OK : sketch_of(&p->sketch, s, g, fault);
    const bt_price_pkg_config config = {.pkg = is_given ? s->package : p->sketch, .npu = &g->profile,
                                        .kv_elem_bits = 8 * s->kv_elem_bytes};
    if (e == BT_OK && s->schedule != BT_SCHEDULE_SERIAL) e = bt_pkg_check_overlap(config.pkg, fault);
    if (e == BT_OK) e = bt_price_pkg_new(&p->price, &config, fault);
    const bt_schedule_play_config play = {.price = p->price, .policy = s->schedule,
                                          .window = s->window ? s->window : 1};
    return e == BT_OK ? bt_schedule_play_new(&p->play, &play, fault) : e;
}

/* As npu/run/exec.h has it. */
static bool runs_alone(const bt_pkg *p)
{
    if (bt_pkg_header_of(p)->sparse_ppm) return true;
    const uint32_t program = bt_pkg_rows(p)[bt_pkg_header_of(p)->rows.count - 1].program[BT_PKG_OUT_LAST];
    const bt_pkg_inst *code = bt_pkg_code(p, program); /* all have the same units */
    for (uint32_t i = 0; i < bt_pkg_programs(p)[program].insts; i++)
        if (bt_pkg_is_attention(&code[i]) && code[i].unit != BT_PKG_COMPANION) return true;
    return false;
}

uint64_t tool_simulate_rows_at_once(const tool_simulate_setup *s, const tool_simulate_group *g,
                                    uint64_t tokens)
{
    const char *usual = sim_cost_has_programs(&g->profile) ? BT_SHAPES_DEFAULT : GPU_POLICY;
    bt_shapes shapes;
    if (tool_simulate_is_of_package(s, g)) usual = bt_pkg_header_of(s->package)->shape_policy;
    else if (s->shape_policy) usual = s->shape_policy;
    if (!tokens || bt_shapes_parse(&shapes, usual, s->ctx_tokens, NULL) < 0) return 0;
    return bt_shapes_next(&shapes, tokens, 0).valid;
}

bt_err tool_simulate_price_node(tool_simulate_priced *ret, const tool_simulate_setup *s,
                                const tool_simulate_group *g, bool is_prefill, bt_fault *fault)
{
    bt_shapes shapes;
    bt_work_programs programs = {.profile = NULL};
    const bool has_programs = sim_cost_has_programs(&g->profile);
    *ret = (tool_simulate_priced){.sketch = NULL};
    bt_err e = has_programs ? price_programs(ret, s, g, fault)
                            : bt_shapes_parse(&shapes, s->shape_policy ? s->shape_policy : GPU_POLICY,
                                              s->ctx_tokens, fault);
    sim_cost_options o = {.model = tool_simulate_dims(s, g->model),
                          .profile = &g->profile,
                          .weight_bits = s->weight_bits,
                          .weight_permille = s->weight_permille,
                          .is_float = s->is_float,
                          .is_kv_fp8 = s->is_kv_fp8,
                          .kv_elem_bytes = s->kv_elem_bytes,
                          .shapes = &shapes,
                          .pace = s->pace,
                          .is_prefill = is_prefill};
    if (e == BT_OK && has_programs) {
        const bt_pkg *p = bt_price_pkg_of(ret->price);
        programs = bt_price_pkg_programs(ret->price);
        o.shapes = bt_price_pkg_shapes(ret->price);
        o.programs = &programs;
        o.program_bytes = tool_plan_mapped_bytes(p, arenas_of(s));
        o.runs_alone = runs_alone(p);
    }
    if (e == BT_OK) e = sim_cost_begin(&ret->cost, &o, fault);
    if (e < 0) {
        tool_simulate_price_done(ret);
        return e;
    }
    if (!ret->play) return BT_OK;
    ret->cost.play = bt_schedule_play_prompt;
    ret->cost.play_ud = ret->play;
    return BT_OK;
}

void tool_simulate_price_done(tool_simulate_priced *p)
{
    bt_schedule_play_free(p->play);
    bt_price_pkg_free(p->price);
    bt_pkg_close(p->sketch);
    *p = (tool_simulate_priced){.sketch = NULL};
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
