/* One process that serves as one kind of node, then as the other. The programs differ in the role in which
 * they begin: its engine is --engine, that of the other role has the role's name before it. A process that
 * cannot serve in a new role goes back to the old one. */
#include "programs/node.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/wait.h"
#include "decode-node/node.h"
#include "engine/names.h"
#include "engine/options.h"
#include "kernels/kernels.h"
#include "node/node_device.h"
#include "node/node_setup.h"
#include "prefill-node/node.h"
#include "rt/loop.h"

#include <stdio.h>

typedef struct config {
    bt_node_options node;
    bt_obtain_want want;
    pf_options prefill;
    dc_options decode;
    int other_engine; /* of the role that it does not begin in: index in bt_engine_decode_auto_names, or in
                         bt_engine_prefill_auto_names */
} config;

#define AS_PREFILL "As a prefill node"
#define AS_DECODE  "As a decode node"

static const bt_opt prefill_opts[] = {
    BT_OPT_ALL(bt_node_opts, config, node, NULL),
    {.of = &bt_engine_opts, .group = AS_PREFILL, .name = "engine", BT_OPT_AT(config, prefill.engine)},
    BT_OPT_ALL(pf_opts, config, prefill, AS_PREFILL),
    BT_OPT_ALL(bt_obtain_opts, config, want, NULL),
    {.of = &bt_engine_opts, .group = AS_DECODE, .name = "decode-engine", BT_OPT_AT(config, other_engine),
     .help = "what computes after 'baton role ID decode'; auto: host, for --engine reference that"},
    BT_OPT_ALL(dc_opts, config, decode, AS_DECODE),
    {.of = &dc_opts, .name = "listen", .def = "tcp://127.0.0.1:*"},
};

static const bt_opt decode_opts[] = {
    BT_OPT_ALL(bt_node_opts, config, node, NULL),
    {.of = &bt_engine_opts, .group = AS_DECODE, .name = "engine", BT_OPT_AT(config, decode.engine),
     .def = BT_ENGINE_DEFAULT_DECODE, .choices = bt_engine_decode_names,
     .help = "what computes: the integer NPU, where its package has rows of one token (see --shape-policy), "
             "f16 kernels, or the plain FP32 oracle"},
    BT_OPT_ALL(dc_opts, config, decode, AS_DECODE),
    {.of = &dc_opts, .name = "listen", .def = "tcp://127.0.0.1:5602"},
    {.group = AS_PREFILL, .name = "prefill-engine", .value = "NAME", BT_OPT_AT(config, other_engine),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = bt_engine_prefill_auto_names,
     .help = "what computes prompts after 'baton role ID prefill'; auto: as --local-prefill, else npu, for "
             "--engine reference that"},
    BT_OPT_ALL(pf_opts, config, prefill, AS_PREFILL),
    BT_OPT_ALL(bt_obtain_opts, config, want, NULL),
};

static const bt_opt_program prefill_program = {
    .name = "baton-prefill",       .summary = "compute prompts, hand their KV to decode nodes",
    .usage = "-m MODEL [options]", .normal = "baton-prefill -m smollm2 --gateway tcp://127.0.0.1:5600",
    .opts = prefill_opts,          .opt_count = BT_OPT_COUNT(prefill_opts),
};
static const bt_opt_program decode_program = {
    .name = "baton-decode",        .summary = "take prompts' KV from prefill nodes and generate tokens",
    .usage = "-m MODEL [options]", .normal = "baton-decode -m smollm2 --gateway tcp://127.0.0.1:5600",
    .opts = decode_opts,           .opt_count = BT_OPT_COUNT(decode_opts),
};

/* The options that both roles share, and the meaning of "auto". */
static void complete(config *c, bt_role first)
{
    const bool is_decode = first == BT_ROLE_DECODE;
    c->prefill.node = c->decode.node = &c->node;
    c->prefill.want = c->decode.want = &c->want;
    if (!is_decode) c->decode.engine = bt_engine_decode_beside(c->other_engine, c->prefill.engine);
    else if (c->other_engine == 0 && c->decode.local_prefill > 0)
        c->prefill.engine = bt_engine_prefill_index(bt_engine_chunked_names[c->decode.local_prefill]);
    else c->prefill.engine = bt_engine_prefill_beside(c->other_engine, c->decode.engine);
}

static const char *name_of(bt_role r) { return r == BT_ROLE_DECODE ? "decode" : "prefill"; }

static bt_err name_node(config *c, bt_role first, bt_fault *fault)
{
    static char id[BT_MSG_MAX_ID_BYTES + 1];
    bt_node_setup_id(id, first, c->node.keys, c->node.key);
    if (!c->node.id) c->node.id = id;
    return bt_node_setup_check_id(c->node.id, fault);
}

static int serve(const config *c, bt_role first)
{
    bt_role role = first, home = first; /* home: the last role in which it could serve */
    for (;;) {
        bt_role next = 0;
        int rc = role == BT_ROLE_DECODE ? dc_node_run(&c->decode, &next) : pf_node_run(&c->prefill, &next);
        if (rc == 0) {
            home = role;
        } else if (role != home) {
            bt_log(BT_LOG_ERROR, "this node failed as a %s node and goes back to %s", name_of(role),
                   name_of(home));
            next = home;
            rc = 0;
        }
        if (!next || bt_loop_held_end()) return rc;
        bt_log(BT_LOG_INFO, "this node serves as a %s node", name_of(next));
        role = next;
    }
}

int node_main(int argc, char **argv, bt_role first)
{
    static char name[96]; /* lives as long as the log: several nodes may write to one terminal */
    const bt_opt_program *program = first == BT_ROLE_DECODE ? &decode_program : &prefill_program;
    config c = {.other_engine = 0};
    bt_opt_args args;
    int rc = bt_opt_start(&args, program, argc, argv, &c);
    if (rc >= 0) return rc;
    bt_fault fault;
    if (name_node(&c, first, &fault) < 0 || bt_node_device_check(&c.node, &fault) < 0) {
        bt_opt_usage_error(program->name, &fault);
        bt_opt_done(&args);
        return 2;
    }
    complete(&c, first);
    snprintf(name, sizeof name, "%s %s", program->name, c.node.id);
    bt_log_start(name, &c.node.log);
    if (bt_kernels_warning()) bt_log(BT_LOG_WARN, "%s", bt_kernels_warning());
    bt_wait_setup(BT_WAIT_LOG);
    bt_memory_set_free(c.node.memory_bytes);
    bt_node_setup_cache(c.node.cache_limit_bytes);
    bt_loop_hold_signals();
    rc = serve(&c, first);
    bt_opt_done(&args);
    return rc;
}
