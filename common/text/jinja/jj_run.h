#ifndef BT_JINJA_JJ_RUN_H
#define BT_JINJA_JJ_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "text/jinja/jj_mem.h"

/* One rendering, or one parsing: its memory, what it may still take, and how it failed. Everything that can fail
 * returns false once bt_jj_fail was called; nothing goes on after that. */
typedef struct jj_place { /* from 1; columns in characters */
    uint32_t line, column;
} jj_place;

typedef struct jj_value jj_value;
typedef struct jj_call jj_call;
typedef struct jj_native jj_native;
typedef struct jj_run jj_run;

struct jj_run {
    jj_mem mem;
    uint64_t steps, max_steps;
    size_t max_text_bytes;
    unsigned frames, calls; /* of C's stack, that are open */
    jj_place at;            /* what is being evaluated */
    int64_t now_s;
    /* what files need of those above them: calling a value; filters and tests by name */
    bool (*call)(jj_run *r, jj_value *ret, const jj_value *callee, const jj_call *call);
    const jj_native *(*filter)(const char *name, size_t len);
    const jj_native *(*test)(const char *name, size_t len);
    bt_err err;
    bt_fault fault; /* without the place */
};

/* Keeps the first failure; returns false. */
bool bt_jj_fail(jj_run *r, bt_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool bt_jj_fail_steps(jj_run *r);
/* Around everything that calls itself: recursion ends at BT_JINJA_MAX_FRAMES, whatever template and request say. */
bool bt_jj_enter(jj_run *r);
static inline void jj_leave(jj_run *r) { r->frames--; }
/* bt_jj_mem_take that fails the run. */
void *bt_jj_take(jj_run *r, size_t bytes);
void *bt_jj_grow(jj_run *r, const void *old, size_t old_bytes, size_t new_bytes);

static inline bool jj_step(jj_run *r, uint64_t steps)
{
    r->steps += steps;
    return r->steps <= r->max_steps || bt_jj_fail_steps(r);
}
/* The steps of a look at, or a copy of, so many bytes. */
static inline bool jj_step_bytes(jj_run *r, size_t bytes) { return jj_step(r, 1 + bytes / 64); }
#endif
