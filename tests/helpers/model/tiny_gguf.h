#ifndef TESTS_TINY_GGUF_H
#define TESTS_TINY_GGUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model/arch.h"

/* Small GGUF files for tests: each architecture of model/arch.h, and mixtral, llama with experts, of any dimensions
 * with random weights, and a small tokeniser that works. Multipliers are 0.2 (scores), 0.75 (embedding), 0.375 (blocks)
 * and 1/3 (logits). The same spec gives the same bytes on every machine. Weights are small integers times a power of
 * two, so that F32, F16, BF16 and Q8_0 files of one seed hold exactly the same values (Q4_0 and Q4_1: the upper four
 * bits of them; MXFP4: values of its own by these bits). Failures of the helper itself (out of memory, a bad spec)
 * abort the test program. */

/* ---- writing any GGUF: keys first, then tensors; the bytes are made by tiny_gguf_finish ---- */
typedef struct tiny_gguf tiny_gguf;
tiny_gguf *tiny_gguf_new(uint32_t version, uint32_t alignment /* 0: no key, 32 */);
void tiny_gguf_u32(tiny_gguf *w, const char *key, uint32_t v);
void tiny_gguf_f32(tiny_gguf *w, const char *key, float v);
void tiny_gguf_bool(tiny_gguf *w, const char *key, bool v);
void tiny_gguf_str(tiny_gguf *w, const char *key, const char *v);
void tiny_gguf_strs(tiny_gguf *w, const char *key, const char *const *v, size_t n);
void tiny_gguf_f32s(tiny_gguf *w, const char *key, const float *v, size_t n);
void tiny_gguf_i32s(tiny_gguf *w, const char *key, const int32_t *v, size_t n);
/* Any key: type number and the bytes of its value as they stand in the file. */
void tiny_gguf_raw(tiny_gguf *w, const char *key, uint32_t type, const void *bytes, size_t len);
/* bytes are copied; n_dims of dim[]. */
void tiny_gguf_tensor(tiny_gguf *w, const char *name, uint32_t type, const uint64_t *dim, uint32_t n_dims,
                      const void *bytes, size_t len);
/* The next data lies so many bytes (a multiple of the alignment) further: room for the data of a tensor that was given
 * with no bytes. The caller writes the file, from the end of _finish's bytes on. */
void tiny_gguf_skip(tiny_gguf *w, uint64_t bytes);
/* The file; the caller frees it with free(). Ends w. */
uint8_t *tiny_gguf_finish(tiny_gguf *w, size_t *ret_len);

/* ---- a whole model ---- */
enum { TINY_GGUF_WINDOW = 24 };
typedef struct tiny_gguf_spec {
    const char *arch; /* of model/arch.h, or mixtral; tensors as of llama where it is no such name */
    uint32_t layers, dim, heads, kv_heads, head_dim, ffn, vocab, ctx;
    uint32_t type; /* ggml type of the matrices: F32 0, F16 1, Q4_0 2, Q4_1 3, Q8_0 8, BF16 30, MXFP4 39; a matrix whose
                      rows are no multiple of the block is F32 */
    bool tied, rope_freqs, qkv_bias; /* where the architecture may have biases; qwen2 always has them */
    uint32_t window;                 /* of window layers, where the architecture may have them; 0: TINY_GGUF_WINDOW
                                        where it always has, else no such key */
    bool no_tokenizer;
    bool add_bos;
    const char *chat_template; /* NULL: none; tiny_gguf_chatml fits the special tokens below */
    uint64_t seed;
    /* One token whose numbers leave their range, 0: none; F32 only. Element 0 of its embedding is hot_embed, that of
       all others 0; element 0 of each row of layer 0's attn_k is hot_k. */
    uint32_t hot_token;
    float hot_embed, hot_k;
    const char *omit;                      /* name of a key or tensor to leave out, or NULL */
    void (*extra)(tiny_gguf *w, void *ud); /* called before the end, to add keys or tensors; or NULL */
    void *ud;
} tiny_gguf_spec;

/* The names that a walk over all architectures has: those of model/arch.h in their order, then mixtral. Models of
 * experts have 8, of which a row chooses 3. */
enum { TINY_GGUF_ARCHS = BT_ARCHS + 1, TINY_GGUF_EXPERTS = 8, TINY_GGUF_EXPERTS_USED = 3 };
const char *tiny_gguf_arch(int i);
bool tiny_gguf_has_experts(const char *arch);

/* llama, 2 layers, dim 64, 4 heads, 2 kv heads, head_dim 16, ffn 96, vocabulary 384, ctx 512, F32, own output
 * matrix, BOS added, seed 1 */
tiny_gguf_spec tiny_gguf_default(void);

/* The tokeniser ("llama", SentencePiece style; vocabulary of 320 or more): 0 <unk>, 1 <s>, 2 </s>, 3..258 the
 * bytes <0x00>..<0xFF>, 259 <|im_start|>, 260 <|im_end|> (both control), then pieces: the space mark,
 * letters, and common syllables and words built from them; the rest is filled with pieces that no text
 * produces. EOS is 2. */
extern const char tiny_gguf_chatml[];

uint8_t *tiny_gguf_build(const tiny_gguf_spec *spec, size_t *ret_len); /* free() it */
void tiny_gguf_write(const tiny_gguf_spec *spec, const char *path);
/* The same model with so many bytes (a multiple of 32) before its first tensor's, as a hole in the file; false: the
 * file system has no holes, or not such large ones. */
bool tiny_gguf_write_far(const tiny_gguf_spec *spec, const char *path, uint64_t hole);
/* The same model in parts (model/gguf.h), tensors dealt out in turn; to PREFIX-00001-of-0000N.gguf and so on. */
uint8_t *tiny_gguf_build_part(const tiny_gguf_spec *spec, uint32_t part, uint32_t parts, size_t *ret_len);
void tiny_gguf_write_parts(const tiny_gguf_spec *spec, const char *prefix, uint32_t parts);
#endif
