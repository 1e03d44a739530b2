#ifndef GW_ANSWERS_H
#define GW_ANSWERS_H
#include "gateway/door/state.h"

/* The end of an answer: the whole answer, or the last events of a stream. One that takes long to write (log
 * probabilities of many tokens, lists of many ids) is written by a thread beside the loop. */
enum { GW_ANSWERS_SHORT_WEIGHT = 4096 };

/* How much there is to write, in ids of a list; one entry of log probabilities is as much as 32 ids. */
size_t gw_answers_weight(const gw_live *l);

typedef struct gw_written gw_written;
/* l has a client, and all of its text is there. NULL: the end was written and sent. Otherwise it is still to be
 * written, by gw_answers_begin, which takes l, out of the door's list. Out of memory ends as gw_live_give_up. */
gw_written *gw_answers_end(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *stats);
void gw_answers_begin(gw_written *w);
/* The client of an answer that is being written has gone. */
void gw_answers_forget(gw_written *w);
#endif
