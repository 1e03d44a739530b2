/* The facts of a world's processes, and the lines that its files write of it. See sim_node.h. */
#include "tests/world/sim_node.h"

#include <stdarg.h>

void sim_broken(sim_world *w, const char *fmt, ...)
{
    if (w->error[0]) return;
    int n = snprintf(w->error, sizeof w->error, "seed %llu, %.6f s: ", (unsigned long long)w->o.seed,
                     (double)w->now_us / 1e6);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->error + n, sizeof w->error - (size_t)n, fmt, ap);
    va_end(ap);
}

void sim_trace(sim_world *w, const char *fmt, ...)
{
    if (!w->o.trace) return;
    fprintf(w->o.trace, "%12.6f ", (double)w->now_us / 1e6);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(w->o.trace, fmt, ap);
    va_end(ap);
    fputc('\n', w->o.trace);
}

bt_random sim_random(sim_world *w, bool is_looked_at)
{
    if (is_looked_at) return (bt_random){{sim_net_draw(w->net), sim_net_draw(w->net)}};
    sim_net_skip(w->net, 2);
    return (bt_random){{0, 0}};
}

uint32_t sim_process_by_incarnation(const sim_world *w, const bt_incarnation *who)
{
    const int64_t at = bt_order_from(&w->selves, 0, gw_registry_key(who));
    return at >= 0 && w->processes[at].is_alive && bt_incarnation_equal(&w->processes[at].self, who)
               ? (uint32_t)at
               : UINT32_MAX;
}

uint32_t sim_salt_of(const sim_world *w, const bt_attempts *t, uint32_t slot)
{
    const bt_attempt *a = bt_attempts_by_slot(t, slot);
    return a && a->ref.number >= 1 && a->ref.number <= w->clients_len ? w->clients[a->ref.number - 1].salt
                                                                      : 0;
}

uint32_t sim_rule_of(const sim_world *w, uint32_t process)
{
    const bool is_prefill = process >= w->o.gateways && process < w->o.gateways + w->o.prefills;
    return w->o.rules > 1 && is_prefill ? (process - w->o.gateways) % SIM_TOY_RULES : 0;
}

uint32_t sim_name_of(const sim_world *w, uint32_t process)
{
    const uint32_t first = w->o.gateways + (w->o.twins == BT_ROLE_DECODE ? w->o.prefills : 0);
    const uint32_t len = w->o.twins == BT_ROLE_DECODE ? w->o.decodes : w->o.prefills;
    return w->o.twins && process == first + len - 1 ? first : process;
}
