#ifndef GW_DOOR_H
#define GW_DOOR_H
#include "crypto/prefix_salt.h"
#include "gateway/brain/brain.h"
#include "gateway/door/metrics.h"
#include "gateway/door/turn.h"
#include "gateway/api/models.h"
#include "gateway/api/text.h"
#include "gateway/http/auth.h"
#include "gateway/http/http.h"
#include "gateway/http/node_link.h"
#include "gateway/options.h"
#include "model/defaults.h"
#include "rt/aside.h"
#include "trace/capture.h"

/* The endpoints, and each client's request from its bytes to the last byte of its answer. The door turns requests into
 * SUBMIT events for the brain, and the brain's FIRST, TOKENS, DONE and FAIL actions into text for clients; a client
 * that leaves becomes CANCEL, a stop string FINISH_EARLY. The door decides nothing about nodes and touches no socket.
 *
 * Errors before the first byte of an answer get their HTTP status. A stream begins with token 0. After 10 s without an
 * event, a comment goes out as a sign of life; that may begin the stream too. Once a stream has begun, an error is an
 * event, and ends the stream. A request takes memory for its prompt's ids and its answer's ids and text, bounded by
 * max_tokens. A body that is not short is read by a thread (bodies.h). */
typedef struct gw_door gw_door;

/* Who works beside the loop. */
typedef enum gw_lane { GW_LANE_BODIES, GW_LANE_LONG_BODIES, GW_LANE_ANSWERS, GW_LANES } gw_lane;

typedef struct gw_door_env {
    const gw_options *options;
    gw_auth *auth; /* NULL: no keys */
    const bt_prefix_secret *prefix_secret;
    const gw_text *text;
    const gw_model_facts *model;
    const bt_defaults *defaults; /* of sampling, options included */
    const gw_brain *brain;       /* to look at */
    gw_metrics *metrics;
    gw_turn *turn;
    bt_aside *aside;     /* of GW_LANES lanes; freed before the door */
    bt_capture *capture; /* NULL: nothing is captured */
    gw_node_link *link;  /* for its counters */
    bt_incarnation self;
    const char *node_id;
    /* Gives ev to the brain and carries out the brain's actions before it returns. The door calls this from inside
     * gw_http_run, and when work of `aside` is done. */
    void (*step)(void *ud, const gw_event *ev);
    void *ud;
} gw_door_env;

bt_err gw_door_new(gw_door **ret, const gw_door_env *env, bt_fault *fault); /* env is copied */
void gw_door_free(gw_door *d);                                              /* after gw_http_close; NULL is fine */
gw_http_handler gw_door_handler(gw_door *d);
void gw_door_set_http(gw_door *d, gw_http *http, const char *url); /* both must live on */
void gw_door_drain(gw_door *d);                                    /* new requests are answered 503 from now on */
size_t gw_door_open_count(const gw_door *d);                       /* answers not yet sent whole */
size_t gw_door_unread_count(const gw_door *d);                     /* bodies that no SUBMIT has followed yet */

void gw_door_act(gw_door *d, const gw_action *a); /* FIRST, TOKENS, DONE, FAIL or ROLE_ANSWER */
/* The next CANCEL or FINISH_EARLY for the brain; false when there is none. Ask after every step and every
 * gw_http_run. */
bool gw_door_next_event(gw_door *d, gw_event *ret);
/* Whether long pages are being written: then gw_door_go_on is called in the next turn, which begins at once. */
bool gw_door_has_pages(const gw_door *d);
void gw_door_go_on(gw_door *d);
/* The deadline of requests (--timeout) and signs of life: call it once a second. */
void gw_door_tick(gw_door *d, int64_t now_us);
#endif
