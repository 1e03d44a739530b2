/* The words and the estimate of a progress. */
#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_SHARE = 100, LEAST_MS = 1000 }; /* an estimate needs a hundredth done, and so much time */

void bt_progress_begin(bt_progress *p, const char *what, int64_t now_ms)
{
    *p = (bt_progress){.begin_ms = now_ms, .at_ms = now_ms};
    snprintf(p->what, sizeof p->what, "%s", what);
}

void bt_progress_at(bt_progress *p, uint64_t done, uint64_t total, int64_t now_ms)
{
    if (done < p->done) p->begin_ms = now_ms; /* another of the same words begins */
    p->done = done < total ? done : total;
    p->total = total;
    p->at_ms = now_ms;
}

static int64_t round_up(int64_t v, int64_t step) { return (v + step - 1) / step * step; }

void bt_progress_duration(char *ret, size_t cap, int64_t ms)
{
    int64_t s = round_up(ms, 1000) / 1000;
    if (s >= 10) s = round_up(s, 5);
    const int64_t min = s < 60 ? 0 : round_up(s, 60) / 60, steps = round_up(min, 5);
    if (s < 60) snprintf(ret, cap, "about %" PRId64 " s", s);
    else if (min < 60) snprintf(ret, cap, "about %" PRId64 " min", min);
    else if (steps % 60 == 0) snprintf(ret, cap, "about %" PRId64 " h", steps / 60);
    else snprintf(ret, cap, "about %" PRId64 " h %" PRId64 " min", steps / 60, steps % 60);
}

/* Milliseconds; 0: no estimate, because too little is done or the time is over. */
static int64_t time_left(const bt_progress *p, int64_t now_ms)
{
    const int64_t took_ms = p->at_ms - p->begin_ms;
    if (took_ms < LEAST_MS || p->done >= p->total || p->done < p->total / LEAST_SHARE || p->done == 0)
        return 0;
    const double left =
        (double)took_ms * (double)(p->total - p->done) / (double)p->done - (double)(now_ms - p->at_ms);
    return left > 0 && left < 1e12 ? (int64_t)left : 0;
}

void bt_progress_text(char ret[BT_PROGRESS_BYTES], const bt_progress *p, int64_t now_ms)
{
    char left[32] = "";
    const int64_t left_ms = time_left(p, now_ms);
    int n = snprintf(ret, BT_PROGRESS_BYTES, "%s", p->what);
    if (p->total)
        n += snprintf(ret + n, BT_PROGRESS_BYTES - (size_t)n, ": %d %%",
                      (int)(100 * (double)p->done / (double)p->total)); /* rounded down */
    if (left_ms) bt_progress_duration(left, sizeof left, left_ms);
    if (left_ms) n += snprintf(ret + n, BT_PROGRESS_BYTES - (size_t)n, ", %s left", left);
    if (p->note[0]) snprintf(ret + n, BT_PROGRESS_BYTES - (size_t)n, " (%s)", p->note);
}

bool bt_progress_due(bt_progress *p, bool is_redrawn, int64_t now_ms)
{
    char text[BT_PROGRESS_BYTES];
    const int64_t after_ms = is_redrawn ? BT_PROGRESS_REDRAW_MS : BT_PROGRESS_QUIET_MS;
    if (now_ms - p->begin_ms < after_ms || (!is_redrawn && p->shown[0])) return false;
    bt_progress_text(text, p, now_ms);
    if (strcmp(text, p->shown) == 0) return false;
    memcpy(p->shown, text, sizeof text);
    return true;
}
