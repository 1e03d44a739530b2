#ifndef GW_LIVE_H
#define GW_LIVE_H
#include "gateway/door/state.h"

/* A gw_live is in the door's list from gw_live_add to gw_live_remove. */
bt_err gw_live_open(gw_door *d, uint64_t most, bt_fault *fault); /* most: expected number at a time; more only cost time
                                                                  */
void gw_live_close(gw_door *d);
void gw_live_add(gw_door *d, gw_live *l);
/* Notes that the request is to be cancelled, or has ended early: the brain gets the event after this step. */
void gw_live_want(gw_live *l, bool cancel);
gw_live *gw_live_find(gw_door *d, uint64_t number); /* NULL: there is none */
void gw_live_take(gw_door *d, gw_live *l);          /* out of the list */
void gw_live_remove(gw_door *d, gw_live *l);        /* and frees l */
void gw_live_free(gw_live *l);                      /* l is in no list; NULL is fine */
/* Out of memory in the middle: cuts the client's connection and cancels the request. */
void gw_live_give_up(gw_live *l);
/* Sends the head of a stream, once. False: given up. */
bool gw_live_begin_stream(gw_door *d, gw_live *l);
/* As gw_door_next_event and gw_door_tick. */
bool gw_live_next_event(gw_door *d, gw_event *ret);
void gw_live_tick(gw_door *d, int64_t now_us);
#endif
