#ifndef TESTS_PROXY_H
#define TESTS_PROXY_H
#include <jansson.h>
#include <stdbool.h>
#include "tests/helpers/cluster/spawn.h"

/* The fault proxy (tests/fault/proxy.c) as a child of a test: ports to give to the programs under test, and orders.
 * Failures abort. */
typedef struct proxy {
    spawn *child;
    int orders;
} proxy;

/* Starts it with these options, NULL-terminated; the figures come as JSON. */
proxy proxy_start(const char *const *options);
/* "127.0.0.1:PORT" of a route; one of a few static buffers. */
const char *proxy_at(const proxy *p, const char *route);
/* One order, such as "hold decode-0 both"; it has been carried out when this returns. */
void proxy_order(const proxy *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The proxy's figures so far; the caller drops the reference. proxy_sum: one figure, over all routes. */
json_t *proxy_figures(const proxy *p);
json_int_t proxy_sum(const proxy *p, const char *figure);
/* SIGTERM; true when it ended well. Its figures go to stdout. */
bool proxy_stop(proxy *p);
#endif
