/* How a rendering fails. */
#include "text/jinja/jj_run.h"

#include "text/jinja/jinja.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool bt_jj_fail(jj_run *r, bt_err err, const char *fmt, ...)
{
    if (r->err != BT_OK) return false;
    r->err = err;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->fault.text, sizeof r->fault.text, fmt, ap);
    va_end(ap);
    return false;
}

bool bt_jj_fail_steps(jj_run *r)
{
    return bt_jj_fail(r, BT_ELIMIT, "the rendering takes more than %" PRIu64 " steps", r->max_steps);
}

bool bt_jj_enter(jj_run *r)
{
    if (++r->frames <= BT_JINJA_MAX_FRAMES) return jj_step(r, 1);
    return bt_jj_fail(r, BT_ELIMIT, "more than %d open evaluations, one inside the other",
                      BT_JINJA_MAX_FRAMES);
}

static void *checked(jj_run *r, void *p)
{
    if (!p && r->mem.is_full)
        bt_jj_fail(r, BT_ELIMIT, "more than %zu bytes of memory are needed", r->mem.limit_bytes);
    else if (!p) bt_jj_fail(r, BT_ENOMEM, "out of memory");
    return p;
}

void *bt_jj_take(jj_run *r, size_t bytes) { return checked(r, bt_jj_mem_take(&r->mem, bytes)); }

void *bt_jj_grow(jj_run *r, const void *old, size_t old_bytes, size_t new_bytes)
{
    return checked(r, bt_jj_mem_grow(&r->mem, old, old_bytes, new_bytes));
}
