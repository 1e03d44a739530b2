#ifndef TESTS_TINY_PKG_H
#define TESTS_TINY_PKG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "npu/pkg/pkg.h"

/* Small valid package files for tests: made by the writer from random numbers, with programs lowered by hand. Every
 * layer names each form of operand that there is. Failures of the helper itself abort. */
typedef struct tiny_pkg {
    uint32_t layers;                                          /* 0: 2 */
    uint32_t dim, ffn, heads, kv_heads, head_dim, vocab, ctx; /* 0: 16, 24, 2, 1, 8, 20, 32 */
    uint32_t bits;                                            /* of weights: 8 (also for 0) or 4 */
    uint32_t palette_run; /* with bits 4 or 6: of inputs that share a palette, which divides all inputs; 0: none */
    uint32_t group; /* of inputs that share a step and an offset, which divides dim, ffn and heads * head_dim; 0: none
                     */
    bool ops_all, rotate, same_layers; /* npu_ops all; R1 and R2; every layer has the weights of the first */
    bool sparse;                       /* attention of prompts is, but for the first two rows */
    bool long_recipe;                  /* of 200 characters, beside the header */
    bool llm_int8;                     /* that recipe: 8 bits everywhere, no shadow, f16 weights beside the integers */
    bool laid_out;       /* rows at multiples of 128 bytes, attention sliced, the output matrix in parts */
    bool packed;         /* programs are pieces, each row has its own, static in ctx */
    bool two_sessions;   /* the first layer, and the others with the head; a switch costs 1,000 ns */
    uint32_t seqs[4];    /* rows; all 0: 4 alone */
    uint32_t flip_layer; /* not 0: one byte of this layer's down weights differs (before hashes are made) */
} tiny_pkg;

void tiny_pkg_write(const char *path, const tiny_pkg *o);
bt_pkg *tiny_pkg_open(const tiny_pkg *o); /* opened; bt_pkg_close it */
/* The file's bytes in a 64-byte aligned block of exactly its size; free() it. _read: of any file. */
uint8_t *tiny_pkg_bytes(size_t *ret_len, const tiny_pkg *o);
uint8_t *tiny_pkg_read(size_t *ret_len, const char *path);
/* Makes hashes of constants and the digest right again, where the layout can still be read. */
void tiny_pkg_repair(uint8_t *bytes, size_t len);
/* A 64-byte aligned block of exactly len bytes. */
uint8_t *tiny_pkg_alloc(size_t len);
/* For fuzz targets: such a block with a copy of base[n], and what data[len] changes in it: behind a byte that is the
 * caller's, changes of a width (1, 2, 4, 8), a place (2 bytes; where n is greater than they tell, 3) and that many
 * bytes. Fewer than TINY_PKG_PATCH bytes change nothing. */
enum { TINY_PKG_PATCH = 5 };
uint8_t *tiny_pkg_patched(const uint8_t *base, size_t n, const uint8_t *data, size_t len);
#endif
