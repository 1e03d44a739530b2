#ifndef BT_NPU_PKG_PRIVATE_H
#define BT_NPU_PKG_PRIVATE_H
#include <stdbool.h>
#include "base/file.h"
#include "base/pool.h"
#include "npu/pkg/pkg.h"

/* The declarations that the files of packages share, for pkg*.c and for tests that damage packages. Every file stands
 * on those before it:
 *
 *   pkg_format.h, pkg_names.c   what lies in the file, and its names
 *   pkg_tables.c                header and tables of an opened package
 *   pkg_check_data.c            the check of header, tensors and sites
 *   pkg_check_code.c            the check of programs
 *   pkg_check.c                 the whole check
 *   unpack.c                    packed programs as lists of instructions
 *   areas.c, fuse.c             which bytes an instruction touches; which instructions run as one
 *   pkg_read.c                  opening
 *   pkg_write.c                 writing, which needs no check */
typedef struct bt_fuse_list bt_fuse_list;
typedef struct bt_unpacked bt_unpacked;
typedef struct bt_pkg_kept bt_pkg_kept;
struct bt_pkg {
    const uint8_t *bytes; /* the file; of a sketch the header alone */
    bt_pkg_kept *kept;    /* what a sketch holds, owned; NULL: not a sketch */
    size_t len;
    bool mapped;           /* bytes is a mapping that the package owns; else bytes belongs to the caller */
    bt_file_state state;   /* of a mapped file, once the file has settled */
    bool is_known;         /* the constants of this file state were compared with their hashes before */
    bt_unpacked *unpacked; /* NULL: no program is packed, or the package was only looked at */
    bt_fuse_list *fuses;   /* NULL: a sketch, or only looked at */
};

/* ---- pkg_tables.c ---- */
typedef enum bt_pkg_table_id {
    BT_PKG_TABLE_CONSTS,
    BT_PKG_TABLE_TENSORS,
    BT_PKG_TABLE_SITES,
    BT_PKG_TABLE_ROWS,
    BT_PKG_TABLE_PROGRAMS,
    BT_PKG_TABLE_FALLBACKS,
    BT_PKG_TABLE_SESSIONS,
    BT_PKG_TABLES
} bt_pkg_table_id;
typedef struct bt_pkg_table_rule {
    const char *name;
    uint32_t elem_bytes, max_count;
} bt_pkg_table_rule;
extern const bt_pkg_table_rule bt_pkg_table_rules[BT_PKG_TABLES];
/* The contents of a sketch in place of a file; all owned. */
struct bt_pkg_kept {
    bt_pkg_header header;
    void *table[BT_PKG_TABLES];
    void **constant; /* [constants]; NULL: the constant has no bytes */
    size_t constants;
};
static inline bt_pkg_table *bt_pkg_table_of(bt_pkg_header *h, bt_pkg_table_id id) { return &h->consts + id; }

static inline uint64_t bt_pkg_align(uint64_t n) { return (n + BT_PKG_ALIGN - 1) / BT_PKG_ALIGN * BT_PKG_ALIGN; }

/* The digest of a header and its tables, table[i] with table i's count elements. */
void bt_pkg_digest(uint8_t ret[16], const bt_pkg_header *h, const void *const table[BT_PKG_TABLES]);
/* Adds to refs[consts] how often the header and the tables name each constant; indices beyond the constants are
 * skipped. */
void bt_pkg_count_refs(uint32_t *refs, const bt_pkg_header *h, const bt_pkg_tensor *tensors, const bt_pkg_site *sites,
                       const bt_pkg_program *programs);

/* ---- pkg_check_data.c ---- */
/* Calls check for each index in [0, count) on all threads, without a fault. Where some are refused, check is called
 * once more for the first of them, with the fault. */
typedef bt_err bt_pkg_check_fn(const bt_pkg *p, uint32_t index, bt_fault *fault);
bt_err bt_pkg_check_each(const bt_pkg *p, uint32_t count, bt_pkg_check_fn *check, bt_pool *pool, bt_fault *fault);
/* dimensions: checks each number of the header against its range. data: checks the header's constants, then tensors and
 * sites with their constants. */
bt_err bt_pkg_check_dimensions(const bt_pkg *p, bt_fault *fault);
bt_err bt_pkg_check_data(const bt_pkg *p, bt_pool *pool, bt_fault *fault);
/* The shape of a weight in this model: k inputs, n outputs (a vector: k = 1); n = 0: no weight that a package holds. */
void bt_pkg_weight_shape(const bt_pkg_header *h, uint32_t weight, uint32_t *n, uint32_t *k);
bool bt_pkg_is_vector(uint32_t weight);

/* ---- unpack.c ---- */
/* Unpacks the programs that are stored as pieces, each distinct list of pieces once; those of a sketch when they are
 * asked for. The constants were checked before. Checks every index, count and number of a piece; pkg_check_code.c then
 * checks the unpacked program as any other. *ret NULL: no program is packed. BT_EFORMAT names the program and the
 * piece; BT_ENOMEM. */
bt_err bt_unpacked_new(bt_unpacked **ret, const bt_pkg *p, bt_fault *fault);
void bt_unpacked_free(bt_unpacked *u); /* NULL is fine */
bool bt_pkg_is_packed(const bt_pkg *p, uint32_t program);

/* ---- pkg_check_code.c: checks the programs, after everything else ---- */
bt_err bt_pkg_check_code(const bt_pkg *p, bt_fault *fault);

/* ---- pkg_check.c ---- */
/* Checks where header, constants and tables lie. Afterwards the tables can be read; their contents are not checked. */
bt_err bt_pkg_check_layout(const bt_pkg *p, bt_fault *fault);
/* Checks the layout, the digest, the header's numbers and the texts. Afterwards header and tables are as they were
 * written and can be shown. */
bt_err bt_pkg_check_tables(const bt_pkg *p, bt_fault *fault);
/* Checks everything: layout, digest, every field, every constant, and every program, which is unpacked first. The bytes
 * of weights are compared with their hashes once for each state of the file (base/checked.h). The fault is the same
 * with any number of threads. */
bt_err bt_pkg_check(bt_pkg *p, bt_pool *pool, bt_fault *fault);

/* ---- pkg_read.c ---- */
/* Makes a package over bytes that the caller keeps, 64-byte aligned. is_whole: checked as bt_pkg_open does; else as
 * bt_pkg_look does. state: the state of the file that holds the bytes; NULL: the bytes are from no file. BT_EARG: the
 * bytes are not aligned. */
bt_err bt_pkg_from_bytes(bt_pkg **ret, const void *bytes, size_t len, const bt_file_state *state, bool is_whole,
                         bt_pool *pool, bt_fault *fault);

void bt_pkg_kept_free(bt_pkg_kept *k); /* NULL is fine */
/* Makes a package of a sketch's contents. Takes ownership of k, on success and on failure. */
bt_err bt_pkg_of_kept(bt_pkg **ret, bt_pkg_kept *k, bt_fault *fault);

/* ---- fuse.c: the answers of bt_pkg_fuse for a package that was checked. BT_ENOMEM ---- */
bt_err bt_fuse_list_new(bt_fuse_list **ret, const bt_pkg *p, bt_fault *fault);
void bt_fuse_list_free(bt_fuse_list *l); /* NULL is fine */
#endif
