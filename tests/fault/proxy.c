/* The fault proxy: real processes talk through it and meet what networks do. It listens on a port for each
 * route, says where, and takes orders on one more port; what happens to messages is a function of the seed
 * (script.h).
 *
 * stdout: a line "NAME 127.0.0.1:PORT" for each route, "orders 127.0.0.1:PORT", "ready"; at the end by
 * SIGTERM or SIGINT the figures. Orders, one line each, answered by "ok" or "error WHY"; NAME may be a
 * pattern such as '*' or 'prefill-*':
 *   target NAME HOST:PORT      where the route leads; connections that waited for one go on
 *   hold NAME up|down|both|off see route.h
 *   slow NAME BYTES_PER_S      0: no limit
 *   faults NAME on|off         the script; on at the start
 *   cut NAME
 *   figures                    the same object as at the end */
#include "base/clock.h"
#include "base/num.h"
#include "base/opt.h"
#include "tests/fault/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUTES_MAX = 64, ORDER_BYTES = 512, WORDS = 4 };

typedef struct config {
    bt_opt_list routes;
    int mode;
    bool json;
    script script;
    int64_t seed;
} config;

static const char *const modes[] = {"messages", "bytes", NULL};
#define SHARE(field, text) \
    { \
        .group = "Faults", .name = #field, .value = "SHARE", BT_OPT_AT(config, script.field), \
        .type = BT_OPT_DOUBLE, .def = "0", .flo = 0, .fhi = 1, .help = text \
    }
static const bt_opt opts[] = {
    {.group = "Routes", .name = "route", .value = "NAME", BT_OPT_AT(config, routes), .type = BT_OPT_STRINGS,
     .example = "control=127.0.0.1:5600",
     .help =
         "a port to listen on, for NAME=HOST:PORT, or NAME until an order says for what (may be repeated)"},
    {.group = "Routes", .name = "mode", .value = "MODE", BT_OPT_AT(config, mode), .type = BT_OPT_CHOICE,
     .def = "messages", .choices = modes, .help = "messages of ZMTP without keys, or bytes of anything"},
    {.group = "Faults", .name = "seed", .value = "N", BT_OPT_AT(config, seed), .type = BT_OPT_INT, .def = "1",
     .help = "decides every fault"},
    SHARE(delay, "of messages: it and what follows waits for up to --delay-max"),
    SHARE(drop, "of messages: never comes"),
    SHARE(repeat, "of messages: comes twice"),
    SHARE(reorder, "of messages: comes after up to three later ones"),
    SHARE(corrupt, "of messages: one byte changed"),
    {.group = "Faults", .name = "delay-max", .value = "TIME", BT_OPT_AT(config, script.delay_ms),
     .type = BT_OPT_DURATION, .def = "200ms", .lo = 0, .hi = 60000, .help = "longest delay"},
    {.group = "Faults", .name = "cut-every", .value = "TIME", BT_OPT_AT(config, script.cut_ms),
     .type = BT_OPT_DURATION, .def = "0ms", .lo = 0, .hi = 3600000,
     .help = "mean life of a connection; 0: no cuts"},
    {.group = "Output", .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG,
     .help = "the figures at the end as one JSON object"},
};

static const bt_opt_program program = {
    .name = "proxy",
    .summary = "stand between processes and do what networks do",
    .usage = "--route NAME[=HOST:PORT]... [options]",
    .normal = "proxy --route control=127.0.0.1:5600 --drop 0.01",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

typedef struct proxy proxy;
typedef struct orderer {
    proxy *p;
    int fd;
    uint64_t watch;
    char line[ORDER_BYTES];
    size_t len;
} orderer;

struct proxy {
    config config;
    bt_loop *loop;
    route routes[ROUTES_MAX];
    size_t count;
    int listener;
    orderer orderer; /* one at a time; the next one waits in the listener's queue */
    uint64_t watch;
};

/* ---- figures ---- */

static const char *const fate_names[FATE_KINDS] = {"passed",   "delayed",   "dropped",
                                                   "repeated", "reordered", "corrupted"};

static json_t *figures_of(const route_stats *s)
{
    json_t *o = json_pack("{s:I, s:I, s:I}", "connections", (json_int_t)s->connections, "cuts",
                          (json_int_t)s->cuts, "malformed", (json_int_t)s->malformed);
    uint64_t bytes = 0, messages = 0, commands = 0, fates[FATE_KINDS] = {0};
    for (int w = 0; w < ROUTE_WAYS; w++) {
        bytes += s->way[w].bytes;
        messages += s->way[w].messages;
        commands += s->way[w].commands;
        for (int k = 0; k < FATE_KINDS; k++) fates[k] += s->way[w].fates[k];
    }
    json_object_set_new(o, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(o, "commands", json_integer((json_int_t)commands));
    json_object_set_new(o, "messages", json_integer((json_int_t)messages));
    for (int k = 0; k < FATE_KINDS; k++)
        json_object_set_new(o, fate_names[k], json_integer((json_int_t)fates[k]));
    return o;
}

static json_t *figures(const proxy *p)
{
    json_t *all = json_object();
    for (size_t i = 0; i < p->count; i++)
        json_object_set_new(all, p->routes[i].name, figures_of(&p->routes[i].stats));
    return json_pack("{s:I, s:o}", "seed", (json_int_t)p->config.seed, "routes", all);
}

static void print_figures(const proxy *p)
{
    json_t *o = figures(p), *f, *v;
    const char *name, *key;
    if (p->config.json) {
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        json_object_foreach(json_object_get(o, "routes"), name, f) {
            printf("%s:", name);
            json_object_foreach(f, key, v) printf(" %s %" JSON_INTEGER_FORMAT, key, json_integer_value(v));
            putchar('\n');
        }
    }
    json_decref(o);
}

/* ---- orders ---- */

static bt_err order_one(proxy *p, route *r, char *const *word, bt_fault *fault)
{
    const char *what = word[0], *value = word[2] ? word[2] : "";
    uint64_t bytes;
    bt_err e = BT_OK;
    if (!strcmp(what, "target")) return route_set_target(r, value, fault);
    if (!strcmp(what, "slow")) {
        if ((e = bt_num_size(&bytes, value, fault)) == BT_OK) route_set_rate(r, bytes);
        return e;
    }
    if (!strcmp(what, "cut") && !word[2]) {
        route_cut(r);
    } else if (!strcmp(what, "hold") && (!strcmp(value, "up") || !strcmp(value, "down") ||
                                         !strcmp(value, "both") || !strcmp(value, "off"))) {
        route_set_hold(r, *value == 'u' || *value == 'b', *value == 'd' || *value == 'b');
    } else if (!strcmp(what, "faults") && (!strcmp(value, "on") || !strcmp(value, "off"))) {
        route_set_script(r, !strcmp(value, "on") ? &p->config.script : NULL);
    } else {
        return bt_fail(fault, BT_EARG, "no such order as '%s NAME %s'", what, value);
    }
    return BT_OK;
}

static bt_err order(proxy *p, char *line, bt_fault *fault)
{
    char *word[WORDS] = {NULL}, *rest = line;
    size_t n = 0, met = 0;
    for (char *w; n < WORDS && (w = strtok_r(rest, " ", &rest));) word[n++] = w;
    if (n < 2 || n == WORDS) return bt_fail(fault, BT_EARG, "an order is WHAT NAME [VALUE]");
    bt_err e = BT_OK;
    for (size_t i = 0; i < p->count && e == BT_OK; i++) {
        if (fnmatch(word[1], p->routes[i].name, 0) != 0) continue;
        met++;
        e = order_one(p, &p->routes[i], word, fault);
    }
    return e < 0 || met ? e : bt_fail(fault, BT_EARG, "no route is called '%s'", word[1]);
}

static void answer(proxy *p, int fd, char *line)
{
    bt_fault fault = {""};
    if (!strcmp(line, "figures")) {
        json_t *o = figures(p);
        char *text = json_dumps(o, JSON_COMPACT);
        if (text) dprintf(fd, "%s\n", text);
        free(text);
        json_decref(o);
    } else if (order(p, line, &fault) < 0) {
        dprintf(fd, "error %s\n", fault.text);
    } else {
        dprintf(fd, "ok\n");
    }
}

static void on_order(void *ud, unsigned events)
{
    orderer *o = ud;
    (void)events;
    const ssize_t n = recv(o->fd, o->line + o->len, sizeof o->line - o->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) o->len += (size_t)n;
    for (char *end; n > 0 && (end = memchr(o->line, '\n', o->len));) {
        *end = '\0';
        answer(o->p, o->fd, o->line);
        o->len -= (size_t)(end + 1 - o->line);
        memmove(o->line, end + 1, o->len);
    }
    if (n > 0 && o->len < sizeof o->line) return;
    bt_loop_remove(o->p->loop, o->watch); /* gone, or a line without end */
    close(o->fd);
    o->fd = -1;
    o->len = 0;
    bt_loop_set_events(o->p->loop, o->p->watch, BT_LOOP_IN);
}

static void on_orderer(void *ud, unsigned events)
{
    proxy *p = ud;
    orderer *o = &p->orderer;
    (void)events;
    const int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    *o = (orderer){.p = p, .fd = fd};
    if (bt_loop_add_fd(&o->watch, p->loop, fd, BT_LOOP_IN, on_order, o) < 0) {
        close(fd);
        o->fd = -1;
        return;
    }
    bt_loop_set_events(p->loop, p->watch, 0);
}

static bt_err open_orders(proxy *p, bt_fault *fault)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->listener < 0 || bind(p->listener, (const struct sockaddr *)&at, sizeof at) < 0 ||
        listen(p->listener, 4) < 0 || getsockname(p->listener, (struct sockaddr *)&at, &len) < 0)
        return bt_fail(fault, BT_EIO, "listen for orders: %s", strerror(errno));
    printf("orders 127.0.0.1:%u\n", ntohs(at.sin_port));
    return bt_loop_add_fd(&p->watch, p->loop, p->listener, BT_LOOP_IN, on_orderer, p);
}

/* ---- life ---- */

static void on_signal(void *ud, int signo)
{
    proxy *p = ud;
    if (signo == SIGINT || signo == SIGTERM) bt_loop_stop(p->loop);
}

static bt_err open_routes(proxy *p, bt_fault *fault)
{
    const config *c = &p->config;
    const script *s = &c->script;
    const bool is_bytes = c->mode == 1;
    if (s->delay + s->drop + s->repeat + s->reorder + s->corrupt > 1)
        return bt_fail(fault, BT_EARG, "the shares of faults are more than 1 together");
    if (is_bytes && s->drop + s->repeat + s->reorder > 0)
        return bt_fail(fault, BT_EARG, "bytes are delayed and corrupted, nothing else");
    if (!c->routes.count || c->routes.count > ROUTES_MAX)
        return bt_fail(fault, BT_EARG, "give 1 to %d routes", ROUTES_MAX);
    for (size_t i = 0; i < c->routes.count; i++) {
        char name[ROUTE_NAME_BYTES];
        const char *text = c->routes.items[i], *equals = strchr(text, '=');
        const size_t len = equals ? (size_t)(equals - text) : strlen(text);
        if (!len || len >= sizeof name) return bt_fail(fault, BT_EARG, "'%.100s' is not a route", text);
        snprintf(name, sizeof name, "%.*s", (int)len, text);
        bt_err e = route_open(&p->routes[p->count++], p->loop, name, i, is_bytes, s, fault);
        if (e == BT_OK && equals) e = route_set_target(&p->routes[i], equals + 1, fault);
        if (e < 0) return e;
        printf("%s 127.0.0.1:%u\n", name, p->routes[i].port);
    }
    return BT_OK;
}

int main(int argc, char **argv)
{
    static proxy p = {.listener = -1, .orderer.fd = -1};
    bt_opt_args args;
    bt_fault fault = {""};
    const int rc = bt_opt_start(&args, &program, argc, argv, &p.config);
    if (rc >= 0) return rc;
    p.config.script.seed = (uint64_t)p.config.seed;
    bt_err e = bt_loop_new(&p.loop, &fault);
    if (e == BT_OK) e = bt_loop_on_signals(p.loop, on_signal, &p, &fault);
    if (e == BT_OK) e = open_routes(&p, &fault);
    if (e == BT_OK) e = open_orders(&p, &fault);
    if (e == BT_OK) {
        printf("ready\n");
        fflush(stdout);
        e = bt_loop_run(p.loop, &fault);
        print_figures(&p);
    }
    for (size_t i = 0; i < p.count; i++) route_close(&p.routes[i]);
    if (p.orderer.fd >= 0) close(p.orderer.fd);
    if (p.listener >= 0) close(p.listener);
    bt_loop_free(p.loop);
    bt_opt_done(&args);
    if (e < 0) fprintf(stderr, "proxy: %s\n", fault.text);
    return e < 0;
}
