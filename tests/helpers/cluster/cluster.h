#ifndef TESTS_CLUSTER_H
#define TESTS_CLUSTER_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "tests/helpers/cluster/client.h"
#include "tests/helpers/cluster/spawn.h"

/* For cmocka's groups in a program of such tests: before the first test, after the last, and after each one. */
int cluster_group_begin(void **state);
int cluster_group_end(void **state);
int cluster_teardown(void **state);

/* A whole system for a test: `baton up` on a port of the system's choice, or programs started one by one. */
typedef struct cluster {
    spawn *up;
    char url[128];
} cluster;

/* Starts `baton up -m model --port 0 ...more` (NULL-terminated) and waits for its ready line. False, with words on
 * stdout, when that does not come. */
bool cluster_start(cluster *c, const char *model, const char *const *more);
#define CLUSTER(c, model, ...) cluster_start((c), model, (const char *const[]){__VA_ARGS__, NULL})
/* SIGTERM. True when it ended with 0 and left no process and no directory; words on stdout otherwise. */
bool cluster_stop(cluster *c);

/* Where a `baton-gateway` that a test started itself listens: for clients and for nodes. False, with words, when it
 * is not there within ms. */
enum { CLUSTER_ADDRESS_BYTES = 128 };
bool cluster_find_gateway(char url[CLUSTER_ADDRESS_BYTES], char control[CLUSTER_ADDRESS_BYTES], spawn *gateway,
                          int64_t ms);
/* A port that was free a moment ago: for a decode node that is told its own, because others find it elsewhere. */
uint16_t cluster_free_port(void);
/* SIGTERM to a program that a test started itself. True when it ended with 0 within ms; words otherwise. */
bool cluster_end(spawn *s, int64_t ms);

/* The number behind `line` in /metrics, which are never negative; -1, with words on stdout, where it is not there. */
double cluster_metric(const char *url, const char *line);
/* GET /v1/status; the caller drops the reference. NULL when nobody answers. */
json_t *cluster_status(const char *url);
/* The pid of the live node with this id, or of "gateway"; 0 when there is none. */
pid_t cluster_pid(const char *url, const char *id);
/* Wait until node `id` is in state `state` and its pid is not `other_than` (0: any). False after ms. */
bool cluster_wait_node(const char *url, const char *id, const char *state, pid_t other_than, int64_t ms);
/* Wait until /health says status. */
bool cluster_wait_health(const char *url, long status, int64_t ms);
/* Wait until no page, reservation or lease is held on any node. */
bool cluster_wait_idle(const char *url, int64_t ms);

/* A completion request: {"prompt", "max_tokens", "temperature": 0, "baton": true}; the caller drops it. */
json_t *cluster_request(const char *prompt, int max_tokens);
/* Begins a greedy stream that is still coming when this returns; words and NULL when there is none. On a little model
 * (tiny_gguf.h) it has max_tokens: end tokens are biased away, because most answers of a random model end after a
 * few hundred. */
client *cluster_begin_stream(const char *url, int max_tokens);
/* Asks for a short completion: true when it comes whole, with as many tokens as asked for or a stop. Words on stdout
 * otherwise. */
bool cluster_serves(const char *url);
#endif
