/* Builds small GGUF files for tests; see the header. */
#include "tests/helpers/model/tiny_gguf.h"

#include "base/num.h"
#include "base/rng.h"
#include "model/arch.h"
#include "model/gguf.h"
#include "model/quant.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct bytes {
    uint8_t *p;
    size_t len, cap;
} bytes;

struct tiny_gguf {
    uint32_t version;
    size_t align;
    uint64_t keys, tensors;
    uint32_t part, parts, given; /* takes each parts-th tensor that it is given, from `part` on; parts 0: all
                                  */
    uint64_t hole;               /* before data that comes now */
    bytes meta, table, data;
};

static void die(const char *what)
{
    fprintf(stderr, "tiny_gguf: %s\n", what);
    abort();
}

static void put(bytes *b, const void *p, size_t n)
{
    if (b->len + n > b->cap) {
        b->cap = (b->len + n) * 2 + 256;
        b->p = realloc(b->p, b->cap);
        if (!b->p) die("out of memory");
    }
    if (n) memcpy(b->p + b->len, p, n);
    b->len += n;
}

static void put32(bytes *b, uint32_t v)
{
    uint8_t x[4];
    bt_put32(x, v);
    put(b, x, 4);
}

static void put64(bytes *b, uint64_t v)
{
    uint8_t x[8];
    bt_put64(x, v);
    put(b, x, 8);
}

static void put_f32(bytes *b, float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    put32(b, u);
}

static void put_str(bytes *b, const char *s)
{
    put64(b, strlen(s));
    put(b, s, strlen(s));
}

static void pad(bytes *b, size_t align)
{
    static const uint8_t zero[1] = {0};
    while (b->len % align) put(b, zero, 1);
}

tiny_gguf *tiny_gguf_new(uint32_t version, uint32_t alignment)
{
    tiny_gguf *w = calloc(1, sizeof *w);
    if (!w) die("out of memory");
    w->version = version;
    w->align = alignment ? alignment : 32;
    if (alignment) tiny_gguf_u32(w, "general.alignment", alignment);
    return w;
}

static bytes *key(tiny_gguf *w, const char *name, uint32_t type)
{
    w->keys++;
    put_str(&w->meta, name);
    put32(&w->meta, type);
    return &w->meta;
}

static bytes *array(tiny_gguf *w, const char *name, uint32_t type, size_t n)
{
    bytes *b = key(w, name, 9);
    put32(b, type);
    put64(b, n);
    return b;
}

void tiny_gguf_u32(tiny_gguf *w, const char *k, uint32_t v) { put32(key(w, k, 4), v); }
void tiny_gguf_f32(tiny_gguf *w, const char *k, float v) { put_f32(key(w, k, 6), v); }
void tiny_gguf_bool(tiny_gguf *w, const char *k, bool v) { put(key(w, k, 7), &(uint8_t){v}, 1); }
void tiny_gguf_str(tiny_gguf *w, const char *k, const char *v) { put_str(key(w, k, 8), v); }
void tiny_gguf_raw(tiny_gguf *w, const char *k, uint32_t type, const void *p, size_t len)
{
    put(key(w, k, type), p, len);
}

void tiny_gguf_strs(tiny_gguf *w, const char *k, const char *const *v, size_t n)
{
    bytes *b = array(w, k, 8, n);
    for (size_t i = 0; i < n; i++) put_str(b, v[i]);
}

void tiny_gguf_f32s(tiny_gguf *w, const char *k, const float *v, size_t n)
{
    bytes *b = array(w, k, 6, n);
    for (size_t i = 0; i < n; i++) put_f32(b, v[i]);
}

void tiny_gguf_i32s(tiny_gguf *w, const char *k, const int32_t *v, size_t n)
{
    bytes *b = array(w, k, 5, n);
    for (size_t i = 0; i < n; i++) put32(b, (uint32_t)v[i]);
}

void tiny_gguf_tensor(tiny_gguf *w, const char *name, uint32_t type, const uint64_t *dim, uint32_t n_dims,
                      const void *p, size_t len)
{
    if (w->parts && w->given++ % w->parts != w->part) return;
    w->tensors++;
    put_str(&w->table, name);
    put32(&w->table, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) put64(&w->table, dim[d]);
    put32(&w->table, type);
    pad(&w->data, w->align);
    put64(&w->table, w->data.len + w->hole);
    put(&w->data, p, len);
}

void tiny_gguf_skip(tiny_gguf *w, uint64_t more) { w->hole += more; }

uint8_t *tiny_gguf_finish(tiny_gguf *w, size_t *ret_len)
{
    bytes f = {0};
    put(&f, "GGUF", 4);
    put32(&f, w->version);
    put64(&f, w->tensors);
    put64(&f, w->keys);
    put(&f, w->meta.p, w->meta.len);
    put(&f, w->table.p, w->table.len);
    pad(&f, w->align);
    put(&f, w->data.p, w->data.len);
    free(w->meta.p);
    free(w->table.p);
    free(w->data.p);
    free(w);
    uint8_t *exact = malloc(f.len); /* exact size, so that asan sees a read past the end */
    if (!exact) die("out of memory");
    memcpy(exact, f.p, f.len);
    free(f.p);
    *ret_len = f.len;
    return exact;
}

/* ---- weights ---- */

typedef struct maker {
    const tiny_gguf_spec *s;
    const bt_arch_info *arch; /* llama's of a name that is none */
    bool has_experts;
    tiny_gguf *w;
    uint64_t draws;
} maker;

static bool omitted(const maker *m, const char *name) { return m->s->omit && strcmp(m->s->omit, name) == 0; }

/* Exact for the numbers used here: integers below 2048 times a power of two from 2^-14. */
static uint16_t half_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    const uint32_t sign = u >> 16 & 0x8000, exp = u >> 23 & 255;
    if ((u & 0x7fffffff) == 0) return (uint16_t)sign;
    if (exp < 113 || exp > 142 || (u & 0x1fff)) die("a value that f16 does not hold exactly");
    return (uint16_t)(sign | (exp - 112) << 10 | (u >> 13 & 0x3ff));
}

static void put_half(bytes *b, float f)
{
    const uint16_t h = half_of(f);
    put(b, &(uint8_t[2]){(uint8_t)h, (uint8_t)(h >> 8)}, 2);
}

static void put_block(bytes *b, uint32_t type, const int8_t *q, float unit)
{
    uint8_t out[32];
    if (type == BT_QUANT_MXFP4) put(b, &(uint8_t){(uint8_t)(128 + 3 + ilogbf(unit))}, 1);
    else put_half(b, type == BT_QUANT_Q8_0 ? unit : 16 * unit);
    if (type == BT_QUANT_Q8_0) {
        put(b, q, 32);
        return;
    }
    if (type == BT_QUANT_Q4_1) put_half(b, -128 * unit);
    for (int j = 0; j < 16; j++) out[j] = (uint8_t)((q[j] + 128) >> 4 | (q[j + 16] + 128) >> 4 << 4);
    put(b, out, 16);
}

/* count values of about the given standard deviation: integers in [-127, 127] times a power of two. */
static void put_weights(bytes *b, maker *m, uint32_t type, size_t count, double deviation)
{
    const float unit = ldexpf(1.0f, (int)lrint(log2(deviation / 73.0)));
    int8_t q[32];
    for (size_t i = 0; i < count; i++) {
        q[i % 32] = (int8_t)(int)(bt_rng_u64(m->s->seed, m->draws++) % 255 - 127);
        const float v = (float)q[i % 32] * unit;
        if (type == BT_QUANT_F32) put_f32(b, v);
        else if (type == BT_QUANT_F16) put_half(b, v);
        else if (type == BT_QUANT_BF16) {
            uint32_t u;
            memcpy(&u, &v, 4);
            put(b, &(uint8_t[2]){(uint8_t)(u >> 16), (uint8_t)(u >> 24)}, 2);
        } else if (i % 32 == 31) put_block(b, type, q, unit);
    }
}

static void heat(const tiny_gguf_spec *s, const char *name, uint8_t *rows, uint32_t cols, uint32_t count)
{
    const bool is_embed = strcmp(name, "token_embd.weight") == 0;
    if (!s->hot_token || (!is_embed && strcmp(name, "blk.0.attn_k.weight") != 0)) return;
    if (s->type != BT_QUANT_F32) die("a hot token in a model that is not F32");
    for (uint32_t r = 0; r < count; r++) {
        const float v = !is_embed ? s->hot_k : r == s->hot_token ? s->hot_embed : 0;
        memcpy(rows + (size_t)r * cols * sizeof v, &v, sizeof v);
    }
}

const char *tiny_gguf_arch(int i) { return i < BT_ARCHS ? bt_arch_of((bt_arch)i)->name : "mixtral"; }

bool tiny_gguf_has_experts(const char *arch)
{
    bt_arch number;
    const bt_arch_info *info = bt_arch_find(&number, arch, strlen(arch));
    return info ? info->experts == BT_ARCH_ALWAYS : !strcmp(arch, "mixtral");
}

/* `of` matrices of cols x rows, as one tensor. */
static void matrices(maker *m, const char *name, uint32_t cols, uint32_t rows, uint32_t of, double gain)
{
    const bool blocks =
        m->s->type != BT_QUANT_F32 && m->s->type != BT_QUANT_F16 && m->s->type != BT_QUANT_BF16;
    const uint32_t type = blocks && cols % 32 ? BT_QUANT_F32 : m->s->type;
    bytes b = {0};
    put_weights(&b, m, type, (size_t)cols * rows * of, gain / sqrt((double)cols));
    heat(m->s, name, b.p, cols, rows);
    if (!omitted(m, name))
        tiny_gguf_tensor(m->w, name, type, (uint64_t[]){cols, rows, of}, of > 1 ? 3 : 2, b.p, b.len);
    free(b.p);
}

static void matrix(maker *m, const char *name, uint32_t cols, uint32_t rows, double gain)
{
    matrices(m, name, cols, rows, 1, gain);
}

/* `of` vectors of n as one tensor: around 1 for norms, around 0 for biases. */
static void vectors(maker *m, const char *name, uint32_t n, uint32_t of, float centre)
{
    bytes b = {0};
    for (uint32_t i = 0; i < n * of; i++)
        put_f32(&b, centre + (float)(int)(bt_rng_u64(m->s->seed, m->draws++) % 129 - 64) / 256.0f);
    if (!omitted(m, name))
        tiny_gguf_tensor(m->w, name, BT_QUANT_F32, (uint64_t[]){n, of}, of > 1 ? 2 : 1, b.p, b.len);
    free(b.p);
}

static void vector(maker *m, const char *name, uint32_t n, float centre) { vectors(m, name, n, 1, centre); }

/* A layer's router, in F32 as files have it, and its experts. */
static void experts(maker *m, uint32_t i)
{
    const tiny_gguf_spec *s = m->s;
    char name[64];
    bytes b = {0};
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
    put_weights(&b, m, BT_QUANT_F32, (size_t)s->dim * TINY_GGUF_EXPERTS, 2.0 / sqrt((double)s->dim));
    if (!omitted(m, name))
        tiny_gguf_tensor(m->w, name, BT_QUANT_F32, (uint64_t[]){s->dim, TINY_GGUF_EXPERTS}, 2, b.p, b.len);
    free(b.p);
    snprintf(name, sizeof name, "blk.%u.ffn_gate_exps.weight", i);
    matrices(m, name, s->dim, s->ffn, TINY_GGUF_EXPERTS, 1.5);
    snprintf(name, sizeof name, "blk.%u.ffn_up_exps.weight", i);
    matrices(m, name, s->dim, s->ffn, TINY_GGUF_EXPERTS, 1.5);
    snprintf(name, sizeof name, "blk.%u.ffn_down_exps.weight", i);
    matrices(m, name, s->ffn, s->dim, TINY_GGUF_EXPERTS, 1.5);
    if (m->arch->biases != BT_ARCH_ALL) return;
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.bias", i);
    vectors(m, name, TINY_GGUF_EXPERTS, 1, 0);
    snprintf(name, sizeof name, "blk.%u.ffn_gate_exps.bias", i);
    vectors(m, name, s->ffn, TINY_GGUF_EXPERTS, 0);
    snprintf(name, sizeof name, "blk.%u.ffn_up_exps.bias", i);
    vectors(m, name, s->ffn, TINY_GGUF_EXPERTS, 0);
    snprintf(name, sizeof name, "blk.%u.ffn_down_exps.bias", i);
    vectors(m, name, s->dim, TINY_GGUF_EXPERTS, 0);
}

static void layer(maker *m, uint32_t i)
{
    const tiny_gguf_spec *s = m->s;
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const bool of_all = m->arch->biases == BT_ARCH_ALL, by_mean = m->arch->norm == BT_ARCH_MEAN;
    const bool bias = s->qkv_bias || of_all || m->arch->biases == BT_ARCH_ALWAYS,
               is_gated = m->arch->ffn != BT_ARCH_GELU, norms = m->arch->qk_norm != BT_ARCH_NONE,
               by_head = m->arch->qk_norm != BT_ARCH_ROWS, before = m->arch->norms != BT_ARCH_AFTER,
               after = m->arch->norms != BT_ARCH_BEFORE, apart = m->arch->matrices == BT_ARCH_APART,
               dense = !m->has_experts, sinks = m->arch->scores == BT_ARCH_SINKS;
    char ffn_norm[64];
    snprintf(ffn_norm, sizeof ffn_norm, "%s.weight", m->arch->ffn_norm);
    const struct {
        const char *suffix;
        uint32_t cols, rows;
        float number;
        bool present;
    } list[] = {
        {"attn_norm.weight", s->dim, 0, 1.0f, before},
        {"attn_norm.bias", s->dim, 0, 0.0f, by_mean},
        {"attn_qkv.weight", s->dim, q + 2 * kv, 1.5f, !apart},
        {"attn_q.weight", s->dim, q, 1.5f, apart},
        {"attn_k.weight", s->dim, kv, 1.5f, apart},
        {"attn_v.weight", s->dim, kv, 1.5f, apart},
        {"attn_q.bias", q, 0, 0.0f, bias},
        {"attn_k.bias", kv, 0, 0.0f, bias},
        {"attn_v.bias", kv, 0, 0.0f, bias},
        {"attn_q_norm.weight", by_head ? s->head_dim : q, 0, 1.0f, norms},
        {"attn_k_norm.weight", by_head ? s->head_dim : kv, 0, 1.0f, norms},
        {"attn_output.weight", q, s->dim, 1.5f, true},
        {"attn_output.bias", s->dim, 0, 0.0f, of_all},
        {"post_attention_norm.weight", s->dim, 0, 1.0f, after},
        {"attn_sinks.weight", s->heads, 0, 2.0f, sinks},
        {ffn_norm, s->dim, 0, 1.0f, before},
        {"ffn_norm.bias", s->dim, 0, 0.0f, by_mean},
        {"ffn_gate.weight", s->dim, s->ffn, 1.5f, apart && dense && is_gated},
        {"ffn_up.weight", s->dim, apart ? s->ffn : 2 * s->ffn, 1.5f, dense},
        {"ffn_up.bias", s->ffn, 0, 0.0f, of_all && dense},
        {"ffn_down.weight", s->ffn, s->dim, 1.5f, dense},
        {"ffn_down.bias", s->dim, 0, 0.0f, of_all && dense},
        {"post_ffw_norm.weight", s->dim, 0, 1.0f, after},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", i, list[k].suffix);
        if (list[k].present && list[k].rows)
            matrix(m, name, list[k].cols, list[k].rows, (double)list[k].number);
        else if (list[k].present) vector(m, name, list[k].cols, list[k].number);
    }
    if (!dense) experts(m, i);
}

/* ---- tokeniser ---- */

const char tiny_gguf_chatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

#define MARK "\xe2\x96\x81" /* U+2581, the space of SentencePiece */

static const char *const pieces[] = {
    MARK,       "e",          "t",        "a",        "o",          "n",       "i",       "s",      "r",
    "h",        "l",          "d",        "u",        "c",          "m",       "f",       "w",      "g",
    "y",        "p",          "b",        "v",        "k",          MARK "t",  "he",      MARK "a", "in",
    MARK "the", "er",         "on",       MARK "w",   "re",         MARK "s",  "nd",      "at",     MARK "o",
    "is",       "or",         "en",       MARK "and", "ing",        MARK "of", MARK "to", "it",     "es",
    "ou",       "ed",         MARK "in",  "al",       "ar",         "ll",      "lo",      "llo",    MARK "h",
    MARK "he",  MARK "hello", MARK "wor", "ld",       MARK "world",
};
enum { FIRST_PIECE = 261, PIECES = sizeof pieces / sizeof *pieces };

static void tokenizer(const maker *m)
{
    const uint32_t n = m->s->vocab;
    if (n < FIRST_PIECE + PIECES) die("the tokeniser needs a vocabulary of 320 or more");
    const char **text = calloc(n, sizeof *text);
    float *score = calloc(n, sizeof *score);
    int32_t *type = calloc(n, sizeof *type);
    char(*made)[16] = calloc(n, sizeof *made);
    if (!text || !score || !type || !made) die("out of memory");
    for (uint32_t i = 0; i < n; i++) {
        text[i] = made[i];
        type[i] = 1;
        if (i >= 3 && i < 259) {
            snprintf(made[i], sizeof *made, "<0x%02X>", i - 3);
            type[i] = 6;
        } else if (i >= FIRST_PIECE) {
            score[i] = -(float)(i - FIRST_PIECE);
            if (i < FIRST_PIECE + PIECES) text[i] = pieces[i - FIRST_PIECE];
            else snprintf(made[i], sizeof *made, "~%u~", i);
        }
    }
    static const struct {
        uint32_t id;
        const char *text;
        int32_t type;
    } special[] = {
        {0, "<unk>", 2}, {1, "<s>", 3}, {2, "</s>", 3}, {259, "<|im_start|>", 3}, {260, "<|im_end|>", 3},
    };
    for (size_t k = 0; k < sizeof special / sizeof *special; k++) {
        text[special[k].id] = special[k].text;
        type[special[k].id] = special[k].type;
    }
    tiny_gguf_str(m->w, "tokenizer.ggml.model", "llama");
    tiny_gguf_strs(m->w, "tokenizer.ggml.tokens", text, n);
    tiny_gguf_f32s(m->w, "tokenizer.ggml.scores", score, n);
    tiny_gguf_i32s(m->w, "tokenizer.ggml.token_type", type, n);
    tiny_gguf_u32(m->w, "tokenizer.ggml.bos_token_id", 1);
    tiny_gguf_u32(m->w, "tokenizer.ggml.eos_token_id", 2);
    tiny_gguf_u32(m->w, "tokenizer.ggml.unknown_token_id", 0);
    tiny_gguf_bool(m->w, "tokenizer.ggml.add_bos_token", m->s->add_bos);
    tiny_gguf_bool(m->w, "tokenizer.ggml.add_space_prefix", true);
    if (m->s->chat_template) tiny_gguf_str(m->w, "tokenizer.chat_template", m->s->chat_template);
    free(made);
    free(type);
    free(score);
    free(text);
}

/* ---- the model ---- */

tiny_gguf_spec tiny_gguf_default(void)
{
    return (tiny_gguf_spec){.arch = "llama", .layers = 2,     .dim = 64,    .heads = 4, .kv_heads = 2,
                            .head_dim = 16,  .ffn = 96,       .vocab = 384, .ctx = 512, .type = BT_QUANT_F32,
                            .tied = false,   .add_bos = true, .seed = 1};
}

static void hyper_parameters(const maker *m)
{
    const tiny_gguf_spec *s = m->s;
    const char *arch = strcmp(s->arch, "mixtral") ? s->arch : "llama";
    const struct {
        const char *suffix;
        uint32_t v;
    } counts[] = {
        {"block_count", s->layers},
        {"context_length", s->ctx},
        {"embedding_length", s->dim},
        {"feed_forward_length", s->ffn},
        {"attention.head_count", s->heads},
        {"attention.head_count_kv", s->kv_heads},
        {"attention.key_length", s->head_dim},
        {"attention.value_length", s->head_dim},
        {"rope.dimension_count", s->head_dim},
        {"expert_count", TINY_GGUF_EXPERTS},
        {"expert_used_count", TINY_GGUF_EXPERTS_USED},
    };
    const size_t of_experts = 2;
    char name[96];
    if (!omitted(m, "general.architecture")) tiny_gguf_str(m->w, "general.architecture", arch);
    tiny_gguf_str(m->w, "general.name", "tiny");
    for (size_t i = 0; i < sizeof counts / sizeof *counts - (m->has_experts ? 0 : of_experts); i++) {
        snprintf(name, sizeof name, "%s.%s", arch, counts[i].suffix);
        if (!omitted(m, name)) tiny_gguf_u32(m->w, name, counts[i].v);
    }
    snprintf(name, sizeof name, "%s.attention.sliding_window", arch);
    const uint32_t window = s->window || m->arch->windows < 2 ? s->window : TINY_GGUF_WINDOW;
    if (window && !omitted(m, name)) tiny_gguf_u32(m->w, name, window);
    snprintf(name, sizeof name, "%s.attention.layer_norm%s_epsilon", arch,
             m->arch->norm == BT_ARCH_MEAN ? "" : "_rms");
    if (!omitted(m, name)) tiny_gguf_f32(m->w, name, 1e-5f);
    const struct {
        const char *suffix;
        float v;
        bool present;
    } numbers[] = {
        {"rope.freq_base", 10000.0f, true},
        {"attention.scale", 0.2f, m->arch->multipliers == BT_ARCH_KEYS},
        {"embedding_scale", 0.75f, m->arch->multipliers == BT_ARCH_KEYS},
        {"residual_scale", 0.375f, m->arch->multipliers == BT_ARCH_KEYS},
        {"logit_scale", 3.0f, m->arch->multipliers == BT_ARCH_KEYS},
        {"attn_logit_softcapping", 2.0f, m->arch->scores == BT_ARCH_CAPPED},
        {"final_logit_softcapping", 12.0f, m->arch->scores == BT_ARCH_CAPPED},
        {"rope.scaling.factor", 4.0f, m->arch->yarn == BT_ARCH_EXACT},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(name, sizeof name, "%s.%s", arch, numbers[i].suffix);
        if (numbers[i].present && !omitted(m, name)) tiny_gguf_f32(m->w, name, numbers[i].v);
    }
    if (m->arch->yarn != BT_ARCH_EXACT) return;
    snprintf(name, sizeof name, "%s.rope.scaling.type", arch);
    if (!omitted(m, name)) tiny_gguf_str(m->w, name, "yarn");
    snprintf(name, sizeof name, "%s.rope.scaling.original_context_length", arch);
    if (!omitted(m, name)) tiny_gguf_u32(m->w, name, s->ctx / 4);
}

/* part of parts; parts 0: the whole. ret_data (may be NULL): where the data is, before which a file has the
 * hole. */
static uint8_t *build_far(const tiny_gguf_spec *s, uint32_t part, uint32_t parts, uint64_t hole,
                          size_t *ret_len, size_t *ret_data)
{
    bt_arch number;
    const bt_arch_info *arch = bt_arch_find(&number, s->arch, strlen(s->arch));
    maker m = {.s = s, .arch = arch ? arch : bt_arch_of(BT_ARCH_LLAMA),
               .has_experts = tiny_gguf_has_experts(s->arch), .w = tiny_gguf_new(3, 0)};
    m.w->hole = hole;
    m.w->part = part;
    m.w->parts = parts;
    if (part == 0) hyper_parameters(&m);
    if (part == 0 && !s->no_tokenizer) tokenizer(&m);
    matrix(&m, "token_embd.weight", s->dim, s->vocab, 4.0);
    for (uint32_t i = 0; i < s->layers; i++) layer(&m, i);
    vector(&m, "output_norm.weight", s->dim, 1.0f);
    if (m.arch->norm == BT_ARCH_MEAN) vector(&m, "output_norm.bias", s->dim, 0.0f);
    if (!s->tied) matrix(&m, "output.weight", s->dim, s->vocab, 4.0);
    if (s->rope_freqs) vector(&m, "rope_freqs.weight", s->head_dim / 2, 2.0f);
    if (s->extra) s->extra(m.w, s->ud);
    if (parts) {
        const uint16_t no = (uint16_t)part, count = (uint16_t)parts;
        tiny_gguf_raw(m.w, "split.no", BT_GGUF_U16, &no, sizeof no);
        tiny_gguf_raw(m.w, "split.count", BT_GGUF_U16, &count, sizeof count);
        tiny_gguf_u32(m.w, "split.tensors.count", m.w->given);
    }
    const size_t data = m.w->data.len;
    uint8_t *b = tiny_gguf_finish(m.w, ret_len);
    if (ret_data) *ret_data = *ret_len - data;
    return b;
}

static uint8_t *build(const tiny_gguf_spec *s, uint32_t part, uint32_t parts, size_t *ret_len)
{
    return build_far(s, part, parts, 0, ret_len, NULL);
}

bool tiny_gguf_write_far(const tiny_gguf_spec *spec, const char *path, uint64_t hole)
{
    size_t len, data;
    uint8_t *b = build_far(spec, 0, 0, hole, &len, &data);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) die("cannot write the file");
    const bool done = pwrite(fd, b, data, 0) == (ssize_t)data &&
                      pwrite(fd, b + data, len - data, (off_t)(data + hole)) == (ssize_t)(len - data);
    struct stat st;
    const bool has_hole = done && fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 < hole;
    close(fd);
    free(b);
    return has_hole;
}

uint8_t *tiny_gguf_build(const tiny_gguf_spec *spec, size_t *ret_len) { return build(spec, 0, 0, ret_len); }

static void write_to(const char *path, uint8_t *b, size_t len)
{
    FILE *f = fopen(path, "wbe");
    if (!f || fwrite(b, 1, len, f) != len || fclose(f) != 0) die("cannot write the file");
    free(b);
}

void tiny_gguf_write(const tiny_gguf_spec *spec, const char *path)
{
    size_t len;
    uint8_t *b = tiny_gguf_build(spec, &len);
    write_to(path, b, len);
}

uint8_t *tiny_gguf_build_part(const tiny_gguf_spec *spec, uint32_t part, uint32_t parts, size_t *ret_len)
{
    return build(spec, part, parts, ret_len);
}

void tiny_gguf_write_parts(const tiny_gguf_spec *spec, const char *prefix, uint32_t parts)
{
    char path[4096];
    for (uint32_t i = 0; i < parts; i++) {
        size_t len;
        uint8_t *b = build(spec, i, parts, &len);
        snprintf(path, sizeof path, "%s-%05u-of-%05u.gguf", prefix, i + 1, parts);
        write_to(path, b, len);
    }
}
