/* Requests as JSON, and what servers say in return: OpenAI's form, and what Baton and llama.cpp add to it. */
#include "lab/replay/wire.h"
#include "base/rng.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words that prompts are made of, and the choice of a prompt's words. */

static const char *const common[] = {
    "the",   "of",   "and",  "to",    "in",    "is",   "that", "it",   "was",  "for",   "on",
    "are",   "as",   "with", "his",   "they",  "at",   "be",   "this", "from", "have",  "or",
    "by",    "one",  "had",  "not",   "but",   "what", "all",  "were", "when", "we",    "there",
    "can",   "an",   "your", "which", "their", "said", "if",   "do",   "will", "each",  "about",
    "how",   "up",   "out",  "them",  "then",  "she",  "many", "some", "so",   "these", "would",
    "other", "into", "has",  "more",  "her",   "two",  "like", "him",  "see"};
enum { COMMON = sizeof common / sizeof *common };

void tool_replay_words_done(tool_replay_words *w)
{
    free(w->text);
    free(w->id);
    *w = (tool_replay_words){0};
}

static bool is_word(bt_text_span s)
{
    if (s.len < 2 || s.len > 24 || s.ptr[0] != ' ') return false;
    for (size_t i = 1; i < s.len; i++)
        if (s.ptr[i] < 'a' || s.ptr[i] > 'z') return false;
    return true;
}

/* One token by itself, and one behind another word. */
static bool is_one(const bt_tokenizer *tok, bt_text_span s, int32_t id, bt_fault *fault)
{
    char two[64];
    int32_t *ids = NULL;
    size_t n = 0;
    const size_t half = s.len - 1;
    memcpy(two, s.ptr + 1, half);
    memcpy(two + half, s.ptr, s.len);
    bool ok =
        bt_tokenizer_encode(&ids, &n, tok, two, half + s.len, 0, fault) == BT_OK && n == 2 && ids[1] == id;
    free(ids);
    return ok;
}

static bt_err find_words(tool_replay_words *ret, const bt_tokenizer *tok, size_t count)
{
    bt_fault ignored;
    ret->text = calloc(TOOL_REPLAY_MAX_WORDS, sizeof *ret->text);
    ret->id = calloc(count > TOOL_REPLAY_MAX_WORDS ? count : TOOL_REPLAY_MAX_WORDS, sizeof *ret->id);
    if (!ret->text || !ret->id) return BT_ENOMEM;
    for (size_t i = 0; i < count && ret->len < TOOL_REPLAY_MAX_WORDS; i++) {
        const bt_text_span s = bt_tokenizer_piece(tok, (int32_t)i);
        if (bt_tokenizer_type(tok, (int32_t)i) != BT_TOKEN_NORMAL || !is_word(s) ||
            !is_one(tok, s, (int32_t)i, &ignored))
            continue;
        memcpy(ret->text[ret->len], s.ptr + 1, s.len - 1);
        ret->id[ret->len++] = (int32_t)i;
    }
    return BT_OK;
}

bt_err tool_replay_words_find(tool_replay_words *ret, const bt_tokenizer *tok, bt_fault *fault)
{
    tool_replay_words w = {0};
    bt_err e = BT_OK;
    if (tok) {
        const size_t count = bt_tokenizer_count(tok);
        e = find_words(&w, tok, count);
        if (e == BT_OK && w.len < TOOL_REPLAY_LEAST_WORDS) {
            w.len = 0;
            for (size_t i = 0; i < count; i++)
                if (bt_tokenizer_type(tok, (int32_t)i) == BT_TOKEN_NORMAL) w.id[w.len++] = (int32_t)i;
            free(w.text);
            w.text = NULL;
            if (w.len == 0)
                e = bt_fail(fault, BT_EFORMAT, "the vocabulary has no ordinary token to make prompts of");
        }
    } else if (!(w.text = calloc(COMMON, sizeof *w.text))) {
        e = BT_ENOMEM;
    } else {
        for (; w.len < COMMON; w.len++) strcpy(w.text[w.len], common[w.len]);
    }
    if (e == BT_ENOMEM) bt_fail(fault, e, "words for prompts");
    if (e < 0) tool_replay_words_done(&w);
    else *ret = w;
    return e;
}

void tool_replay_words_draw(uint32_t *ret, size_t n, const tool_replay_plan *p, const tool_replay_item *item,
                            const tool_replay_words *w, uint64_t seed)
{
    const uint64_t block = p->block_tokens, hashed = block * item->hash_len;
    for (size_t i = 0; i < n; i++) {
        uint64_t stream = item->stream, at = i;
        if (i < hashed) {
            stream = bt_rng_u64(p->hash[item->hash_at + i / block], 2);
            at = i % block;
        } else if (i < item->shared_tokens) {
            stream = 0;
        }
        ret[i] = (uint32_t)(bt_rng_u64(seed ^ stream, at) % w->len);
    }
}

/* As "%d" would, in a tenth of its time: prompts are thousands of ids. */
static void put_id(bt_buf *out, bool is_next, int32_t id)
{
    char text[16];
    size_t at = sizeof text;
    uint32_t left = (uint32_t)id;
    do text[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (is_next) text[--at] = ',';
    (void)bt_buf_add(out, text + at, sizeof text - at);
}

void tool_replay_words_ids(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n)
{
    (void)bt_buf_byte(out, '[');
    for (size_t i = 0; i < n; i++) put_id(out, i > 0, w->id[word[i]]);
    (void)bt_buf_byte(out, ']');
}

void tool_replay_words_text(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n)
{
    (void)bt_buf_byte(out, '"');
    for (size_t i = 0; i < n; i++) {
        if (i) (void)bt_buf_byte(out, ' ');
        (void)bt_buf_str(out, w->text[word[i]]);
    }
    (void)bt_buf_byte(out, '"');
}

size_t tool_replay_wire_words(const tool_replay_dialect *d, uint32_t tokens)
{
    if (d->takes_ids) return tokens;
    const double n = round((double)tokens * d->words_per_token + d->words_off);
    return n < 1 ? 1 : (size_t)n;
}

static void put_name(bt_buf *out, const char *name)
{
    json_t *s = json_string(name);
    char *text = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    if (text) (void)bt_buf_fmt(out, "\"model\":%s,", text);
    free(text);
    json_decref(s);
}

static void put_sampling(bt_buf *out, const bt_trace_sampling *s)
{
    (void)bt_buf_fmt(out, ",\"temperature\":%.9g", s ? (double)s->temperature : 0);
    if (!s) return;
    (void)bt_buf_fmt(out,
                     ",\"top_p\":%.9g,\"top_k\":%u,\"min_p\":%.9g,\"repetition_penalty\":%.9g,"
                     "\"presence_penalty\":%.9g,\"frequency_penalty\":%.9g,\"seed\":%lld",
                     (double)s->top_p, s->top_k, (double)s->min_p, (double)s->repeat_penalty,
                     (double)s->presence_penalty, (double)s->frequency_penalty, (long long)(int64_t)s->seed);
}

static const char stream_fields[] = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";

void tool_replay_wire_whole(bt_buf *body)
{
    const size_t n = sizeof stream_fields - 1;
    char *at = body->len ? memmem(body->data, body->len, stream_fields, n) : NULL;
    if (!at) return;
    const size_t behind = body->len - (size_t)(at + n - (char *)body->data);
    memmove(at, at + n, behind);
    body->len -= n;
    body->data[body->len] = 0; /* texts of buffers end so */
}

void tool_replay_wire_body(bt_buf *out, const tool_replay_dialect *d, const tool_replay_plan *p,
                           const tool_replay_item *item, const tool_replay_words *w, const uint32_t *word,
                           size_t n)
{
    const bool has_ids = word && d->takes_ids;
    (void)bt_buf_byte(out, '{');
    if (d->model[0]) put_name(out, d->model);
    (void)bt_buf_str(out, "\"prompt\":");
    if (has_ids) tool_replay_words_ids(out, w, word, n);
    else if (word) tool_replay_words_text(out, w, word, n);
    else {
        for (size_t i = 0; i < item->ids_len; i++)
            (void)bt_buf_fmt(out, "%c%d", i ? ',' : '[', p->ids[item->ids_at + i]);
        (void)bt_buf_byte(out, ']');
    }
    (void)bt_buf_fmt(out, ",\"max_tokens\":%u%s", item->output_tokens, stream_fields);
    put_sampling(out, item->sampling == TOOL_REPLAY_NONE ? NULL : &p->sampling[item->sampling]);
    if (d->ignores_eos && !item->ends_itself) (void)bt_buf_str(out, ",\"ignore_eos\":true");
    if (d->is_baton) (void)bt_buf_str(out, ",\"baton\":true");
    (void)bt_buf_byte(out, '}');
}

/* ---- answers ------------------------------------------------------------------------------------- */

static uint32_t count_of(const json_t *object, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(object, key));
    return n < 0 || n > UINT32_MAX ? 0 : (uint32_t)n;
}

static int64_t us_of(const json_t *object, const char *key)
{
    const json_t *ms = json_object_get(object, key);
    const double x = json_is_number(ms) ? json_number_value(ms) : -1;
    return x >= 0 && x < 1e9 ? (int64_t)(x * 1e3) : -1;
}

static void take_usage(tool_replay_heard *h, tool_replay_record *to, const json_t *usage)
{
    if (!json_is_object(usage)) return;
    h->has_usage = true;
    to->prompt_tokens = count_of(usage, "prompt_tokens");
    to->completion_tokens = count_of(usage, "completion_tokens");
    to->cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

static uint32_t short_us_of(const json_t *object, const char *key)
{
    const int64_t us = us_of(object, key);
    return us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static void take_chunks(tool_replay_heard *h, const json_t *chunks)
{
    const size_t n = json_array_size(chunks);
    h->chunks = n < TOOL_REPLAY_MAX_CHUNKS ? (uint32_t)n : TOOL_REPLAY_MAX_CHUNKS;
    for (uint32_t i = 0; i < h->chunks; i++) {
        const json_t *c = json_array_get(chunks, i);
        h->chunk[i] = (tool_replay_chunk){count_of(c, "tokens"), short_us_of(c, "begin_ms"),
                                          short_us_of(c, "end_ms"), count_of(c, "chunks")};
    }
}

static void take_baton(tool_replay_heard *h, tool_replay_record *to, const json_t *root)
{
    const json_t *b = json_object_get(root, "baton"), *t = json_object_get(root, "timings");
    if (json_is_object(t)) {
        to->prefill_us = us_of(t, "prompt_ms");
        to->decode_us = us_of(t, "predicted_ms");
    }
    if (!json_is_object(b)) return;
    const char *node = json_string_value(json_object_get(b, "prefilled_by"));
    to->gateway_queue_us = us_of(b, "gateway_queue_ms");
    to->reserve_us = us_of(b, "reserve_ms");
    to->queue_us = us_of(b, "queue_ms");
    to->server_ttft_us = us_of(b, "ttft_ms");
    to->exposed_us = us_of(b, "kv_exposed_ms");
    to->transfer_us = us_of(b, "kv_transfer_ms");
    to->paced_us = us_of(json_object_get(b, "device"), "paced_ms");
    to->pace_late_us = us_of(json_object_get(b, "device"), "late_ms");
    to->prompt_late_us = us_of(json_object_get(b, "device"), "prefill_late_ms");
    take_chunks(h, json_object_get(b, "chunks"));
    if (node) (void)snprintf(h->node, sizeof h->node, "%s", node);
}

static void name_failure(char ret[TOOL_REPLAY_KIND_BYTES], const json_t *error, const char *otherwise)
{
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *type = json_string_value(json_object_get(error, "type"));
    (void)snprintf(ret, TOOL_REPLAY_KIND_BYTES, "%s",
                   code && *code   ? code
                   : type && *type ? type
                                   : otherwise);
    for (char *c = ret; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == ',') *c = '_';
}

static int64_t note_text(tool_replay_record *to, int64_t now_us)
{
    const int64_t gap = to->events ? now_us - to->last_us : -1;
    if (!to->events) to->first_us = now_us;
    if (gap > to->stall_us) {
        to->stall_us = gap;
        to->stall_at_us = to->last_us;
    }
    to->last_us = now_us;
    to->events++;
    return gap;
}

bool tool_replay_wire_event(tool_replay_heard *h, tool_replay_record *to, int64_t *ret_gap_us,
                            const char *data, size_t len, int64_t now_us)
{
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) return false;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(root, "error"), *choice, *text, *delta;
    bool has_text = false;
    if (!json_is_object(root) || json_is_object(error)) {
        name_failure(h->failure, error, json_is_object(root) ? "error" : "not_json");
        json_decref(root);
        return false;
    }
    choice = json_array_get(json_object_get(root, "choices"), 0);
    text = json_object_get(choice, "text");
    delta = json_object_get(choice, "delta");
    if (!text) text = json_object_get(delta, "content");
    if (json_string_length(text) == 0)
        text = json_object_get(delta, "reasoning_content"); /* a token all the same */
    if (json_string_length(text) == 0) text = json_object_get(delta, "reasoning");
    if (json_string_length(text) > 0) {
        has_text = true;
        h->text_hash = tool_replay_text_hash(h->text_hash, json_string_value(text), json_string_length(text));
        *ret_gap_us = note_text(to, now_us);
    }
    h->is_over |= json_is_string(json_object_get(choice, "finish_reason"));
    take_usage(h, to, json_object_get(root, "usage"));
    take_baton(h, to, root);
    json_decref(root);
    return has_text;
}

void tool_replay_wire_failure(char ret[TOOL_REPLAY_KIND_BYTES], long status, const char *body, size_t len)
{
    char number[24];
    json_t *root = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(root, "error");
    (void)snprintf(number, sizeof number, "http_%ld", status);
    name_failure(ret, error, status == 200 ? "no_stream" : number);
    json_decref(root);
}

bool tool_replay_wire_status(tool_replay_sample *to, tool_replay_result *r, const char *body, size_t len)
{
    json_t *root = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
    const json_t *nodes = json_object_get(root, "nodes"), *queue = json_object_get(root, "queue"), *n;
    const bool ok = json_is_array(nodes) && json_is_object(queue);
    size_t i;
    if (ok) {
        to->waiting = count_of(queue, "waiting");
        to->running = count_of(queue, "running");
    }
    json_array_foreach(ok ? nodes : NULL, i, n) {
        const char *id = json_string_value(json_object_get(n, "id")),
                   *role = json_string_value(json_object_get(n, "role"));
        const size_t k = id ? tool_replay_result_node(r, id, role ? role : "") : TOOL_REPLAY_MAX_NODES;
        if (k == TOOL_REPLAY_MAX_NODES) continue;
        const tool_replay_look look = {
            .slots_used = count_of(n, "slots_used"),      .queued = count_of(n, "queued"),
            .pages = count_of(n, "pages_total"),          .pages_used = count_of(n, "pages_used"),
            .windows = count_of(n, "window_pages_total"), .windows_used = count_of(n, "window_pages_used")};
        tool_replay_result_slots(r, k, count_of(n, "slots_total"));
        tool_replay_result_look(r, to, k, &look);
    }
    json_decref(root);
    return ok;
}
