/* Functions that a template may call by name. */
#include "text/jinja/jj_natives.h"

#include "text/jinja/jinja.h"
#include "text/jinja/jj_loop.h"
#include "text/jinja/jj_method.h"
#include "text/jinja/jj_show.h"

#include <string.h>
#include <time.h>

#define FUNCTION(name) \
    static bool name(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)

FUNCTION(range)
{
    (void)self, (void)call;
    int64_t part[3];
    for (int i = 0; i < 3; i++)
        if (!bt_jj_method_whole(r, &part[i], &a[i], 1)) return false;
    const bool has_one = a[1].kind == JJ_MISSING;
    const int64_t start = has_one ? 0 : part[0], stop = has_one ? part[0] : part[1], step = part[2];
    if (step == 0) return bt_jj_fail(r, BT_EFORMAT, "range() arg 3 must not be zero");
    const __int128 span = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    const __int128 size = step > 0 ? step : -(__int128)step, count = span > 0 ? (span + size - 1) / size : 0;
    if (count > BT_JINJA_MAX_RANGE)
        return bt_jj_fail(r, BT_ELIMIT,
                          "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          BT_JINJA_MAX_RANGE);
    if (!jj_step(r, (uint64_t)count / 8) || !bt_jj_list_new(r, ret, JJ_RANGE, (size_t)count)) return false;
    jj_list *l = ret->list;
    l->start = start;
    l->stop = stop;
    l->step = step;
    for (; l->len < (size_t)count; l->len++)
        l->item[l->len] = jj_int((int64_t)(start + (__int128)l->len * step));
    return true;
}

/* dict(mapping or pairs, name=value ...) */
static bool fill(jj_run *r, jj_value *ret, jj_kind kind, const jj_call *call)
{
    jj_walk w;
    jj_value pair;
    if (!bt_jj_dict_new(r, ret, kind, call->keywords)) return false;
    if (call->args > 1) return bt_jj_fail(r, BT_EFORMAT, "expected at most 1 argument, got %zu", call->args);
    if (call->args == 1 && call->arg[0].kind == JJ_DICT) {
        const jj_dict *d = call->arg[0].dict;
        for (size_t i = 0; i < d->len; i++)
            if (!jj_step(r, 1) || !bt_jj_dict_set(r, ret->dict, &d->key[i], &d->value[i])) return false;
    } else if (call->args == 1) {
        if (!bt_jj_walk_begin(r, &w, &call->arg[0])) return false;
        while (bt_jj_walk_next(&w, &pair)) {
            jj_value both;
            if (!bt_jj_value_list(r, &both, &pair, JJ_TUPLE)) return false;
            if (both.list->len != 2) return bt_jj_fail(r, BT_EFORMAT, "a mapping is made of pairs");
            if (!bt_jj_dict_set(r, ret->dict, &both.list->item[0], &both.list->item[1])) return false;
        }
    }
    for (size_t i = 0; i < call->keywords; i++) {
        const jj_value key = jj_text(call->keyword[i].name);
        if (!bt_jj_dict_set(r, ret->dict, &key, &call->keyword[i].value)) return false;
    }
    return r->err == BT_OK;
}
FUNCTION(dict)
{
    (void)self, (void)a;
    return fill(r, ret, JJ_DICT, call);
}
FUNCTION(namespace)
{
    (void)self, (void)a;
    return fill(r, ret, JJ_SPACE, call);
}

FUNCTION(raise_exception)
{
    (void)self, (void)ret, (void)call;
    const jj_str *s = bt_jj_show_str(r, &a[0]);
    if (!s) return false;
    size_t len = s->len < sizeof r->fault.text - 1 ? s->len : sizeof r->fault.text - 1;
    while (len < s->len && len > 0 && ((unsigned char)s->ptr[len] & 0xc0) == 0x80)
        len--; /* no half character */
    return bt_jj_fail(r, BT_EARG, "%.*s", (int)len, s->ptr);
}

/* Python's datetime.now().strftime(): C's, of a time without a zone, with microseconds. */
FUNCTION(strftime_now)
{
    (void)self, (void)call;
    enum { MAX_BYTES = 4096 };
    if (a[0].kind != JJ_STR) return bt_jj_fail(r, BT_EFORMAT, "strftime_now needs a format");
    const jj_str *s = a[0].s;
    jj_buf f = jj_buf_of(r);
    for (size_t i = 0; i < s->len; i++) {
        const char next = i + 1 < s->len ? s->ptr[i + 1] : '\0';
        if (s->ptr[i] != '%') {
            if (!bt_jj_buf_part(&f, s, i, i + 1)) return false;
        } else if (next == 'f' || next == 'z' || next == 'Z' || next == 's') {
            i++;
            if (next == 'f' && !bt_jj_buf_text(&f, "000000", true)) return false;
            if (next == 's') return bt_jj_fail(r, BT_EFORMAT, "strftime_now does not know %%s");
        } else if (!bt_jj_buf_part(&f, s, i, i + 1 + (next == '%'))) return false;
        else i += next == '%';
    }
    /* One character more than asked for, since an empty text and one that is too long look alike. */
    char text[MAX_BYTES];
    struct tm tm;
    const time_t now = (time_t)r->now_s;
    if (!bt_jj_buf_bytes(&f, "|\0", 2, true) || !gmtime_r(&now, &tm))
        return bt_jj_fail(r, BT_EFORMAT, "strftime_now has no such time");
    if (memchr(f.ptr, 0, f.len) != f.ptr + f.len - 1)
        return bt_jj_fail(r, BT_EFORMAT, "embedded null character");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t len = strftime(text, sizeof text, f.ptr, &tm);
#pragma GCC diagnostic pop
    if (len == 0) return bt_jj_fail(r, BT_ELIMIT, "strftime_now gives more than %d bytes", MAX_BYTES);
    jj_buf b = jj_buf_of(r);
    return bt_jj_buf_bytes(&b, text, len - 1, bt_jj_str_is_template(s)) &&
           jj_give(ret, bt_jj_buf_str(&b, true));
}

static const jj_native functions[] = {
    {"range", "start stop step", 1, range},
    {"dict", "*", 0, dict},
    {"namespace", "*", 0, namespace},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
};

const jj_native *bt_jj_global_find(const char *name, size_t len)
{
    const jj_native *const others[] = {&bt_jj_loop_cycler, &bt_jj_loop_joiner};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i].name) == len && memcmp(functions[i].name, name, len) == 0)
            return &functions[i];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i]->name) == len && memcmp(others[i]->name, name, len) == 0) return others[i];
    return NULL;
}
