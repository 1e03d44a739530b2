#ifndef GW_PLACES_H
#define GW_PLACES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long each connection may take, and which gives way: every connection is in one phase of its present request.
 * Pure: times come in, verdicts go out; the owner of the sockets closes them.
 *
 * HEAD     no request yet, or a part of its head: idle_us in all, however slowly the bytes come. Gives way to a
 *          newcomer after GW_PLACES_HEAD_GRACE_US, the oldest first.
 * BODY     the body comes. SENDS: a whole answer goes out. STREAMS: a part of a stream goes out. These have idle_us,
 *          and more time for the bytes that moved, at GW_PLACES_MIN_BYTES_PER_S. A connection that is
 *          GW_PLACES_GRACE_US behind that speed gives way; bytes put it ahead by GW_PLACES_AHEAD_US at most, so that a
 *          burst wins no long silence.
 * WAITS    the request is served, or its stream has nothing to send: no limit of time. Never gives way. */
typedef enum gw_phase {
    GW_PHASE_HEAD,
    GW_PHASE_BODY,
    GW_PHASE_SENDS,
    GW_PHASE_WAITS,
    GW_PHASE_STREAMS,
    GW_PHASES
} gw_phase;

enum {
    GW_PLACES_MIN_BYTES_PER_S = 8 << 10,
    GW_PLACES_HEAD_GRACE_US = 100000, /* a client on a busy machine may be silent for so long after it has connected */
    GW_PLACES_GRACE_US = 250000,
    GW_PLACES_AHEAD_US = 1000000,
};

typedef struct gw_place {
    struct gw_place *prev, *next; /* in the list of its phase */
    gw_phase phase;
    bool is_listed, is_shut; /* shut: given up, and out of all lists */
    int64_t since_us;        /* when the phase began */
    uint64_t bytes;          /* moved in it */
    int64_t paid_us;         /* until when the bytes so far last at the least speed */
} gw_place;

typedef struct gw_places {
    struct {
        gw_place *first, *last; /* the oldest first */
    } lists[GW_PHASES];
    int64_t idle_us;
    unsigned count, shut; /* all places; of them those that are shut */
    unsigned served;      /* in WAITS or STREAMS, so not shut */
    unsigned moving;      /* in BODY or SENDS, so not shut */
} gw_places;

void gw_places_add(gw_places *s, gw_place *p, int64_t now_us); /* in phase HEAD */
void gw_places_remove(gw_places *s, gw_place *p);
void gw_places_enter(gw_places *s, gw_place *p, gw_phase phase, int64_t now_us); /* nothing if it is shut */
void gw_places_moved(gw_place *p, size_t bytes, int64_t now_us);
/* `bytes` are on their way, and nobody knows how many have gone: the connection gets the time of all of them. */
void gw_places_sends(gw_place *p, size_t bytes);
/* The connection that gives way to a newcomer; NULL: none. */
gw_place *gw_places_victim(const gw_places *s, int64_t now_us);
/* The connection that gives way to one more request: one with a slow body, else with a slow answer or a stream that
 * nobody reads; NULL: none. */
gw_place *gw_places_slow(const gw_places *s, int64_t now_us);
/* The same among streams alone. */
gw_place *gw_places_slow_stream(const gw_places *s, int64_t now_us);
/* The connection whose body gives its memory to another body: the slowest; NULL: none is slow. */
gw_place *gw_places_slow_body(const gw_places *s, int64_t now_us);
/* A connection whose time is over; NULL: none. */
gw_place *gw_places_late(const gw_places *s, int64_t now_us);
/* The connection was given up: it counts until it is removed, but no function returns it again. */
void gw_places_shut(gw_places *s, gw_place *p);
#endif
