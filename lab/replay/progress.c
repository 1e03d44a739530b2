/* See progress.h. */
#include "lab/replay/progress.h"
#include "lab/replay/print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_US = 10000000, RATE_US = 1000000 };

void tool_replay_live_begin(tool_replay_live *l)
{
    *l = (tool_replay_live){.is_terminal = isatty(STDERR_FILENO) == 1};
}

void tool_replay_live_tell(void *live, const tool_replay_progress *now)
{
    tool_replay_live *l = live;
    char bars[3 * TOOL_REPLAY_PROGRESS_PLOT + 1], rate[48] = "";
    if (now->now_us - l->rate_us >= RATE_US) {
        l->pieces_per_s = (double)(now->pieces - l->rate_pieces) * 1e6 / (double)(now->now_us - l->rate_us);
        l->has_rate = true;
        l->rate_us = now->now_us;
        l->rate_pieces = now->pieces;
    }
    memmove(l->flight, l->flight + 1, sizeof l->flight - sizeof *l->flight);
    l->flight[TOOL_REPLAY_PROGRESS_PLOT - 1] = now->in_flight;
    if (!l->is_terminal && now->now_us - l->told_us < LINE_US) return;
    l->told_us = now->now_us;
    if (l->has_rate) (void)snprintf(rate, sizeof rate, "  %.0f pieces of text/s", l->pieces_per_s);
    tool_replay_bars(bars, l->flight, TOOL_REPLAY_PROGRESS_PLOT);
    fprintf(stderr, "%s%7.1f s  %zu of %zu sent, %zu ended, %zu failed, %u in flight%s%s%s%s%s",
            l->is_terminal ? "\r\033[K" : "", (double)now->now_us / 1e6, now->sent, now->of, now->ended,
            now->failed, now->in_flight, l->is_terminal ? " |" : "", l->is_terminal ? bars : "",
            l->is_terminal ? "|" : "", rate, l->is_terminal ? "" : "\n");
    fflush(stderr);
    l->is_drawn = l->is_terminal;
}

void tool_replay_live_end(tool_replay_live *l)
{
    if (l->is_drawn) fputs("\r\033[K", stderr);
    l->is_drawn = false;
}
