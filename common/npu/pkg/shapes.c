/* Cutting prompts into shapes: lists of legal shapes, and arithmetic on counts. shapes_file.c reads files. */
#include "npu/pkg/shapes.h"
#include "base/file.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

const char *const bt_shapes_usual[] = {"pow2",      "chunk:1024",     "chunk:512",
                                       "chunk:256", "chunk:256+tail", "chunk:512+tail:32",
                                       "chunk:128", "max-pad",        NULL};

enum { SMALLEST = 16, FIRST_BUCKET = 512 };

static void add(bt_shapes *p, size_t seq_min, size_t seq)
{
    p->shape[p->shapes++] = (bt_shape){(uint32_t)seq_min, (uint32_t)seq, 0, 1};
    p->all = p->shapes;
}

/* Adds the powers of two from `first` to `last` that prompts of ctx_tokens need. */
static void add_powers(bt_shapes *p, size_t first, size_t last, size_t ctx_tokens)
{
    size_t seq = first;
    for (; seq < last && seq < ctx_tokens; seq *= 2) add(p, seq, seq);
    add(p, seq, seq);
}

/* Reads the number at **text and moves *text behind its digits: no sign, no leading zero, at most
 * BT_SHAPES_MAX_CHUNK. 0: there is no such number. */
static size_t number(const char **text)
{
    size_t n = 0;
    if (**text == '0') return 0;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        n = n * 10 + (size_t)(**text - '0');
        if (n > BT_SHAPES_MAX_CHUNK) return 0;
    }
    return n;
}

static bool is_power(size_t n) { return n && !(n & (n - 1)); }

/* Reads "N", "N+tail" or "N+tail:M". */
static bool parse_chunk(bt_shapes *p, const char *text, size_t ctx_tokens)
{
    static const char suffix[] = "+tail";
    const size_t n = number(&text);
    size_t first = SMALLEST;
    if (!n) return false;
    if (!*text) {
        add(p, n, n);
        return true;
    }
    if (strncmp(text, suffix, sizeof suffix - 1)) return false;
    text += sizeof suffix - 1;
    if (*text == ':') {
        text++;
        if (!is_power(first = number(&text))) return false;
    }
    if (*text || !is_power(n) || n < first) return false;
    add_powers(p, first, n, ctx_tokens);
    return true;
}

static bool parse_range(bt_shapes *p, const char *text)
{
    const size_t lo = number(&text);
    if (!lo || *text++ != '-') return false;
    const size_t hi = number(&text);
    if (*text || hi < lo) return false;
    add(p, lo, hi);
    return true;
}

static bt_err read_file(bt_shapes *ret, const char *text, const char *path, size_t ctx_tokens,
                        bt_fault *fault)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char shown[sizeof ret->text];
    bt_buf buf;
    bt_buf_init(&buf, BT_SHAPES_MAX_FILE_BYTES);
    if ((size_t)snprintf(shown, sizeof shown, "%.*s%s", (int)(path - text), text, name) >= sizeof shown)
        return bt_fail(fault, BT_EARG, "the file's name in '%.40s...' is too long", text);
    bt_err e = bt_file_read(&buf, path, fault);
    if (e == BT_OK) e = bt_shapes_parse_bytes(ret, shown, (const char *)buf.data, buf.len, ctx_tokens, fault);
    bt_buf_done(&buf);
    return e;
}

bt_err bt_shapes_parse(bt_shapes *ret, const char *text, size_t ctx_tokens, bt_fault *fault)
{
    bt_shapes p = {.shapes = 0};
    bool ok = false;
    if (!text) text = BT_SHAPES_DEFAULT;
    if (ctx_tokens < 1 || ctx_tokens > BT_SHAPES_MAX_SEQ)
        return bt_fail(fault, BT_EARG, "a context of %zu tokens; 1 to %d are possible", ctx_tokens,
                       BT_SHAPES_MAX_SEQ);
    if (!strncmp(text, "rows:", 5) && text[5]) return read_file(ret, text, text + 5, ctx_tokens, fault);
    if (!strncmp(text, "enumerated:", 11) && text[11])
        return read_file(ret, text, text + 11, ctx_tokens, fault);
    if (!strncmp(text, "chunk:", 6)) {
        ok = parse_chunk(&p, text + 6, ctx_tokens);
    } else if (!strncmp(text, "range:", 6)) {
        ok = parse_range(&p, text + 6);
    } else if (!strcmp(text, "pow2")) {
        add_powers(&p, SMALLEST, BT_SHAPES_MAX_SEQ, ctx_tokens);
        ok = true;
    } else if (!strcmp(text, "max-pad")) {
        add(&p, ctx_tokens, ctx_tokens);
        ok = true;
    }
    if (!ok || strlen(text) >= sizeof p.text)
        return bt_fail(
            fault, BT_EARG,
            "'%.40s' is no shape policy: those are %s (N from 1 to %d, with +tail a power of two from %d)",
            text, BT_SHAPES_NAMES, BT_SHAPES_MAX_CHUNK, SMALLEST);
    strcpy(p.text, text);
    *ret = p;
    return BT_OK;
}

static bt_err add_row(bt_shapes *p, const bt_shape *s, bt_fault *fault)
{
    if (s->seq < 1 || s->seq > BT_SHAPES_MAX_SEQ || s->seq_min < 1 || s->seq_min > s->seq || s->batch < 1)
        return bt_fail(fault, BT_EARG, "%u to %u rows in a batch of %u is no shape", (unsigned)s->seq_min,
                       (unsigned)s->seq, (unsigned)s->batch);
    for (size_t i = 0; i < p->all; i++) {
        bt_shape *o = &p->shape[i];
        if (o->batch != s->batch || o->seq != s->seq || o->seq_min != s->seq_min) continue;
        if (o->ctx && (!s->ctx || s->ctx > o->ctx)) o->ctx = s->ctx;
        return BT_OK;
    }
    if (p->all == BT_SHAPES_MAX)
        return bt_fail(fault, BT_ELIMIT, "a policy has more than %d shapes", BT_SHAPES_MAX);
    p->shape[p->all++] = *s;
    return BT_OK;
}

bt_err bt_shapes_of_rows(bt_shapes *ret, const char *text, const bt_shape *rows, size_t n, bt_fault *fault)
{
    bt_shapes p = {.shapes = 0};
    bt_err e = BT_OK;
    snprintf(p.text, sizeof p.text, "%s", text);
    if (n < 1) return bt_fail(fault, BT_EARG, "a policy needs at least one shape");
    for (size_t i = 0; e == BT_OK && i < n; i++) e = add_row(&p, &rows[i], fault);
    if (e < 0) return e;
    bt_shapes_arrange(&p);
    for (size_t i = 1; i < p.all; i++) {
        const bt_shape *s = &p.shape[i];
        if (i != p.shapes && s[-1].batch == s->batch && s->seq_min <= s[-1].seq)
            return bt_fail(fault, BT_EARG, "%u to %u rows overlap with another shape", (unsigned)s->seq_min,
                           (unsigned)s->seq);
    }
    *ret = p;
    return BT_OK;
}

/* ---- cutting ---- */

static size_t left_of(const bt_shapes_left *l) { return l->end - l->begin; }

static bool holds(const bt_shape *s, const bt_shapes_left *left, size_t prompts)
{
    for (size_t i = 0; i < prompts && s->ctx; i++) {
        const size_t valid = left_of(&left[i]) < s->seq ? left_of(&left[i]) : s->seq;
        if (left[i].begin >= s->ctx || valid > s->ctx - left[i].begin) return false;
    }
    return true;
}

/* The shape for a run whose longest prompt has `most` tokens left. NULL: no shape's ctx holds all chunks'
 * ends. any_ctx: ctx is ignored. */
static const bt_shape *choose(const bt_shapes *p, const bt_shapes_left *left, size_t prompts, size_t most,
                              bool any_ctx)
{
    const bt_shape *best = NULL;
    for (size_t i = 0; i < p->shapes; i++) {
        const bt_shape *s = &p->shape[i];
        if (!any_ctx && !holds(s, left, prompts)) continue;
        best = s;
        if (s->seq >= most) break;
    }
    return best;
}

size_t bt_shapes_next_batch(const bt_shapes *p, const bt_shapes_left *left, size_t prompts)
{
    size_t most = 0;
    for (size_t i = 0; i < prompts; i++)
        if (left_of(&left[i]) > most) most = left_of(&left[i]);
    const bt_shape *s = choose(p, left, prompts, most, false);
    if (!s) s = choose(p, left, prompts, most, true);
    return most >= s->seq ? s->seq : most > s->seq_min ? most : s->seq_min;
}

bt_shapes_chunk bt_shapes_next(const bt_shapes *p, size_t n, size_t begin)
{
    const bt_shapes_left left = {begin, n};
    const size_t rows = bt_shapes_next_batch(p, &left, 1);
    return (bt_shapes_chunk){.begin = begin, .valid = n - begin < rows ? n - begin : rows, .rows = rows};
}

static void walk(const bt_shapes *p, size_t n, size_t *ret_rows, size_t *ret_launches)
{
    const size_t largest = p->shape[p->shapes - 1].seq;
    size_t bounded = 0, rows = 0, launches = 0; /* bounded: from this position on no ctx changes the choice */
    for (size_t i = 0; i < p->shapes; i++)
        if (p->shape[i].ctx > bounded) bounded = p->shape[i].ctx;
    for (size_t begin = 0; begin < n;) {
        if (begin >= bounded && n - begin > largest) {
            const size_t full = (n - begin - 1) / largest;
            launches += full;
            rows += full * largest;
            begin += full * largest;
        }
        const bt_shapes_chunk c = bt_shapes_next(p, n, begin);
        begin += c.valid;
        rows += c.rows;
        launches++;
    }
    *ret_rows = rows;
    *ret_launches = launches;
}

size_t bt_shapes_rows(const bt_shapes *p, size_t n)
{
    size_t rows, launches;
    walk(p, n, &rows, &launches);
    return rows;
}

size_t bt_shapes_launches(const bt_shapes *p, size_t n)
{
    size_t rows, launches;
    walk(p, n, &rows, &launches);
    return launches;
}

size_t bt_shapes_bucket(const bt_shape *s, size_t ctx_tokens, size_t i)
{
    if (s->ctx) return i == 0 ? s->ctx : 0;
    size_t ctx = FIRST_BUCKET;
    while (ctx < s->seq && ctx < ctx_tokens) ctx *= 2;
    for (; i > 0 && ctx < ctx_tokens; i--) ctx *= 2;
    return i > 0 ? 0 : ctx < ctx_tokens ? ctx : ctx_tokens;
}

size_t bt_shapes_specializations(const bt_shapes *p, size_t ctx_tokens)
{
    size_t n = 0;
    for (size_t s = 0; s < p->all; s++)
        for (size_t i = 0; bt_shapes_bucket(&p->shape[s], ctx_tokens, i); i++) n++;
    return n;
}
