/* See supervise.h. Every decision is a function of the table and `now`. */
#include "tools/cluster/supervise.h"

#include <string.h>

void tool_supervise_init(tool_supervise *s, size_t count, int64_t drain_ms, int64_t grace_ms, int64_t now_ms)
{
    memset(s, 0, sizeof *s);
    s->count = count;
    s->drain_ms = drain_ms;
    s->grace_ms = grace_ms;
    for (size_t i = 0; i < count; i++)
        s->child[i] = (tool_child){.state = TOOL_CHILD_WAITING, .due_ms = now_ms,
                                   .backoff_ms = TOOL_SUPERVISE_FIRST_MS};
}

void tool_supervise_ready(tool_supervise *s) { s->was_ready = true; }

static bool is_live(const tool_child *c)
{
    return c->state == TOOL_CHILD_UP || c->state == TOOL_CHILD_TERMED || c->state == TOOL_CHILD_KILLED;
}

void tool_supervise_ended(tool_supervise *s, size_t child, int status, int64_t now_ms)
{
    tool_child *c = &s->child[child];
    const bool long_up = is_live(c) && now_ms - c->since_ms >= TOOL_SUPERVISE_RESET_MS;
    if (long_up) c->backoff_ms = TOOL_SUPERVISE_FIRST_MS;
    c->since_ms = now_ms;
    if (s->stopping) {
        c->state = TOOL_CHILD_DOWN;
        return;
    }
    if (!s->was_ready && status > 0) {
        c->state = TOOL_CHILD_DOWN;
        s->failed = true;
        tool_supervise_stop(s, now_ms);
        return;
    }
    c->state = TOOL_CHILD_WAITING;
    c->due_ms = now_ms + c->backoff_ms;
    c->backoff_ms = c->backoff_ms * 2 < TOOL_SUPERVISE_LAST_MS ? c->backoff_ms * 2 : TOOL_SUPERVISE_LAST_MS;
}

void tool_supervise_stop(tool_supervise *s, int64_t now_ms)
{
    if (s->stopping) { /* asked twice: now */
        s->nodes_termed = true;
        s->stop_due_ms = now_ms;
        return;
    }
    s->stopping = true;
    s->stop_due_ms = now_ms + s->drain_ms;
    for (size_t i = 0; i < s->count; i++)
        if (s->child[i].state == TOOL_CHILD_WAITING) s->child[i].state = TOOL_CHILD_DOWN;
}

static bool give(tool_action *ret, tool_child *c, tool_act act, size_t i, tool_child_state next,
                 int64_t now_ms)
{
    c->state = next;
    c->since_ms = now_ms;
    *ret = (tool_action){act, i};
    return true;
}

bool tool_supervise_next(tool_action *ret, tool_supervise *s, int64_t now_ms)
{
    if (!s->stopping) {
        for (size_t i = 0; i < s->count; i++) {
            tool_child *c = &s->child[i];
            if (c->state == TOOL_CHILD_WAITING && c->due_ms <= now_ms) {
                c->starts++;
                return give(ret, c, TOOL_ACT_START, i, TOOL_CHILD_UP, now_ms);
            }
        }
        return false;
    }
    if (s->child[0].state == TOOL_CHILD_UP)
        return give(ret, &s->child[0], TOOL_ACT_TERM, 0, TOOL_CHILD_TERMED, now_ms);
    if (!s->nodes_termed && (!is_live(&s->child[0]) || s->stop_due_ms <= now_ms)) {
        s->nodes_termed = true;
        s->stop_due_ms = now_ms + s->grace_ms;
    }
    if (!s->nodes_termed) return false;
    for (size_t i = 0; i < s->count; i++) {
        tool_child *c = &s->child[i];
        if (c->state == TOOL_CHILD_UP) return give(ret, c, TOOL_ACT_TERM, i, TOOL_CHILD_TERMED, now_ms);
        if (c->state == TOOL_CHILD_TERMED && s->stop_due_ms <= now_ms)
            return give(ret, c, TOOL_ACT_KILL, i, TOOL_CHILD_KILLED, now_ms);
    }
    return false;
}

int64_t tool_supervise_due_ms(const tool_supervise *s)
{
    int64_t due = -1;
    for (size_t i = 0; i < s->count; i++) {
        const tool_child *c = &s->child[i];
        const int64_t at = !s->stopping && c->state == TOOL_CHILD_WAITING ? c->due_ms
                           : s->stopping && c->state == TOOL_CHILD_TERMED ? s->stop_due_ms
                                                                          : -1;
        if (at >= 0 && (due < 0 || at < due)) due = at;
    }
    return due;
}

bool tool_supervise_over(const tool_supervise *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_live(&s->child[i])) return false;
    return s->stopping;
}
