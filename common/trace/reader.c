/* The choice of a trace's format, and the one door to its rows. */
#include "trace/reader.h"
#include "trace/capture_format.h"
#include "trace/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The format of a line with a JSON object. Only a part of a long line is looked at, so that it need not be in
 * memory twice. */
static bt_trace_format json_format(const char *line, size_t len)
{
    static const struct {
        const char *name;
        bt_trace_format format;
    } names[] = {{"\"conversations\"", BT_TRACE_SHAREGPT},
                 {"\"chat_id\"", BT_TRACE_BAILIAN},
                 {"\"input_length\"", BT_TRACE_MOONCAKE},
                 {"\"input_tokens\"", BT_TRACE_MOONCAKE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(line, len, names[i].name, strlen(names[i].name))) return names[i].format;
    return BT_TRACE_AUTO;
}

static bt_trace_format rows_format(const char *line, size_t len)
{
    const char *at = line;
    bt_trace_cell c;
    size_t cells = 0;
    bool is_rates = true;
    const char first = line[len > 1 && *line == '"'];
    if (first < '0' || first > '9') return bt_trace_csv_format(line, len);
    for (; bt_trace_cell_next(&c, &at, line + len); cells++)
        if (cells == 3 && c.len > 0 && !(*c.text >= 'A' && *c.text <= 'Z')) is_rates = false;
    return cells == 6 && is_rates ? BT_TRACE_SERVEGEN : BT_TRACE_LENGTHS;
}

static bt_err unknown(const bt_trace *t, bt_fault *fault)
{
    return bt_fail(fault, BT_EFORMAT,
                   "line %llu: the trace has no known format; name it with --format: mooncake, azure, "
                   "burstgpt, splitwise, vidur, bailian, sharegpt, servegen, lengths, baton",
                   (unsigned long long)t->in.line);
}

/* The first line is read again as a row, unless it is a header. */
static bt_err begin_text(bt_trace *t, bt_fault *fault)
{
    size_t have, pos = 0;
    char *line;
    size_t len;
    bt_trace_format f = t->o.format;
    /* A list of conversations may be one line as long as the file: it is not asked for as a line. */
    bt_err e = bt_trace_input_peek(&have, &t->in, 4096, fault);
    if (e < 0) return e;
    while (pos < have && strchr(" \t\r\n", t->in.buf[t->in.at + pos])) pos++;
    if (pos < have && t->in.buf[t->in.at + pos] == '[' && f == BT_TRACE_AUTO) f = BT_TRACE_SHAREGPT;
    if (f == BT_TRACE_AUTO && pos < have && t->in.buf[t->in.at + pos] == '{') {
        f = json_format((const char *)t->in.buf + t->in.at + pos, have - pos);
        if (f == BT_TRACE_AUTO && have == 4096 && !memchr(t->in.buf + t->in.at + pos, '\n', have - pos)) {
            if ((e = bt_trace_input_peek(&have, &t->in, BT_TRACE_MAX_PIECE_BYTES, fault)) < 0) return e;
            f = json_format((const char *)t->in.buf + t->in.at + pos, have - pos);
        }
        if (f == BT_TRACE_AUTO) {
            t->in.line++;
            return unknown(t, fault);
        }
    }
    const bool is_table = f == BT_TRACE_AUTO || (f >= BT_TRACE_AZURE && f <= BT_TRACE_VIDUR);
    t->facts.format = f;
    if (!is_table) return BT_OK;
    if ((e = bt_trace_input_row(&line, &len, &t->in, fault)) < 0) return e;
    if (!line) return f == BT_TRACE_AUTO ? bt_fail(fault, BT_EFORMAT, "the trace is empty") : BT_OK;
    if (f == BT_TRACE_AUTO) f = rows_format(line, len);
    if (f == BT_TRACE_AUTO) return unknown(t, fault);
    t->facts.format = f;
    if (f == BT_TRACE_SERVEGEN || f == BT_TRACE_LENGTHS) { /* it is a row: read it again */
        const size_t back = t->in.at - (size_t)((uint8_t *)line - t->in.buf);
        t->in.at -= back;
        t->in.offset -= back;
        t->in.line--;
        t->in.more_lines = 0;
        return BT_OK;
    }
    return bt_trace_csv_header(t, f, line, len, fault);
}

static bt_err begin(bt_trace *t, FILE *f, bt_fault *fault)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* of UTF-8: with it the first column would have another name
                                                */
    size_t have;
    bt_trace_input_begin(&t->in, f);
    bt_err e = bt_trace_input_peek(&have, &t->in, BT_CAPTURE_MAGIC_BYTES, fault);
    if (e < 0) return e;
    if (have >= sizeof mark - 1 && memcmp(t->in.buf + t->in.at, mark, sizeof mark - 1) == 0) {
        bt_trace_input_skip(&t->in, sizeof mark - 1);
        have -= sizeof mark - 1;
    }
    const bool is_capture = have >= BT_CAPTURE_MAGIC_BYTES &&
                            memcmp(t->in.buf + t->in.at, BT_CAPTURE_MAGIC, BT_CAPTURE_MAGIC_BYTES) == 0;
    if (t->o.format == BT_TRACE_BATON || (t->o.format == BT_TRACE_AUTO && is_capture))
        t->facts.format = BT_TRACE_BATON;
    else e = begin_text(t, fault);
    if (e == BT_OK && t->facts.format == BT_TRACE_SHAREGPT && !t->o.count)
        e = bt_fail(
            fault, BT_EARG,
            "the trace has texts and no lengths: name the model whose tokenizer counts tokens (-m MODEL)");
    return e;
}

static bt_err make(bt_trace **ret, const bt_trace_options *o, bt_fault *fault)
{
    bt_trace *t = calloc(1, sizeof *t);
    if (!t) return bt_fail(fault, BT_ENOMEM, "out of memory for a trace");
    t->o = *o;
    *ret = t;
    return BT_OK;
}

bt_err bt_trace_begin(bt_trace **ret, FILE *f, const bt_trace_options *o, bt_fault *fault)
{
    bt_trace *t = NULL;
    bt_err e = make(&t, o, fault);
    if (e < 0) return e;
    if ((e = begin(t, f, fault)) < 0) bt_trace_close(t);
    else *ret = t;
    return e;
}

/* The first part of a capture that was rotated, or the file itself. */
static FILE *open_first(bt_trace *t, const char *path)
{
    char part[4096 + 16];
    if (strlen(path) >= 4096) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    (void)snprintf(part, sizeof part, "%s.1", path);
    FILE *f = fopen(part, "re");
    uint8_t magic[BT_CAPTURE_MAGIC_BYTES];
    const bool is_part = f && fread(magic, 1, sizeof magic, f) == sizeof magic &&
                         memcmp(magic, BT_CAPTURE_MAGIC, sizeof magic) == 0;
    if (is_part && (t->cap.path = strdup(path))) {
        rewind(f);
        t->cap.part = 2;
        return f;
    }
    if (f) (void)fclose(f);
    return fopen(path, "re");
}

static bt_err open_file(bt_trace **ret, const char *path, const bt_trace_options *o, bt_fault *fault)
{
    bt_trace *t = NULL;
    bt_err e = make(&t, o, fault);
    if (e < 0) return e;
    t->own = open_first(t, path);
    e = t->own ? begin(t, t->own, fault) : bt_fail(fault, BT_EIO, "cannot be opened: %s", strerror(errno));
    if (e < 0) bt_trace_close(t);
    else *ret = t;
    return e;
}

bt_err bt_trace_open(bt_trace **ret, const char *path, const bt_trace_options *o, bt_fault *fault)
{
    bt_fault why = {""};
    const bt_err e =
        strcmp(path, "-") == 0 ? bt_trace_begin(ret, stdin, o, &why) : open_file(ret, path, o, &why);
    return e < 0 ? bt_fail(fault, e, "'%.80s', %.160s", path, why.text) : BT_OK;
}

void bt_trace_close(bt_trace *t)
{
    if (!t) return;
    bt_trace_input_done(&t->in);
    if (t->own) (void)fclose(t->own);
    bt_trace_map_done(&t->chats);
    json_decref(t->share.talk);
    free(t->hash);
    free(t->cap.path);
    free(t->cap.plain);
    free(t->cap.ids);
    free(t);
}

bt_trace_facts bt_trace_look(const bt_trace *t) { return t->facts; }

/* False: the row was bad and is passed over, and the caller reads on. */
static bool settles(bt_trace *t, bt_err e, bt_fault *fault)
{
    if (e != BT_EFORMAT || !t->o.skips_bad) return true;
    if (t->facts.bad++ == 0) (void)snprintf(t->facts.first_bad, sizeof t->facts.first_bad, "%s", fault->text);
    return false;
}

bt_err bt_trace_next(bt_trace_row *ret, bool *ret_is_end, bt_trace *t, bt_fault *fault)
{
    bt_fault own = {""};
    bt_err e;
    if (!fault) fault = &own;
    do {
        bt_trace_row row;
        bool is_end = false;
        switch (t->facts.format) {
        case BT_TRACE_AZURE:
        case BT_TRACE_BURSTGPT:
        case BT_TRACE_SPLITWISE:
        case BT_TRACE_VIDUR: e = bt_trace_csv_next(&row, &is_end, t, fault); break;
        case BT_TRACE_MOONCAKE:
        case BT_TRACE_BAILIAN: e = bt_trace_json_next(&row, &is_end, t, fault); break;
        case BT_TRACE_SHAREGPT: e = bt_trace_share_next(&row, &is_end, t, fault); break;
        case BT_TRACE_LENGTHS: e = bt_trace_list_next(&row, &is_end, t, fault); break;
        case BT_TRACE_BATON: e = bt_trace_capture_next(&row, &is_end, t, fault); break;
        case BT_TRACE_SERVEGEN:
            return bt_fail(fault, BT_EARG,
                           "the trace has rates and no requests; draw requests with 'baton trace synthesize "
                           "TRACE --rates FILE'");
        case BT_TRACE_AUTO:
        case BT_TRACE_FORMATS:
        default:
            return bt_fail(fault, BT_EARG, "the format of the trace is not given: name it with --format");
        }
        if (e < 0) continue;
        *ret_is_end = is_end;
        if (is_end) return BT_OK;
        *ret = row;
        t->facts.rows++;
        return BT_OK;
    } while (!settles(t, e, fault));
    return e;
}

bt_err bt_trace_next_rate(bt_trace_rate *ret, bool *ret_is_end, bt_trace *t, bt_fault *fault)
{
    enum { USUAL_WINDOW_S = 600 };
    bt_fault own = {""};
    bt_trace_rate next;
    bool is_end = false;
    bt_err e;
    if (!fault) fault = &own;
    if (t->facts.format != BT_TRACE_SERVEGEN)
        return bt_fail(fault, BT_EARG, "a %s trace has requests and no rates: give a servegen trace",
                       bt_trace_format_names[t->facts.format]);
    for (;;) {
        do {
            e = bt_trace_rate_line(&next, &is_end, t, fault);
            if (e == BT_OK && !is_end && t->rate.has_row && next.start_s <= t->rate.row.start_s)
                e = bt_fail(fault, BT_EFORMAT,
                            "line %llu, column 'time': %g s is not after %g s, the time of the row before",
                            (unsigned long long)t->in.line, next.start_s, t->rate.row.start_s);
        } while (!settles(t, e, fault));
        if (e < 0) return e;
        const bool had = t->rate.has_row;
        bt_trace_rate r = t->rate.row;
        if (!is_end) {
            t->rate.row = next;
            if (had) t->rate.width_s = next.start_s - r.start_s;
        }
        t->rate.has_row = !is_end;
        if (!had && !is_end) continue;
        *ret_is_end = !had;
        if (!had) return BT_OK;
        r.end_s = r.start_s + (t->rate.width_s > 0 ? t->rate.width_s : USUAL_WINDOW_S);
        *ret = r;
        t->facts.rows++;
        return BT_OK;
    }
}
