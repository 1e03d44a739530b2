#ifndef TESTS_FAULT_SCRIPT_H
#define TESTS_FAULT_SCRIPT_H
#include <stdint.h>

/* The fate of each message and each connection: a function of the seed and of who it is, nothing else. So the same
 * traffic meets the same faults, and what the clock does to the traffic is the only thing that a seed does not fix. */
typedef struct script {
    uint64_t seed;
    double delay, drop, repeat, reorder, corrupt; /* shares of messages; a message has one fate; together at most 1 */
    int64_t delay_ms;                             /* the longest delay */
    int64_t cut_ms;                               /* mean life of a connection, exponentially distributed; 0: no cuts */
} script;

typedef enum fate_kind {
    FATE_PASS,
    FATE_DELAY,
    FATE_DROP,
    FATE_REPEAT,
    FATE_REORDER,
    FATE_CORRUPT,
    FATE_KINDS
} fate_kind;
typedef struct fate {
    fate_kind kind;
    uint64_t random;
} fate; /* random: where, how long, how far; free bits for whoever carries it out */

/* The fate of message `index` of a direction of a connection; `stream` names both. */
fate script_fate(const script *s, uint64_t stream, uint64_t index);
/* How long a connection lives before it is cut; -1: for ever. At least 1 ms. */
int64_t script_life_ms(const script *s, uint64_t connection);
/* One number out of several, for seeds of parts. */
uint64_t script_mix(uint64_t a, uint64_t b);
#endif
