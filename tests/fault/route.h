#ifndef TESTS_FAULT_ROUTE_H
#define TESTS_FAULT_ROUTE_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include "rt/loop.h"
#include "tests/fault/flow.h"

/* A route: a TCP port of 127.0.0.1 and the address that it stands for. Each connection to the port is one connection to
 * the target with a flow each way, up (to the target) and down. A connection to a route without a target, or with a
 * hold on it, is accepted and waits.
 *
 * hold     a direction is not read and not written, and its end does not tell the other side: a network that swallows
 *          packets. Bytes that were sent meanwhile come when the hold ends, as TCP would send them again, if both
 *          sides are still there.
 * slow     a limit in bytes a second on each direction of each connection
 * cut      of all connections, now, by RST
 * script   faults by seed on messages (or bytes), and how long connections live, from then on */
enum { ROUTE_UP, ROUTE_DOWN, ROUTE_WAYS };
enum { ROUTE_NAME_BYTES = 64, ROUTE_CONNECTIONS_MAX = 256 };

typedef struct route_stats {
    uint64_t connections, cuts, malformed;
    flow_stats way[ROUTE_WAYS];
} route_stats;

typedef struct route {
    char name[ROUTE_NAME_BYTES];
    uint16_t port; /* of the listener, from the system */
    route_stats stats;
    bt_loop *loop;
    const script *script; /* NULL: no faults */
    bool is_bytes, is_held[ROUTE_WAYS], has_target;
    struct sockaddr_in target;
    uint64_t number, rate, watch;
    int listener;
    struct conn *first; /* its connections */
    uint32_t open;
} route;

/* number: distinct for each route of a run, for the script. The route stays where it is in memory until route_close. */
bt_err route_open(route *r, bt_loop *loop, const char *name, uint64_t number, bool is_bytes, const script *s,
                  bt_fault *fault);
void route_close(route *r);
bt_err route_set_target(route *r, const char *host_port, bt_fault *fault); /* "127.0.0.1:5600" */
void route_set_hold(route *r, bool up, bool down);
void route_set_rate(route *r, uint64_t bytes_per_s); /* 0: none */
void route_set_script(route *r, const script *s);
void route_cut(route *r);
#endif
