/* Sizes are tried from the least on; the first that is as fast is the answer. See group.h. */
#include "lab/plan/group.h"

#include <stdio.h>

static uint64_t ns_of(const bt_price_steps *f, const bt_price_step *s) { return bt_price_step_at(f, s).ns; }

static bool is_as_fast(const bt_profile *smaller, const bt_profile *p, const bt_price_model *m,
                       const tool_plan_group_load *load)
{
    const bt_price_steps few = bt_price_steps_of(smaller, m), many = bt_price_steps_of(p, m);
    const uint64_t lengths[] = {load->shortest, load->mean, load->longest};
    for (int i = 0; load->prefills && i < 3; i++) {
        const bt_price_step prompt = bt_price_prefill_step(0, lengths[i], m->window);
        if (ns_of(&few, &prompt) > ns_of(&many, &prompt)) return false;
    }
    for (uint64_t batch = 1; load->decodes && batch < 2 * (uint64_t)load->batch; batch *= 2) {
        const bt_price_step step =
            bt_price_decode_step(batch < load->batch ? batch : load->batch, load->ctx, m->window);
        if (ns_of(&few, &step) > ns_of(&many, &step)) return false;
    }
    return true;
}

static bool holds(const bt_profile *p, const bt_price_model *m, const tool_plan_group_load *load)
{
    const uint64_t devices = bt_profile_devices(&p->time), has = bt_time_times(p->memory_bytes, devices),
                   weights = bt_time_plus(m->weight_bytes, m->idle_bytes),
                   kv = bt_price_kv_held(&p->time, m->kv_heads, load->kv_bytes);
    return !has || bt_time_plus(weights, kv) <= has;
}

static bool is_beaten_by(const bt_profile *smaller, const bt_profile *p, const tool_plan_group_load *load)
{
    bool any = false;
    for (size_t i = 0; i < load->models; i++) {
        const bt_price_model *m = &load->model[i];
        if (!holds(p, m, load)) continue;
        if (!holds(smaller, m, load) || !is_as_fast(smaller, p, m, load)) return false;
        any = true;
    }
    return any;
}

bool tool_plan_group_beaten(bt_profile *ret, const bt_profile *p, const tool_plan_group_load *load)
{
    for (uint32_t n = 1; n < p->time.devices; n++)
        if (bt_profile_group(ret, p, n) && is_beaten_by(ret, p, load)) return true;
    return false;
}

const char *tool_plan_group_text(char ret[TOOL_PLAN_GROUP_BYTES], const bt_profile *smaller,
                                 const bt_profile *p)
{
    (void)snprintf(ret, TOOL_PLAN_GROUP_BYTES, "%s is as fast as %s at every prompt and step of this load",
                   smaller->name, p->name);
    return ret;
}
