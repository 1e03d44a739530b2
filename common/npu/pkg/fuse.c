/* The instructions that run as one, found in two walks over a program: backwards for the last reads of
 * values, then forwards over the groups of LINEARs. */
#include "npu/pkg/fuse.h"
#include "base/num.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_private.h"

#include <stdlib.h>

/* ---- last reads ---- */

/* Offsets that a later instruction reads before any other writes there. A checked program has at most
 * BT_PKG_MAX_LIVE values at once, each of at most three parts. Beyond that, every offset counts as read
 * later. */
enum { MAX_OFFSETS = 3 * BT_PKG_MAX_LIVE };
typedef struct read_later {
    uint64_t offset[MAX_OFFSETS];
    size_t count;
    bool is_full;
} read_later;

static size_t find(const read_later *l, uint64_t offset)
{
    size_t n = 0;
    while (n < l->count && l->offset[n] != offset) n++;
    return n;
}

static bool is_read(const read_later *l, uint64_t offset) { return l->is_full || find(l, offset) < l->count; }

static void on_write(read_later *l, uint64_t offset)
{
    const size_t n = find(l, offset);
    if (n < l->count) l->offset[n] = l->offset[--l->count];
}

static void on_read(read_later *l, uint64_t offset)
{
    if (offset == BT_PKG_NOWHERE || find(l, offset) < l->count) return;
    if (l->count == MAX_OFFSETS) l->is_full = true;
    else l->offset[l->count++] = offset;
}

static void find_last_reads(bt_fuse *ret, const bt_pkg_inst *inst, size_t insts)
{
    read_later l = {.count = 0};
    for (size_t n = insts; n-- > 0;) {
        const bt_pkg_inst *i = &inst[n];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are insts of them */
        ret[n] = (bt_fuse){.last_in0 = !is_read(&l, i->in0), .last_in1 = !is_read(&l, i->in1)};
        on_write(&l, i->out);
        if (bt_areas_makes_planes(i)) on_write(&l, i->in1), on_write(&l, i->aux);
        else on_read(&l, i->in1), on_read(&l, i->aux);
        on_read(&l, i->in0);
    }
}

/* ---- groups ---- */

static bool is_same_shape(const bt_pkg_inst *a, const bt_pkg_inst *b)
{
    return a->out_rows == b->out_rows && a->out_width == b->out_width;
}

/* Up to how many rows b writes nothing that a reads. */
static uint32_t rows_apart(const bt_areas *a, const bt_areas *b)
{
    uint64_t rows = UINT32_MAX;
    for (size_t r = 0; r < a->count; r++)
        for (size_t w = 0; w < b->count; w++) {
            const bt_area *read = &a->area[r], *written = &b->area[w];
            if (read->is_written || !written->is_written || read->at == BT_PKG_NOWHERE ||
                written->at == BT_PKG_NOWHERE)
                continue;
            const bt_area *low = read->at < written->at ? read : written;
            const uint64_t gap = read->at < written->at ? written->at - read->at : read->at - written->at;
            if (low->stride && gap / low->stride < rows) rows = gap / low->stride;
        }
    return (uint32_t)rows;
}

/* Finds what is fused with the group that begins at inst[n]. At least one instruction follows the group. */
static void find_group(bt_fuse *ret, const bt_pkg_inst *inst, const bt_pkg_program *program,
                       const bt_pkg_tensor *tensors, const bt_pkg_site *sites, uint32_t ffn, size_t n)
{
    const bt_pkg_inst *i = &inst[n];
    const size_t next = n + i->group, after = next + 1;
    const bt_pkg_inst *then = &inst[next], *quantise = &inst[after];
    /* An instruction on NPU_FLOAT rounds what it writes; an epilogue does not round, so it fuses only the
       companion's. */
    if (i->out == BT_PKG_NOWHERE || then->unit != BT_PKG_COMPANION || !is_same_shape(i, then) ||
        !ret[next].last_in1) /* NOLINT(clang-analyzer-core.uninitialized.Branch): find_last_reads sets all */
        return;
    if (i->group == 1 && then->op == BT_PKG_ADD && then->in1 == i->out && then->out != i->out)
        ret[n].then = BT_FUSE_ADD;
    if (i->group != 2 || then->op != BT_PKG_SILU_MUL || then->out != i[0].out || then->in1 != i[1].out ||
        !is_same_shape(&i[1], then) || tensors[i[0].tensor].bits != tensors[i[1].tensor].bits)
        return;
    ret[n].then = BT_FUSE_SILU_MUL;
    if (after == program->insts || quantise->op != BT_PKG_QUANTISE || quantise->unit != BT_PKG_COMPANION ||
        quantise->in0 != i->out || !is_same_shape(i, quantise) || quantise->in_width > ffn ||
        !ret[after].last_in0)
        return;
    const bt_areas read = bt_areas_of(i, sites, program), written = bt_areas_of(quantise, sites, program);
    ret[n].quantise_rows = rows_apart(&read, &written);
}

void bt_fuse_find(bt_fuse *ret, const bt_pkg_inst *inst, const bt_pkg_program *program,
                  const bt_pkg_tensor *tensors, const bt_pkg_site *sites, uint32_t ffn)
{
    find_last_reads(ret, inst, program->insts);
    for (size_t n = 0; n < program->insts; n += inst[n].group ? inst[n].group : 1)
        if (inst[n].op == BT_PKG_LINEAR && inst[n].group < program->insts - n)
            find_group(ret, inst, program, tensors, sites, ffn, n);
}

/* ---- a package ---- */

struct bt_fuse_list {
    bt_fuse *all;   /* of all programs, one after the other */
    size_t first[]; /* [programs] */
};

bt_err bt_fuse_list_new(bt_fuse_list **ret, const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_program *program = bt_pkg_programs(p);
    size_t insts = 0, bytes = 0;
    bool fits = bt_mul_size(&bytes, h->programs.count, sizeof(size_t)) &&
                bt_add_size(&bytes, bytes, sizeof(bt_fuse_list));
    bt_fuse_list *l = fits ? malloc(bytes) : NULL;
    for (uint32_t i = 0; i < h->programs.count && l && fits; i++) {
        l->first[i] = insts;
        fits = bt_add_size(&insts, insts, program[i].insts);
    }
    fits = fits && bt_mul_size(&bytes, insts, sizeof(bt_fuse));
    if (l) l->all = fits ? malloc(bytes) : NULL;
    if (!l || (!l->all && insts)) {
        bt_fuse_list_free(l);
        return bt_fail(fault, BT_ENOMEM, "out of memory listing what runs as one");
    }
    for (uint32_t i = 0; i < h->programs.count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): fits: all are set */
        bt_fuse_find(l->all + l->first[i], bt_pkg_code(p, i), &program[i], bt_pkg_tensors(p), bt_pkg_sites(p),
                     h->ffn);
    *ret = l;
    return BT_OK;
}

void bt_fuse_list_free(bt_fuse_list *l)
{
    if (!l) return;
    free(l->all);
    free(l);
}

const bt_fuse *bt_pkg_fuse(const bt_pkg *p, uint32_t program)
{
    return p->fuses ? p->fuses->all + p->fuses->first[program] : NULL;
}
