#ifndef BT_NPU_PKG_PRIVATE_H
#define BT_NPU_PKG_PRIVATE_H
#include <stdbool.h>
#include "base/file.h"
#include "base/pool.h"
#include "npu/pkg/pkg.h"

/* Package files from inside: for pkg*.c, and for tests that make damaged ones. Every file stands on those before it:
 *
 *   pkg_format.h, pkg_names.c   what lies in the file, and its names
 *   pkg_tables.c                header and tables of an opened package
 *   pkg_check_data.c            whether header, tensors and sites hold possible numbers
 *   pkg_check_code.c            ... and the programs
 *   pkg_check.c                 the whole check
 *   unpack.c                    packed programs as they were before
 *   areas.c, fuse.c             which bytes an instruction touches; which instructions run as one
 *   pkg_read.c                  opening; pkg_write.c, which needs no check */
typedef struct bt_fuse_list bt_fuse_list;
typedef struct bt_unpacked bt_unpacked;
typedef struct bt_pkg_kept bt_pkg_kept;
struct bt_pkg {
    const uint8_t *bytes; /* of a sketch its header alone */
    bt_pkg_kept *kept;    /* of a sketch, owned; else NULL */
    size_t len;
    bool mapped;           /* bytes is our mapping; else the caller's */
    bt_file_state state;   /* settled: of a mapped file */
    bool is_known;         /* its content was compared with its hashes before */
    bt_unpacked *unpacked; /* NULL: no program is packed, or only looked at */
    bt_fuse_list *fuses;   /* NULL: only looked at */
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
/* What a sketch has instead of a file; all owned. */
struct bt_pkg_kept {
    bt_pkg_header header;
    void *table[BT_PKG_TABLES];
    void **constant; /* [constants]; NULL: it has no bytes */
    size_t constants;
};
static inline bt_pkg_table *bt_pkg_table_of(bt_pkg_header *h, bt_pkg_table_id id) { return &h->consts + id; }

static inline uint64_t bt_pkg_align(uint64_t n) { return (n + BT_PKG_ALIGN - 1) / BT_PKG_ALIGN * BT_PKG_ALIGN; }

/* The digest of a header and its tables, table[i] with table i's count elements. */
void bt_pkg_digest(uint8_t ret[16], const bt_pkg_header *h, const void *const table[BT_PKG_TABLES]);
/* Adds to refs[consts] how often the header and the tables name each constant; indices past the end are passed over. */
void bt_pkg_count_refs(uint32_t *refs, const bt_pkg_header *h, const bt_pkg_tensor *tensors, const bt_pkg_site *sites,
                       const bt_pkg_program *programs);

/* ---- pkg_check_data.c ---- */
/* Calls check for each index in [0, count) on all threads, with no fault, then once more for the first that was
 * refused, to say why. */
typedef bt_err bt_pkg_check_fn(const bt_pkg *p, uint32_t index, bt_fault *fault);
bt_err bt_pkg_check_each(const bt_pkg *p, uint32_t count, bt_pkg_check_fn *check, bt_pool *pool, bt_fault *fault);
/* The header's numbers, each in its range; then the header's constants, tensors and sites with theirs. */
bt_err bt_pkg_check_dimensions(const bt_pkg *p, bt_fault *fault);
bt_err bt_pkg_check_data(const bt_pkg *p, bt_pool *pool, bt_fault *fault);
/* What a weight maps in this model, k inputs to n outputs (a vector: k = 1); n = 0: none of ours. */
void bt_pkg_weight_shape(const bt_pkg_header *h, uint32_t weight, uint32_t *n, uint32_t *k);
bool bt_pkg_is_vector(uint32_t weight);

/* ---- unpack.c ---- */
/* Unpacks the programs that are pieces, each distinct list once, after the constants were checked. It checks every
 * index, count and number of a piece; pkg_check_code.c checks the unpacked program as if that lay in the file.
 * BT_EFORMAT naming the program and the piece; BT_ENOMEM. *ret NULL: none is packed. */
bt_err bt_unpacked_new(bt_unpacked **ret, const bt_pkg *p, bt_fault *fault);
void bt_unpacked_free(bt_unpacked *u); /* NULL is fine */
bool bt_pkg_is_packed(const bt_pkg *p, uint32_t program);

/* ---- pkg_check_code.c: the programs, after everything else was checked ---- */
bt_err bt_pkg_check_code(const bt_pkg *p, bt_fault *fault);

/* ---- pkg_check.c ---- */
/* Checks where header, constants and tables lie. Afterwards the tables can be read, though not trusted. */
bt_err bt_pkg_check_layout(const bt_pkg *p, bt_fault *fault);
/* Checks layout, digest, the header's numbers and the texts: the header and the tables are those that were written, and
 * can be shown. */
bt_err bt_pkg_check_tables(const bt_pkg *p, bt_fault *fault);
/* Checks everything: layout, digest, every field, every constant, every program, which is unpacked first. The bytes of
 * weights are looked at once for each state of the file (base/checked.h). The fault is the same with any number of
 * threads. */
bt_err bt_pkg_check(bt_pkg *p, bt_pool *pool, bt_fault *fault);

/* ---- pkg_read.c ---- */
/* A package over bytes that the caller keeps, 64-byte aligned. is_whole: checked as bt_pkg_open does, else as
 * bt_pkg_look. state: that of the file which the bytes are; NULL: they are no file. BT_EARG: not aligned. */
bt_err bt_pkg_from_bytes(bt_pkg **ret, const void *bytes, size_t len, const bt_file_state *state, bool is_whole,
                         bt_pool *pool, bt_fault *fault);

void bt_pkg_kept_free(bt_pkg_kept *k); /* NULL is fine */
/* Takes k, in success and in failure. */
bt_err bt_pkg_of_kept(bt_pkg **ret, bt_pkg_kept *k, bt_fault *fault);

/* ---- fuse.c: what bt_pkg_fuse finds, of a package that was checked. BT_ENOMEM ---- */
bt_err bt_fuse_list_new(bt_fuse_list **ret, const bt_pkg *p, bt_fault *fault);
void bt_fuse_list_free(bt_fuse_list *l); /* NULL is fine */
#endif
