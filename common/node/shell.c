/* See shell.h. */
#include "node/shell.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "base/rng.h"
#include "crypto/keys.h"
#include "rt/notify.h"
#include "node/net.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECEIVE_BUDGET = 64, RSS_EVERY_MS = 500, LONGEST_WAIT_MS = 3600 * 1000, LAST_WORDS_MS = 2000 };

/* A HELLO or HEARTBEAT that found no connection waits here for one, so that a gateway hears of a node as soon
 * as it can be reached. */
typedef struct control {
    bt_shell *shell;
    uint32_t index;
    bt_link *link;
    bt_net_watch *news;
    uint64_t watch;
    bool has_word;
    bt_msg word;
} control;

struct bt_shell {
    bt_shell_config config;
    bt_shell_handler on;
    bt_loop *loop;
    bt_net *net;
    bt_incarnation self;
    control control[BT_GATES_MAX];
    uint64_t timer;
    bool draining, is_ready, stopped; /* draining: by a signal */
    bool is_clocked;                  /* the drain timeout runs */
    bt_role next;                     /* the role in which the process goes on after this shell; 0: it ends */
};

bt_random bt_shell_random(void)
{
    bt_random r;
    bt_fault fault;
    if (bt_rng_entropy(&r, sizeof r, &fault) < 0) {
        bt_log(BT_LOG_ERROR, "%s", fault.text); /* tickets would be guessable: better no node than that one */
        abort();
    }
    return r;
}

void bt_shell_on_bad(void *ud, const bt_fault *why)
{
    static bt_log_limit limit = {.every_ms = 1000};
    (void)ud;
    bt_log_ratelimited(&limit, BT_LOG_WARN, "dropped a message: %s", why->text);
}

static void on_control_msg(void *ud, const bt_msg *m)
{
    control *c = ud;
    c->shell->on.on_control(c->shell->on.ud, c->index, m);
}

static void on_control_ready(void *ud, unsigned events)
{
    control *c = ud;
    if (events & BT_LOOP_OUT) { /* connected */
        bt_loop_set_events(c->shell->loop, c->watch, BT_LOOP_IN);
        if (c->has_word) bt_shell_send_control(c->shell, c->index, &c->word);
    }
    bt_link_receive(c->link, RECEIVE_BUDGET);
}

static void on_news(void *ud, unsigned news)
{
    const control *c = ud;
    if (news & BT_SOCK_UP) c->shell->on.on_up(c->shell->on.ud, c->index);
}

static void on_timer(void *ud, unsigned events)
{
    bt_shell *s = ud;
    (void)events;
    s->on.on_tick(s->on.ud);
}

/* Second field of /proc/self/statm: resident pages. */
static void on_rss(void *ud, unsigned events)
{
    bt_shell *s = ud;
    char text[128];
    unsigned long long total, resident;
    (void)events;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &total, &resident) == 2)
        s->on.on_rss(s->on.ud, resident * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void stop(bt_shell *s) { s->stopped = true; }

static void on_last_words(void *ud, unsigned events)
{
    (void)events;
    stop(ud);
}

static void on_drain_timeout(void *ud, unsigned events)
{
    bt_shell *s = ud;
    uint64_t id;
    (void)events;
    bt_log(BT_LOG_WARN, "the drain timeout is over: leaving with work in progress");
    if (bt_loop_add_timer(&id, s->loop, LAST_WORDS_MS, 0, on_last_words, s) < 0) stop(s);
    s->on.on_drain_over(s->on.ud);
}

void bt_shell_drain(bt_shell *s)
{
    uint64_t id;
    if (s->is_clocked) return;
    s->is_clocked = true;
    if (bt_loop_add_timer(&id, s->loop, s->config.drain_timeout_ms, 0, on_drain_timeout, s) < 0) stop(s);
}

void bt_shell_log_refused(const bt_shell *s, const bt_link *bulk)
{
    bt_link_counters sum = {0};
    for (size_t i = 0; i <= BT_GATES_MAX; i++) {
        const bt_link *l = i < BT_GATES_MAX ? s->control[i].link : bulk;
        if (!l) continue;
        sum.forbidden += bt_link_counters_of(l)->forbidden;
        sum.bad += bt_link_counters_of(l)->bad;
    }
    bt_log(BT_LOG_DEBUG,
           "refused: connections without a key of the list %" PRIu64
           ", messages that their key may not say %" PRIu64 ", broken messages %" PRIu64,
           bt_net_refused(s->net), sum.forbidden, sum.bad);
}

void bt_shell_reload(bt_net *net)
{
    bt_fault fault = {""};
    size_t keys = 0;
    if (bt_net_reload(&keys, net, &fault) < 0)
        bt_log(BT_LOG_ERROR, "the allow list was not read again and stays as it was: %s", fault.text);
    else if (!bt_net_own_roles(net))
        bt_log(BT_LOG_WARN, "allow list read again: %zu keys, and this process's own key is not among them",
               keys);
    else if (keys > 0) bt_log(BT_LOG_INFO, "allow list read again: %zu keys", keys);
}

static void on_signal(void *ud, int signo)
{
    bt_shell *s = ud;
    if (signo == SIGHUP) bt_shell_reload(s->net);
    if (signo != SIGINT && signo != SIGTERM) return;
    if (s->draining) {
        bt_log(BT_LOG_WARN, "second signal: leaving at once");
        stop(s);
        return;
    }
    s->draining = true;
    bt_log(BT_LOG_INFO, "draining");
    (void)bt_notify_send("STOPPING=1", NULL);
    bt_shell_drain(s);
    s->on.on_drain(s->on.ud);
}

/* ENDPOINT or ENDPOINT@NAME; the '@' of an abstract socket, as in ipc://@baton, begins no name. */
static bt_err split_gateway(char endpoint[BT_SOCK_ENDPOINT_BYTES], const char **ret_name, const char *text,
                            bt_fault *fault)
{
    const char *at = strrchr(text, '@');
    if (at && (!bt_keys_is_name(at + 1) || (at > text && at[-1] == '/'))) at = NULL;
    const size_t n = at ? (size_t)(at - text) : strlen(text);
    if (n >= BT_SOCK_ENDPOINT_BYTES)
        return bt_fail(fault, BT_EARG, "'%.100s...' is too long: an endpoint has at most %d bytes", text,
                       BT_SOCK_ENDPOINT_BYTES - 1);
    memcpy(endpoint, text, n);
    endpoint[n] = 0;
    *ret_name = at ? at + 1 : NULL;
    return BT_OK;
}

static bt_err dial(bt_shell *s, uint32_t index, bt_fault *fault)
{
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    const char *name = NULL;
    control *c = &s->control[index];
    const bt_link_handler handler = {.on_msg = on_control_msg, .on_bad = bt_shell_on_bad, .ud = c};
    *c = (control){.shell = s, .index = index};
    bt_peer_key server;
    bt_err e = split_gateway(endpoint, &name, s->config.gateways[index], fault);
    if (e == BT_OK && name && !s->config.keys_dir)
        e = bt_fail(fault, BT_EARG, "--gateway %.100s names a key: give --keys DIR too",
                    s->config.gateways[index]);
    if (e == BT_OK) e = bt_net_find_key(&server, s->net, BT_PEER_GATEWAY, name, fault);
    if (e == BT_OK)
        e = bt_net_dial(&c->link, s->net, BT_SOCK_CONTROL_DEALER, endpoint, &server, &handler, fault);
    if (e < 0) return e;
    if ((e = bt_net_watch_link(&c->news, s->net, c->link, on_news, c, fault)) < 0) return e;
    e = bt_loop_add_socket(&c->watch, s->loop, bt_link_socket(c->link), BT_LOOP_IN, on_control_ready, c);
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

bt_err bt_shell_new(bt_shell **ret, const bt_shell_config *config, const bt_shell_handler *handler,
                    bt_fault *fault)
{
    uint64_t id;
    if (config->gateways_len < 1 || config->gateways_len > BT_GATES_MAX)
        return bt_fail(fault, BT_EARG, "%zu gateways (--gateway); a node serves 1 to %d",
                       config->gateways_len, BT_GATES_MAX);
    bt_shell *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for the node");
    bt_sock_keep_frames();
    s->config = *config;
    s->on = *handler;
    bt_err e = bt_rng_entropy(s->self.bytes, sizeof s->self.bytes, fault);
    if (e == BT_OK) e = bt_loop_new(&s->loop, fault);
    if (e == BT_OK) e = bt_loop_on_signals(s->loop, on_signal, s, fault);
    if (e == BT_OK)
        e = bt_net_open(&s->net, s->loop, config->keys_dir, config->key_name, config->role, fault);
    if (e == BT_OK) e = bt_net_check_id(s->net, config->node_id, fault);
    if (e == BT_OK && ((e = bt_loop_add_timer(&s->timer, s->loop, 0, LONGEST_WAIT_MS, on_timer, s)) < 0 ||
                       (e = bt_loop_add_timer(&id, s->loop, 0, RSS_EVERY_MS, on_rss, s)) < 0))
        bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    for (uint32_t i = 0; e == BT_OK && i < config->gateways_len; i++) e = dial(s, i, fault);
    if (e < 0) bt_shell_free(s);
    else *ret = s;
    return e;
}

void bt_shell_free(bt_shell *s)
{
    if (!s) return;
    for (size_t i = 0; i < BT_GATES_MAX; i++) {
        bt_net_unwatch(s->control[i].news);
        bt_link_free(s->control[i].link);
    }
    bt_net_close(s->net);
    bt_loop_free(s->loop);
    free(s);
}

bt_loop *bt_shell_loop(const bt_shell *s) { return s->loop; }
bt_net *bt_shell_net(const bt_shell *s) { return s->net; }
const bt_incarnation *bt_shell_self(const bt_shell *s) { return &s->self; }

bt_role_may bt_shell_role_may(const bt_shell *s)
{
    const unsigned both = BT_PEER_PREFILL | BT_PEER_DECODE;
    return (bt_net_own_roles(s->net) & both) == both ? BT_ROLE_MAY : BT_ROLE_MAY_NOT;
}

void bt_shell_leave(bt_shell *s, bt_role next)
{
    s->next = next;
    stop(s);
}

bt_role bt_shell_next(const bt_shell *s) { return s->draining ? 0 : s->next; }

/* ---- addresses ---- */

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "[::1]");
}

static bt_err find_own_address(char own[BT_SOCK_ADDRESS_BYTES], const bt_shell *s, const char *listen,
                               bt_fault *fault)
{
    own[0] = 0;
    for (size_t i = 0; i < s->config.gateways_len; i++) {
        char endpoint[BT_SOCK_ENDPOINT_BYTES], address[BT_SOCK_ADDRESS_BYTES];
        const char *name;
        bt_fault why = {""};
        bt_err e = split_gateway(endpoint, &name, s->config.gateways[i], fault);
        if (e < 0) return e;
        if (strncmp(endpoint, "tcp://", 6)) continue;
        if ((e = bt_sock_local_address(address, endpoint, &why)) < 0)
            return bt_fail(
                fault, BT_EARG,
                "--listen %.60s: this machine's address towards the gateway is not known (%.80s); give "
                "--advertise tcp://ADDRESS:PORT",
                listen, why.text);
        if (!own[0] || is_loopback(own)) memcpy(own, address, sizeof address);
        else if (!is_loopback(address) && strcmp(own, address))
            return bt_fail(
                fault, BT_EARG,
                "--listen %.60s: the gateways are dialled from %s and from %s; say which one prefill nodes "
                "dial: --advertise tcp://ADDRESS:PORT",
                listen, own, address);
    }
    return own[0]
               ? BT_OK
               : bt_fail(
                     fault, BT_EARG,
                     "--listen %.60s is no address that prefill nodes can dial, and no gateway is dialled by "
                     "TCP; give --advertise tcp://ADDRESS:PORT",
                     listen);
}

bt_err bt_shell_reachable(char ret[BT_SOCK_ENDPOINT_BYTES], const bt_shell *s, const char *listen,
                          const char *bound, bt_fault *fault)
{
    char own[BT_SOCK_ADDRESS_BYTES];
    const bt_err e = find_own_address(own, s, listen, fault);
    if (e < 0) return e;
    if ((*own == '[' && listen[6] != '[') || !strncmp(own, "[fe80:", 6))
        return bt_fail(
            fault, BT_EARG,
            "--listen %.60s cannot be reached at %s, from where the gateway is dialled; give --advertise "
            "tcp://ADDRESS:PORT%s",
            listen, own, listen[6] == '[' ? "" : ", or --listen tcp://[::]:PORT");
    if (!bound) return BT_OK;
    snprintf(ret, BT_SOCK_ENDPOINT_BYTES, "tcp://%s%s", own, strrchr(bound, ':'));
    bt_log(is_loopback(own) ? BT_LOG_WARN : BT_LOG_INFO, "prefill nodes are told to dial %s%s", ret,
           is_loopback(own) ? ", as only this machine can; where they are elsewhere, give --advertise" : "");
    return BT_OK;
}

void bt_shell_warn_of_address(const bt_shell *s, const char *endpoint)
{
    for (size_t i = 0; i < s->config.gateways_len && bt_sock_endpoint_is_local(endpoint); i++) {
        char gateway[BT_SOCK_ENDPOINT_BYTES];
        const char *name;
        if (split_gateway(gateway, &name, s->config.gateways[i], NULL) < 0 ||
            bt_sock_endpoint_is_local(gateway))
            continue;
        bt_log(BT_LOG_WARN,
               "prefill nodes are told %s, which only this machine can dial, and the gateway at %s is "
               "elsewhere: give "
               "--listen tcp://0.0.0.0:PORT where prefill nodes are elsewhere too",
               endpoint, gateway);
        return;
    }
}

void bt_shell_send_control(bt_shell *s, uint32_t gateway, const bt_msg *m)
{
    bt_fault fault = {""};
    control *c = &s->control[gateway];
    const bt_err e = bt_link_send(c->link, m, &fault);
    if (m->type == BT_MSG_HELLO || m->type == BT_MSG_HEARTBEAT) {
        c->has_word = e == BT_EAGAIN;
        if (c->has_word) {
            c->word = *m;
            bt_loop_set_events(s->loop, c->watch, BT_LOOP_IN | BT_LOOP_OUT);
        }
    }
    if (e == BT_EARG || e == BT_ELIMIT)
        bt_shell_on_bad(NULL, &fault); /* ours to mend; all else is sent again */
}

void bt_shell_due(bt_shell *s, int64_t due_us)
{
    const int64_t wait_us = due_us - bt_clock_us();
    int64_t ms = wait_us <= 0 ? 0 : wait_us / 1000 + 1;
    if (due_us == BT_STEP_NEVER || ms > LONGEST_WAIT_MS)
        ms = LONGEST_WAIT_MS; /* an early tick does nothing */
    bt_loop_set_timer(s->loop, s->timer, ms);
}

bt_err bt_shell_run(bt_shell *s, bt_fault *fault)
{
    bt_err e = BT_OK;
    char words[128];
    snprintf(words, sizeof words, "waiting for the gateway at %.80s%s", s->config.gateways[0],
             s->config.gateways_len > 1 ? ", or another one" : "");
    bt_wait_tell(NULL, words, 0, 0);
    while (e == BT_OK && !s->stopped) {
        e = bt_loop_step(s->loop, -1, fault);
        if (s->draining) bt_wait_end();
        if (s->is_ready || s->draining || !s->on.is_ready(s->on.ud)) continue;
        s->is_ready = true;
        bt_wait_end();
        bt_log(BT_LOG_INFO, "ready");
        (void)bt_notify_send("READY=1", NULL); /* nobody may be listening */
    }
    bt_wait_end();
    if (!bt_shell_next(s)) bt_loop_end_signals();
    return e;
}
