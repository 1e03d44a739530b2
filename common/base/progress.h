#ifndef BT_BASE_PROGRESS_H
#define BT_BASE_PROGRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How far something is that takes long, in words: "compiling (once, then kept): 62 %, about 20 s left". The time left
 * follows from what was done in the time that passed. Pure: times come from the caller (base/wait.h shows them). */

/* What libraries call while they work, on the caller's thread. what: what is waited for, the same words throughout one
 * wait; done of total in any unit; total 0: how far is not known. */
typedef void bt_progress_fn(void *ud, const char *what, uint64_t done, uint64_t total);

enum {
    BT_PROGRESS_BYTES = 256,     /* of a text, with its NUL */
    BT_PROGRESS_QUIET_MS = 1000, /* a wait that is shorter is not told where lines stay */
    BT_PROGRESS_REDRAW_MS = 200, /* nor, where a line is redrawn, in the beginning */
};

typedef struct bt_progress {
    char what[128], note[64]; /* note: follows in parentheses; empty: none */
    int64_t begin_ms, at_ms;  /* at_ms: of the last bt_progress_at */
    uint64_t done, total;
    char shown[BT_PROGRESS_BYTES]; /* what is shown now; empty: nothing yet */
} bt_progress;

void bt_progress_begin(bt_progress *p, const char *what, int64_t now_ms);
/* Less done than before: the estimate begins anew, for one thing of these words has followed another. */
void bt_progress_at(bt_progress *p, uint64_t done, uint64_t total, int64_t now_ms);
void bt_progress_text(char ret[BT_PROGRESS_BYTES], const bt_progress *p, int64_t now_ms);
/* "about 4 s", "about 45 s", "about 3 min", "about 1 h 10 min": whole seconds below 10, steps of 5 below a minute,
 * whole minutes below an hour, then steps of 5 minutes; rounded up. */
void bt_progress_duration(char *ret, size_t cap, int64_t ms);

/* Whether something is to be shown now that is not: p->shown, which stays until the next time. Where a line is redrawn,
 * whenever the text has changed; where lines stay, once, after BT_PROGRESS_QUIET_MS. */
bool bt_progress_due(bt_progress *p, bool is_redrawn, int64_t now_ms);
#endif
