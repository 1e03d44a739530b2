#ifndef TESTS_STORM_H
#define TESTS_STORM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/helpers/cluster/client.h"

/* Many random requests at once, greedy and sampled, streams and whole answers, against a system that something is done
 * to. Each is of a kind whose answer is known from before, when nobody did anything: every answer must have its
 * tokens and its text, byte for byte. */
enum { STORM_KINDS = 16, STORM_FLIGHTS = 8 };

typedef struct storm_kind {
    json_t *request, *ids;
    char *text;
} storm_kind;
typedef struct storm_flight {
    client *c;
    size_t kind, events;
    int64_t last_ms;
    bool is_stream;
} storm_flight;

typedef struct storm {
    char url[128];
    uint64_t seed, draws;
    int patience_ms; /* a request without an end for so long has failed */
    storm_kind kinds[STORM_KINDS];
    storm_flight flights[STORM_FLIGHTS];
    /* figures */
    uint64_t sent, whole, failed, altered, again; /* again: answered whole by a later attempt than the first */
    int64_t slowest_gap_ms, slowest_ms; /* longest wait between two tokens of a stream that went on; for an answer that
                                           came */
} storm;

/* Asks every kind alone. max_tokens: of the longest answer; with: members that each request has too, or NULL. False,
 * with words, when the system does not answer. */
bool storm_learn(storm *s, const char *url, uint64_t seed, int max_tokens, int max_prompt_words, json_t *with);
void storm_done(storm *s);
/* A number below `below`, by the seed. */
uint64_t storm_draw(storm *s, uint64_t below);
/* Begins requests while fewer than `until` have been sent and there is a place, moves all on for a few milliseconds,
 * and judges those that have ended. True while some are in flight or to be sent. Faults are told on stdout, the first
 * few times. */
bool storm_step(storm *s, uint64_t until);
/* One line: the figures. */
void storm_print(const storm *s, const char *what);
/* The number in an environment variable, or `otherwise`. */
uint64_t storm_number(const char *name, uint64_t otherwise);
/* The default model's path, or NULL where it is not (see `make model`). */
const char *storm_model(void);
#endif
