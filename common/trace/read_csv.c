/* The four formats that are CSV with a header: one table has the meaning of each column. */
#include "trace/private.h"

#include <string.h>

typedef enum meaning {
    NOT_READ,
    WALL,    /* a wall clock; the first row is 0 */
    SECONDS, /* since the trace's beginning */
    INPUT,
    OUTPUT,
    OUTPUT_OR_FAILED, /* 0: it failed */
    SESSION,
    MODEL,
    KIND,  /* splitwise: 2 is an LLM request */
    BATCH, /* splitwise: requests in one; 1 */
} meaning;

static const struct column {
    bt_trace_format format;
    const char *name;
    meaning meaning;
    bool is_needed;
} columns[] = {
    {BT_TRACE_AZURE, "TIMESTAMP", WALL, false},
    {BT_TRACE_AZURE, "ContextTokens", INPUT, true},
    {BT_TRACE_AZURE, "GeneratedTokens", OUTPUT, false},
    {BT_TRACE_BURSTGPT, "Timestamp", SECONDS, true},
    {BT_TRACE_BURSTGPT, "Model", MODEL, false},
    {BT_TRACE_BURSTGPT, "Request tokens", INPUT, true},
    {BT_TRACE_BURSTGPT, "Response tokens", OUTPUT_OR_FAILED, true},
    {BT_TRACE_BURSTGPT, "Session ID", SESSION, false},
    {BT_TRACE_SPLITWISE, "arrival_timestamp", SECONDS, true},
    {BT_TRACE_SPLITWISE, "prompt_size", INPUT, true},
    {BT_TRACE_SPLITWISE, "token_size", OUTPUT, true},
    {BT_TRACE_SPLITWISE, "request_type", KIND, false},
    {BT_TRACE_SPLITWISE, "batch_size", BATCH, false},
    {BT_TRACE_VIDUR, "arrived_at", SECONDS, false},
    {BT_TRACE_VIDUR, "num_prefill_tokens", INPUT, true},
    {BT_TRACE_VIDUR, "num_decode_tokens", OUTPUT, true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_name(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

bt_trace_format bt_trace_csv_format(const char *line, size_t len)
{
    const char *at = line;
    bt_trace_cell c;
    while (bt_trace_cell_next(&c, &at, line + len))
        for (size_t i = 0; i < COLUMNS; i++)
            if (columns[i].meaning == INPUT && is_name(columns[i].name, c.text, c.len))
                return columns[i].format;
    return BT_TRACE_AUTO;
}

static const struct column *find(bt_trace_format format, const char *text, size_t len)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == format && is_name(columns[i].name, text, len)) return &columns[i];
    return NULL;
}

/* The columns of a row with a broken quote are anybody's guess. */
static bt_err broken(const bt_trace *t, size_t column, const bt_trace_cell *c, bt_fault *fault)
{
    char shown[24];
    (void)snprintf(shown, sizeof shown, "%zu", column + 1);
    return bt_trace_bad(fault, (bt_trace_place){t->in.line, shown}, c->text, c->len,
                        "has a quote that does not end, or text behind it");
}

bt_err bt_trace_csv_header(bt_trace *t, bt_trace_format format, char *line, size_t len, bt_fault *fault)
{
    const char *at = line;
    bt_trace_cell cell;
    bool is_there[COLUMNS] = {false};
    while (bt_trace_cell_next(&cell, &at, line + len)) {
        if (cell.is_broken) return broken(t, t->csv.len, &cell, fault);
        const struct column *c = find(format, cell.text, cell.len);
        if (t->csv.len == BT_TRACE_MAX_COLUMNS)
            return bt_fail(fault, BT_EFORMAT, "line %llu: has more than %d columns",
                           (unsigned long long)t->in.line, BT_TRACE_MAX_COLUMNS);
        if (c && is_there[c - columns])
            return bt_fail(fault, BT_EFORMAT, "line %llu: two columns are called '%s'",
                           (unsigned long long)t->in.line, c->name);
        if (c) is_there[c - columns] = true;
        t->csv.meaning[t->csv.len++] = (uint8_t)(c ? c->meaning : NOT_READ);
    }
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == format && columns[i].is_needed && !is_there[i])
            return bt_fail(fault, BT_EFORMAT, "line %llu: no column '%s', so it is no %s trace",
                           (unsigned long long)t->in.line, columns[i].name, bt_trace_format_names[format]);
    return BT_OK;
}

static const char *name_of(const bt_trace *t, meaning m)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == t->facts.format && columns[i].meaning == m) return columns[i].name;
    return "";
}

static bt_err take_name(const char **ret, char room[BT_TRACE_MAX_NAME + 1], bt_trace_place at,
                        const bt_trace_cell *c, bt_fault *fault)
{
    size_t n = 0;
    for (size_t i = 0; i < c->len; i++) {
        if (n == BT_TRACE_MAX_NAME)
            return bt_trace_bad(fault, at, c->text, c->len, "is longer than 256 bytes");
        room[n++] = c->text[i];
        if (c->is_quoted && c->text[i] == '"') i++; /* two of them are one */
    }
    room[n] = 0;
    *ret = n && room[0] ? room : NULL;
    return BT_OK;
}

/* A count that may only be this one. */
static bt_err take_only(uint32_t only, bt_trace_place at, const bt_trace_cell *c, const char *words,
                        bt_fault *fault)
{
    uint32_t n = 0;
    return bt_trace_tokens(&n, at, c->text, c->len, NULL) == BT_OK && n == only
               ? BT_OK
               : bt_trace_bad(fault, at, c->text, c->len, words);
}

static bt_err take(bt_trace_row *row, bt_trace *t, meaning m, const bt_trace_cell *c, bt_fault *fault)
{
    const bt_trace_place at = {t->in.line, name_of(t, m)};
    const char *text = c->text;
    const size_t len = c->len;
    bt_err e = BT_OK;
    switch (m) {
    case NOT_READ: break;
    case WALL:
        e = bt_trace_wall(&row->arrival_us, at, text, len, fault);
        row->has_arrival = true;
        break;
    case SECONDS:
        e = bt_trace_seconds(&row->arrival_us, at, text, len, fault);
        row->has_arrival = true;
        break;
    case INPUT: e = bt_trace_tokens(&row->input_tokens, at, text, len, fault); break;
    case OUTPUT:
    case OUTPUT_OR_FAILED:
        e = bt_trace_tokens(&row->output_tokens, at, text, len, fault);
        row->has_output = true;
        row->is_failed = m == OUTPUT_OR_FAILED && row->output_tokens == 0;
        break;
    case SESSION: e = take_name(&row->session, t->session, at, c, fault); break;
    case MODEL: e = take_name(&row->model, t->model, at, c, fault); break;
    case KIND: e = take_only(2, at, c, "is no LLM request, which is 2", fault); break;
    case BATCH: e = take_only(1, at, c, "is not 1; each row must be one request", fault); break;
    }
    return e;
}

bt_err bt_trace_csv_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    char *line;
    size_t len, i = 0;
    bt_trace_cell c;
    bt_err e = bt_trace_input_row(&line, &len, &t->in, fault);
    if (e < 0) return e;
    *is_end = !line;
    if (!line) return BT_OK;
    const char *at = line;
    *ret = (bt_trace_row){.line = t->in.line};
    for (; e == BT_OK && bt_trace_cell_next(&c, &at, line + len); i++) {
        if (c.is_broken) e = broken(t, i, &c, fault);
        else if (i < t->csv.len) e = take(ret, t, (meaning)t->csv.meaning[i], &c, fault);
    }
    if (e < 0) return e;
    if (i != t->csv.len)
        return bt_fail(fault, BT_EFORMAT, "line %llu: has %zu columns; the header has %zu",
                       (unsigned long long)t->in.line, i, t->csv.len);
    if (ret->has_arrival && t->facts.format == BT_TRACE_AZURE) {
        if (!t->has_base) t->base_us = ret->arrival_us;
        t->has_base = true;
        ret->arrival_us -= t->base_us;
    }
    return BT_OK;
}
