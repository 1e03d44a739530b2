#ifndef BT_BASE_PROGRESS_H
#define BT_BASE_PROGRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The progress of long work, in words: "compiling (once, then kept): 62 %, about 20 s left". The time left follows from
 * what was done in the time that passed. Pure: times come from the caller, and base/wait.h shows the words. */

/* Libraries call this function while they work, on the caller's thread. what: the work, in the same words throughout
 * one wait; done of total in any unit; total 0: the total is not known. */
typedef void bt_progress_fn(void *ud, const char *what, uint64_t done, uint64_t total);

enum {
    BT_PROGRESS_BYTES = 256,     /* of a text, with its NUL */
    BT_PROGRESS_QUIET_MS = 1000, /* where lines stay, a shorter wait is not shown */
    BT_PROGRESS_REDRAW_MS = 200, /* where a line is redrawn, it appears after so long and changes at most this often */
};

typedef struct bt_progress {
    char what[128], note[64]; /* note: follows in parentheses; empty: none */
    int64_t begin_ms, at_ms;  /* at_ms: of the last bt_progress_at */
    uint64_t done, total;
    char shown[BT_PROGRESS_BYTES]; /* what is shown now; empty: nothing yet */
} bt_progress;

void bt_progress_begin(bt_progress *p, const char *what, int64_t now_ms);
/* Less done than before: the next piece of work with the same words has begun, and the estimate begins anew. */
void bt_progress_at(bt_progress *p, uint64_t done, uint64_t total, int64_t now_ms);
void bt_progress_text(char ret[BT_PROGRESS_BYTES], const bt_progress *p, int64_t now_ms);
/* "about 4 s", "about 45 s", "about 3 min", "about 1 h 10 min": whole seconds below 10, steps of 5 below a minute,
 * whole minutes below an hour, then steps of 5 minutes; rounded up. */
void bt_progress_duration(char *ret, size_t cap, int64_t ms);

/* Whether the caller is to show p->shown now; it stays until the next call. A redrawn line is due whenever its text has
 * changed, a line that stays once, after BT_PROGRESS_QUIET_MS. */
bool bt_progress_due(bt_progress *p, bool is_redrawn, int64_t now_ms);
#endif
