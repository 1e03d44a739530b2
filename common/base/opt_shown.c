/* A command as others may see it: its line and the options in force, without secrets. */
#include "base/buf.h"
#include "base/opt.h"
#include "base/opt_private.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 4 << 20 }; /* the system's own limit of a command line is 2 MiB */
static const char left_out[] = "...";

/* The user part lies between the scheme, if there is one, and the last '@' before the path. */
static void add_url(bt_buf *to, const char *url)
{
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    const size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    (void)bt_buf_add(to, url, (size_t)(host - url));
    (void)bt_buf_str(to, at ? at + 1 : host);
}

static void add_value(bt_buf *to, const char *value, bt_opt_holds holds)
{
    if (holds == BT_OPT_HOLDS_SECRET) (void)bt_buf_str(to, left_out);
    else if (holds == BT_OPT_HOLDS_URL || strstr(value, "://")) add_url(to, value);
    else (void)bt_buf_str(to, value);
}

/* In single quotes where a shell would read more than text. */
static void add_quoted(bt_buf *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,=@%+-";
    if (*word && !word[strspn(word, plain)]) {
        (void)bt_buf_str(to, word);
        return;
    }
    (void)bt_buf_byte(to, '\'');
    for (const char *p = word; *p; p++)
        if (*p == '\'') (void)bt_buf_str(to, "'\\''");
        else (void)bt_buf_byte(to, (uint8_t)*p);
    (void)bt_buf_byte(to, '\'');
}

/* The text of a buffer for the caller to free; NULL: it has failed. */
static char *text_of(bt_buf *b)
{
    char *text = b->err < 0 ? NULL : strdup(bt_buf_text(b));
    bt_buf_done(b);
    return text;
}

char *bt_opt_shown_line(const bt_opt_args *args)
{
    bt_buf line, one;
    bt_buf_init(&line, MAX_BYTES);
    bt_buf_init(&one, MAX_BYTES);
    (void)bt_buf_str(&line, args->program->name);
    for (const bt_opt_word *w = args->word; w->text && one.err == BT_OK; w++) {
        bt_buf_clear(&one);
        (void)bt_buf_add(&one, w->text, w->at);
        add_value(&one, w->text + w->at, w->holds);
        (void)bt_buf_byte(&line, ' ');
        add_quoted(&line, bt_buf_text(&one));
    }
    if (one.err < 0) line.err = one.err;
    bt_buf_done(&one);
    return text_of(&line);
}

char *bt_opt_shown_url(const char *url)
{
    bt_buf b;
    bt_buf_init(&b, MAX_BYTES);
    add_url(&b, url);
    return text_of(&b);
}

bt_err bt_opt_shown_each(const bt_opt_args *args, bt_opt_value_fn *fn, void *ud)
{
    bt_buf value;
    bt_buf_init(&value, MAX_BYTES);
    for (size_t i = 0; i < args->row_count && value.err == BT_OK; i++) {
        const bt_opt *o = &args->rows[i];
        const void *field = (const char *)args->config + o->offset;
        const bt_opt_list one = {(const char **)&args->set[i].text, args->set[i].text != NULL},
                          *list = o->type == BT_OPT_STRINGS ? field : &one;
        if (o->type == BT_OPT_FLAG) fn(ud, o, *(const bool *)field ? "yes" : "no");
        for (size_t k = 0; o->type != BT_OPT_FLAG && k < list->count && value.err == BT_OK; k++) {
            bt_buf_clear(&value);
            add_value(&value, list->items[k], o->holds);
            if (value.err == BT_OK) fn(ud, o, bt_buf_text(&value));
        }
    }
    const bt_err e = value.err;
    bt_buf_done(&value);
    return e;
}
