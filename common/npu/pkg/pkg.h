#ifndef BT_NPU_PKG_H
#define BT_NPU_PKG_H
#include <stddef.h>
#include "base/err.h"
#include "npu/pkg/pkg_format.h"

typedef struct bt_pool bt_pool;           /* base/pool.h */
typedef struct bt_model bt_model;         /* model/model.h */
typedef struct bt_int_range bt_int_range; /* kernels/int_kernels.h */

/* Package files: the compiler writes a file once; whoever runs it maps it and checks it. */
typedef struct bt_pkg bt_pkg;

/* Maps the file and checks all of it: every count, offset, index, name and operand against the file and the arena,
 * every constant against its hash, and the digest. A package that was opened can be run without further checks.
 * BT_EFORMAT names what is wrong; BT_EVERSION: another version of the format; BT_EIO. */
bt_err bt_pkg_open(bt_pkg **ret, const char *path, bt_fault *fault);
/* As bt_pkg_open, checked by all threads of pool. */
bt_err bt_pkg_open_on(bt_pkg **ret, const char *path, bt_pool *pool, bt_fault *fault);
/* Reads the header and the tables alone. Checks that both are as they were written and that the header's numbers are in
 * range. Such a package can be described, not run. */
bt_err bt_pkg_look(bt_pkg **ret, const char *path, bt_fault *fault);
void bt_pkg_close(bt_pkg *p); /* NULL is fine */

/* All borrowed, valid until close. */
const bt_pkg_header *bt_pkg_header_of(const bt_pkg *p);
const char *bt_pkg_recipe(const bt_pkg *p); /* canonical, at most BT_RECIPE_MAX_TEXT - 1 characters */
const bt_pkg_const *bt_pkg_consts(const bt_pkg *p);
const bt_pkg_tensor *bt_pkg_tensors(const bt_pkg *p);
const bt_pkg_site *bt_pkg_sites(const bt_pkg *p);
const bt_pkg_row *bt_pkg_rows(const bt_pkg *p);
const bt_pkg_program *bt_pkg_programs(const bt_pkg *p);
const bt_pkg_fallback *bt_pkg_fallbacks(const bt_pkg *p);
const bt_pkg_session *bt_pkg_sessions(const bt_pkg *p);
/* The bytes of a constant. NULL for BT_PKG_NONE, and in a sketch for a constant without bytes. */
const void *bt_pkg_const_at(const bt_pkg *p, uint32_t index);
/* The instructions, [insts], and the memory plan, [places], of the program with this index, unpacked where the file
 * packs them. Not for a package that was only looked at. A sketch is asked by one thread at a time. */
const bt_pkg_inst *bt_pkg_code(const bt_pkg *p, uint32_t program);
const bt_pkg_place *bt_pkg_plan(const bt_pkg *p, uint32_t program);
/* Whether two programs have the same operators on the same units, one after the other. A sketch unpacks neither. */
bool bt_pkg_has_steps_of(const bt_pkg *p, uint32_t a, uint32_t b);
/* Finds the row with exactly this batch, seq within [seq_min, seq], and the smallest ctx >= end_tokens. BT_ELIMIT:
 * there is none; the fault names the nearest row. */
bt_err bt_pkg_find_row(const bt_pkg_row **ret, const bt_pkg *p, size_t batch, size_t seq, size_t end_tokens,
                       bt_fault *fault);
/* Finds the decode row (seq 1) for `seqs` sequences of up to end_tokens positions: the smallest batch that holds so
 * many, then the smallest ctx. The rest of the batch is padding. BT_ELIMIT: the package has no decode row, or none so
 * large; the fault names the nearest. */
bt_err bt_pkg_find_decode_row(const bt_pkg_row **ret, const bt_pkg *p, size_t seqs, size_t end_tokens, bt_fault *fault);
/* Whether chunks of a prompt may run beside each other (schedules fifo and ooo). BT_EARG: the recipe is llm-int8, which
 * keeps values outside the arena, or there are several sessions, whose switches would depend on which chunk goes on
 * next. */
bt_err bt_pkg_check_overlap(const bt_pkg *p, bt_fault *fault);
/* BT_EARG: the package was made from another model (id, dimensions), or for kernels of another numeric version; the
 * fault names the field. */
bt_err bt_pkg_check_model(const bt_pkg *p, const bt_model *m, bt_fault *fault);

/* The zero point and the least and greatest integer of the site's 8-bit input. */
bt_int_range bt_pkg_site_range(const bt_pkg_site *s);
/* An expert's numbers at a site of this kind (bt_site_kind); NULL: the package has no experts, or none reads it. */
const bt_pkg_expert *bt_pkg_expert_of(const bt_pkg *p, uint32_t layer, uint32_t kind, uint32_t expert);

/* ---- writing ----
 * Constants go to the file as they are added; the tables follow at the end. The file gets its name only when it is
 * whole. */
typedef struct bt_pkg_writer bt_pkg_writer;
bt_err bt_pkg_writer_new(bt_pkg_writer **ret, const char *path, bt_fault *fault);
/* Makes a writer of a sketch: a package in memory whose constants may have no bytes. */
bt_err bt_pkg_writer_sketch(bt_pkg_writer **ret, bt_fault *fault);
void bt_pkg_writer_free(bt_pkg_writer *w); /* NULL is fine; without finish, nothing remains */
/* Adds a constant and returns its index; bytes that are there already keep their index. bytes NULL (sketch only): a new
 * constant with a length alone. The first failure stays: later calls return BT_PKG_NONE and finish reports it. */
uint32_t bt_pkg_writer_const(bt_pkg_writer *w, bt_pkg_const_kind kind, const void *bytes, size_t len);
uint32_t bt_pkg_writer_tensor(bt_pkg_writer *w, const bt_pkg_tensor *t);
uint32_t bt_pkg_writer_site(bt_pkg_writer *w, const bt_pkg_site *s);
uint32_t bt_pkg_writer_program(bt_pkg_writer *w, const bt_pkg_program *p);
uint32_t bt_pkg_writer_row(bt_pkg_writer *w, const bt_pkg_row *r);
uint32_t bt_pkg_writer_fallback(bt_pkg_writer *w, const bt_pkg_fallback *f);
uint32_t bt_pkg_writer_session(bt_pkg_writer *w, const bt_pkg_session *s);
/* Puts a recipe into the header. A recipe too long for the header goes into a constant that the header names; at least
 * one constant was added before. */
void bt_pkg_writer_recipe(bt_pkg_writer *w, bt_pkg_header *header, const char *text);
/* Fills in the header's magic, version, sizes, digest, weights_bytes and tables; the caller sets everything else. */
bt_err bt_pkg_writer_finish(bt_pkg_writer *w, const bt_pkg_header *header, bt_fault *fault);
/* Finishes a sketch and unpacks its programs. The digest is zeros, and so are the hashes of constants without bytes. A
 * sketch can be read and priced, not run. */
bt_err bt_pkg_writer_finish_sketch(bt_pkg **ret, bt_pkg_writer *w, const bt_pkg_header *header, bt_fault *fault);
#endif
