#ifndef BT_NPU_PKG_H
#define BT_NPU_PKG_H
#include <stddef.h>
#include "base/err.h"
#include "npu/pkg/pkg_format.h"

typedef struct bt_pool bt_pool;           /* base/pool.h */
typedef struct bt_model bt_model;         /* model/model.h */
typedef struct bt_int_range bt_int_range; /* kernels/int_kernels.h */

/* Package files: written once by the compiler, mapped and checked by whoever runs them. */
typedef struct bt_pkg bt_pkg;

/* Maps the file and checks it whole: every count, offset, index, name and operand against the file and the arena, every
 * constant against its hash, the digest. A package that it accepts can be run without another look. BT_EFORMAT naming
 * what is wrong; BT_EVERSION; BT_EIO. */
bt_err bt_pkg_open(bt_pkg **ret, const char *path, bt_fault *fault);
/* the same, checked by all threads of pool */
bt_err bt_pkg_open_on(bt_pkg **ret, const char *path, bt_pool *pool, bt_fault *fault);
/* Checks only that header and tables are those that were written and that the header's numbers are in range, and reads
 * nothing else. Such a package says what is in it; it cannot be run. */
bt_err bt_pkg_look(bt_pkg **ret, const char *path, bt_fault *fault);
void bt_pkg_close(bt_pkg *p); /* NULL is fine */

/* All borrowed, valid until close. */
const bt_pkg_header *bt_pkg_header_of(const bt_pkg *p);
const char *bt_pkg_recipe(const bt_pkg *p); /* in its canonical form, of at most BT_RECIPE_MAX_TEXT - 1 characters */
const bt_pkg_const *bt_pkg_consts(const bt_pkg *p);
const bt_pkg_tensor *bt_pkg_tensors(const bt_pkg *p);
const bt_pkg_site *bt_pkg_sites(const bt_pkg *p);
const bt_pkg_row *bt_pkg_rows(const bt_pkg *p);
const bt_pkg_program *bt_pkg_programs(const bt_pkg *p);
const bt_pkg_fallback *bt_pkg_fallbacks(const bt_pkg *p);
const bt_pkg_session *bt_pkg_sessions(const bt_pkg *p);
/* NULL for BT_PKG_NONE, and for a constant of a sketch that has no bytes. */
const void *bt_pkg_const_at(const bt_pkg *p, uint32_t index);
/* The instructions and the memory plan of the program with this index, [insts] and [places], however they are stored.
 * Not for a package that was only looked at. */
const bt_pkg_inst *bt_pkg_code(const bt_pkg *p, uint32_t program);
const bt_pkg_place *bt_pkg_plan(const bt_pkg *p, uint32_t program);
/* The row with exactly this batch, seq within [seq_min, seq], and the smallest ctx >= end_tokens. BT_ELIMIT otherwise,
 * the fault naming the nearest legal row. */
bt_err bt_pkg_find_row(const bt_pkg_row **ret, const bt_pkg *p, size_t batch, size_t seq, size_t end_tokens,
                       bt_fault *fault);
/* The decode row (seq 1) for `seqs` sequences of up to end_tokens positions: of the smallest batch that holds so many,
 * the smallest ctx; what the batch has beyond them is padding. BT_ELIMIT: the package has none, or none so large; the
 * fault names the nearest. */
bt_err bt_pkg_find_decode_row(const bt_pkg_row **ret, const bt_pkg *p, size_t seqs, size_t end_tokens, bt_fault *fault);
/* Whether chunks of a prompt may run beside each other (schedules fifo and ooo). BT_EARG: the recipe llm-int8, which
 * keeps more than the arena holds, or several sessions, whose switches would depend on whose step is next. */
bt_err bt_pkg_check_overlap(const bt_pkg *p, bt_fault *fault);
/* BT_EARG naming the field when the package was not made from this model (id, dimensions) or for other kernels'
 * numbers. */
bt_err bt_pkg_check_model(const bt_pkg *p, const bt_model *m, bt_fault *fault);

/* How 8 bits hold the site's input. */
bt_int_range bt_pkg_site_range(const bt_pkg_site *s);

/* ---- writing ----
 * Constants go to the file as they are added; tables at the end. The file appears under its name only when it is
 * whole. */
typedef struct bt_pkg_writer bt_pkg_writer;
bt_err bt_pkg_writer_new(bt_pkg_writer **ret, const char *path, bt_fault *fault);
/* A writer that makes a sketch: a package in memory whose constants may have no bytes. */
bt_err bt_pkg_writer_sketch(bt_pkg_writer **ret, bt_fault *fault);
void bt_pkg_writer_free(bt_pkg_writer *w); /* NULL is fine; without finish, nothing remains */
/* The index of a constant with these bytes: a new one, or the one that has the same bytes already. The first failure
 * stays: later calls return BT_PKG_NONE and finish reports it. bytes NULL, for a sketch: a new constant of which only
 * the length is known. */
uint32_t bt_pkg_writer_const(bt_pkg_writer *w, bt_pkg_const_kind kind, const void *bytes, size_t len);
uint32_t bt_pkg_writer_tensor(bt_pkg_writer *w, const bt_pkg_tensor *t);
uint32_t bt_pkg_writer_site(bt_pkg_writer *w, const bt_pkg_site *s);
uint32_t bt_pkg_writer_program(bt_pkg_writer *w, const bt_pkg_program *p);
uint32_t bt_pkg_writer_row(bt_pkg_writer *w, const bt_pkg_row *r);
uint32_t bt_pkg_writer_fallback(bt_pkg_writer *w, const bt_pkg_fallback *f);
uint32_t bt_pkg_writer_session(bt_pkg_writer *w, const bt_pkg_session *s);
/* Puts a recipe into the header, or, where it is too long for that, into a constant that the header names. There is a
 * constant before it. */
void bt_pkg_writer_recipe(bt_pkg_writer *w, bt_pkg_header *header, const char *text);
/* header: everything but magic, version, sizes, digest, weights_bytes and tables, which are filled in. */
bt_err bt_pkg_writer_finish(bt_pkg_writer *w, const bt_pkg_header *header, bt_fault *fault);
/* Finishes a sketch, with its programs unpacked. Its digest is zeros, and so are the hashes of constants without bytes.
 * A sketch can be read and priced, not run. */
bt_err bt_pkg_writer_finish_sketch(bt_pkg **ret, bt_pkg_writer *w, const bt_pkg_header *header, bt_fault *fault);
#endif
