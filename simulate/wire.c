/* One formula for each direction of a link. See inner.h. */
#include "simulate/inner.h"
#include "device/time.h"

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t slowed(const sim_wire *w, uint64_t ns)
{
    if (w->milli) ns = bt_time_scale(ns, w->milli, 1000);
    return bt_time_times(ns, w->slow ? w->slow : 1);
}

static uint64_t pass(sim_wire *w, uint64_t tx, uint64_t begin, uint64_t end, uint32_t layers)
{
    w->busy_ns = bt_time_plus(most(w->busy_ns, begin), bt_time_times(tx, layers));
    w->tail_ns = most(w->busy_ns, bt_time_plus(most(end, w->tail_ns), tx));
    return w->tail_ns;
}

uint64_t sim_wire_send(sim_wire *out, sim_wire *in, const bt_link *l, uint64_t begin_ns, uint64_t end_ns,
                       uint32_t layers, uint64_t bytes)
{
    const uint64_t tx = bt_link_ns(l, bytes);
    const uint64_t left = pass(out, slowed(out, tx), begin_ns, end_ns, layers);
    return most(left, pass(in, slowed(in, tx), begin_ns, end_ns, layers));
}

uint64_t sim_wire_short_ns(const sim_wire *out, const sim_wire *in, const bt_link *l, uint64_t bytes)
{
    const uint64_t tx = bt_link_ns(l, bytes);
    return most(slowed(out, tx), slowed(in, tx));
}
