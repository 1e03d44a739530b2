/* baton-decode: options, then a decode node; after `baton role ID prefill` the same process is a prefill
 * node, and a decode node again after `baton role ID decode`. What cannot be a prefill node goes back to
 * what it was. */
#include "base/log.h"
#include "base/wait.h"
#include "decode-node/node.h"
#include "prefill-node/node.h"
#include "rt/loop.h"

#include <stdio.h>

/* Lives as long as the log: several nodes may write to one terminal. */
static char name[96];

/* The same model, machine, memory and network; what only prefill nodes have is as baton-prefill has it by
 * default. */
static int serve_as_prefill(const dc_options *o, bt_role *ret_next)
{
    pf_options usual;
    bt_opt_args args;
    bt_fault fault = {""};
    if (bt_opt_defaults(&args, &pf_options_program, &usual, &fault) < 0) {
        bt_log(BT_LOG_ERROR, "%s", fault.text);
        return 1;
    }
    const pf_options p = {.model = o->model,
                          .isa = o->isa,
                          .id = o->id,
                          .keys = o->keys,
                          .key = o->key,
                          .engine = dc_options_prefill_engine(o),
                          .kv_dtype = o->kv_dtype,
                          .log_level = o->log_level,
                          .log_format = o->log_format,
                          .threads = o->threads,
                          .ctx_size = o->ctx_size,
                          .drain_timeout_ms = o->drain_timeout_ms,
                          .kv_memory_bytes = o->kv_memory_bytes,
                          .cache_limit_bytes = o->cache_limit_bytes,
                          .gateways = o->gateways,
                          .want = o->want,
                          .slots = usual.slots,
                          .min_overlap_tokens = usual.min_overlap_tokens};
    const int rc = pf_node_run(&p, ret_next);
    bt_opt_done(&args);
    return rc;
}

static int serve(const dc_options *o)
{
    bt_role role = BT_ROLE_DECODE;
    for (;;) {
        bt_role next = 0;
        int rc = role == BT_ROLE_DECODE ? dc_node_run(o, &next) : serve_as_prefill(o, &next);
        if (rc != 0 && role == BT_ROLE_PREFILL) {
            bt_log(BT_LOG_ERROR, "cannot serve as a prefill node; going back to decode");
            next = BT_ROLE_DECODE;
            rc = 0;
        }
        if (!next || bt_loop_held_end()) return rc;
        bt_log(BT_LOG_INFO, "now a %s node", next == BT_ROLE_DECODE ? "decode" : "prefill");
        role = next;
    }
}

int main(int argc, char **argv)
{
    dc_options o;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &dc_options_program, argc, argv, &o);
    if (rc >= 0) return rc;
    snprintf(name, sizeof name, "baton-decode %s", o.id);
    bt_log_setup(name, (bt_log_level)o.log_level, o.log_format == 1);
    bt_wait_setup(BT_WAIT_LOG);
    bt_loop_hold_signals();
    rc = serve(&o);
    bt_opt_done(&args);
    return rc;
}
