/* See node_link.h: a listening control link, and a line in the log for dropped messages. */
#include "gateway/http/node_link.h"
#include "base/log.h"
#include "node/net.h"
#include "node/shell.h"

#include <stdlib.h>

enum { RECEIVE_BUDGET = 16, CUT_MS = 20 }; /* CUT_MS: cuts within this time give one call */

struct gw_node_link {
    bt_loop *loop;
    bt_net *net;
    bt_link *link;
    bt_net_watch *news;
    uint64_t watch, timer;
    bool is_cut; /* the timer runs */
    gw_node_link_fn *fn;
    gw_node_link_cut_fn *cut;
    void *ud;
    bt_log_limit bad_limit, unsent_limit;
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
};

static void on_msg(void *ud, const bt_msg *m)
{
    gw_node_link *l = ud;
    l->fn(l->ud, m);
}

static void on_bad(void *ud, const bt_fault *why)
{
    gw_node_link *l = ud;
    bt_log_ratelimited(&l->bad_limit, BT_LOG_WARN, "dropped a message on the control socket: %s", why->text);
}

static void on_readable(void *ud, unsigned events)
{
    gw_node_link *l = ud;
    (void)events;
    bt_link_receive(l->link, RECEIVE_BUDGET);
}

static void on_timer(void *ud, unsigned events)
{
    gw_node_link *l = ud;
    (void)events;
    l->is_cut = false;
    l->cut(l->ud);
}

/* The timer lets the last messages of the ended connection be read first. */
static void on_news(void *ud, unsigned news)
{
    gw_node_link *l = ud;
    if (!(news & BT_SOCK_ENDED) || l->is_cut) return;
    l->is_cut = bt_loop_add_timer(&l->timer, l->loop, CUT_MS, 0, on_timer, l) == BT_OK;
}

bt_err gw_node_link_open(gw_node_link **ret, bt_loop *loop, uint32_t nodes, const char *endpoint,
                         const char *keys_dir, const char *key, gw_node_link_fn *fn, gw_node_link_cut_fn *cut,
                         void *ud, bt_fault *fault)
{
    gw_node_link *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "out of memory for the control socket");
    const bt_link_handler handler = {.on_msg = on_msg, .on_bad = on_bad, .ud = l};
    l->loop = loop;
    l->fn = fn;
    l->cut = cut;
    l->ud = ud;
    l->bad_limit.every_ms = l->unsent_limit.every_ms = 5000;
    bt_err e = bt_net_open(&l->net, loop, keys_dir, key, BT_PEER_GATEWAY, fault);
    if (e == BT_OK)
        e = bt_net_listen(&l->link, l->endpoint, l->net, BT_SOCK_CONTROL_ROUTER, endpoint,
                          BT_PEER_PREFILL | BT_PEER_DECODE, &handler, fault);
    if (e == BT_OK && 2 * nodes > BT_LINK_MAX_ROUTES && (e = bt_link_remember(l->link, 2 * nodes)) < 0)
        bt_fail(fault, e, "no room for the routes of %u nodes on the control socket: %s", nodes,
                bt_err_name(e));
    if (e == BT_OK &&
        (e = bt_loop_add_socket(&l->watch, loop, bt_link_socket(l->link), BT_LOOP_IN, on_readable, l)) < 0)
        bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    if (e == BT_OK) e = bt_net_watch_link(&l->news, l->net, l->link, on_news, l, fault);
    if (e < 0) gw_node_link_close(l);
    else *ret = l;
    return e;
}

void gw_node_link_close(gw_node_link *l)
{
    if (!l) return;
    bt_loop_remove(l->loop, l->watch);
    bt_loop_remove(l->loop, l->timer);
    bt_net_unwatch(l->news);
    bt_link_free(l->link);
    bt_net_close(l->net);
    free(l);
}

void gw_node_link_reload(gw_node_link *l) { bt_shell_reload(l->net); }
const char *gw_node_link_endpoint(const gw_node_link *l) { return l->endpoint; }

bt_link_counters gw_node_link_counters(const gw_node_link *l)
{
    bt_link_counters c = *bt_link_counters_of(l->link);
    c.forbidden += bt_net_refused(l->net);
    return c;
}

bool gw_node_link_send(gw_node_link *l, const bt_msg *msg)
{
    bt_fault fault = {"the queue is full"};
    const bt_err e = bt_link_send(l->link, msg, &fault);
    if (e < 0)
        bt_log_ratelimited(&l->unsent_limit, BT_LOG_DEBUG, "%s not sent: %s: %s", bt_msg_type_name(msg->type),
                           bt_err_name(e), fault.text);
    return e != BT_EIO;
}
