#ifndef BT_RT_ASIDE_H
#define BT_RT_ASIDE_H
#include <stdbool.h>
#include "rt/loop.h"

/* Work that is too long for a turn of an event loop. Each lane has one thread and a line: items of one lane run one
 * after the other, in the order in which they were added, and those of different lanes beside each other. Threads run
 * at a lower priority than the loop's.
 *
 * All calls come from the loop's thread. An item is its owner's until bt_aside_add, and again from `done` on. The owner
 * bounds how many wait. */
typedef struct bt_aside bt_aside;

typedef struct bt_aside_item {
    struct bt_aside_item *next, *prev;        /* private: in the lane's line */
    unsigned lane;                            /* private */
    bool waits;                               /* private */
    void (*run)(struct bt_aside_item *item);  /* in the lane's thread; nothing else touches the item meanwhile */
    void (*done)(struct bt_aside_item *item); /* in the loop, once, after run */
} bt_aside_item;

enum { BT_ASIDE_MAX_LANES = 4 };

/* after: called in the loop when items were done, behind their `done`; NULL: nobody asks. Signals are blocked in the
 * threads. BT_EIO without threads or descriptors. */
bt_err bt_aside_new(bt_aside **ret, bt_loop *loop, unsigned lanes, void (*after)(void *ud), void *ud, bt_fault *fault);
/* Waits for the items that run and does them. Items in line are left as they are. Before bt_loop_free; NULL is fine. */
void bt_aside_free(bt_aside *w);

void bt_aside_add(bt_aside *w, unsigned lane, bt_aside_item *item);
/* True: the item waited, and will not run. False: it runs or has run, and `done` is still to come. */
bool bt_aside_withdraw(bt_aside *w, bt_aside_item *item);
#endif
