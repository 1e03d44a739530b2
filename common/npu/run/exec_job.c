/* One run of a program: its rows and memory, row-wise instructions as steps of the companion's pass, and the
 * shadow of planes. */
#include "npu/pkg/areas.h"
#include "npu/run/exec_private.h"
#include "device/time.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)BT_AREAS_MAX <= (int)BT_COMPANION_MAX_AREAS, "an instruction is one step");

bt_err bt_exec_routed_new(bt_exec_routed *ret, const bt_pkg_header *h, bt_fault *fault)
{
    const size_t copies = (size_t)h->max_seq * h->experts_used; /* the package's limits bound both */
    *ret = (bt_exec_routed){.begin = calloc((size_t)h->experts + 1, sizeof *ret->begin),
                            .row = calloc(copies, sizeof *ret->row),
                            .expert = calloc(copies, sizeof *ret->expert)};
    if (ret->begin && ret->row && ret->expert) return BT_OK;
    bt_exec_routed_done(ret);
    return bt_fail(fault, BT_ENOMEM, "out of memory for the rows of %u experts", h->experts);
}

void bt_exec_routed_done(bt_exec_routed *r)
{
    free(r->begin);
    free(r->row);
    free(r->expert);
    *r = (bt_exec_routed){0};
}

/* Fills the lists of a run's sequences; sequences that are padding have valid 0. */
static void list_sequences(bt_companion_seq *seq, bt_overflow **overflow, int32_t *ids, size_t batch,
                           const bt_exec_io *io)
{
    for (size_t b = 0; b < batch; b++) {
        const bt_exec_seq *s = &io->seq[b];
        seq[b] = (bt_companion_seq){0};
        overflow[b] = NULL;
        if (b >= io->seqs) continue;
        seq[b] = (bt_companion_seq){s->kv, s->pos0, s->valid};
        overflow[b] = s->overflow;
        if (s->ids) memcpy(ids + b * io->rows, s->ids, s->valid * sizeof *s->ids);
    }
}

bt_exec_job bt_exec_job_of(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena,
                           const bt_exec_io *io, bt_companion_seq *seq, bt_overflow **overflow, int32_t *ids)
{
    const size_t of_out[BT_PKG_OUTS] = {0, 1, io->rows};
    size_t real = 0;
    list_sequences(seq, overflow, ids, row->batch, io);
    for (size_t b = 0; b < io->seqs; b++) real += io->seq[b].valid;
    const uint32_t index = row->program[out];
    const bt_pkg_program *program = &bt_pkg_programs(x->pkg)[index];
    return (bt_exec_job){.x = x,
                         .program = program,
                         .inst = bt_pkg_code(x->pkg, index),
                         .fuse = bt_pkg_fuse(x->pkg, index),
                         .io = io,
                         .arena = arena,
                         .ids = ids,
                         .seqs = {seq, row->batch, io->rows, overflow},
                         .seq_out = of_out[out],
                         .rows = row->batch * io->rows,
                         .out = row->batch * of_out[out],
                         .routed = x->routed,
                         .real = real,
                         .real_out = out == BT_PKG_OUT_NONE   ? 0
                                     : out == BT_PKG_OUT_LAST ? io->seqs
                                                              : real};
}

bt_exec_job bt_exec_job_packed(bt_exec *x, const bt_pkg_row *row, void *arena, const bt_exec_io *io,
                               const bool *ends)
{
    size_t at = 0, out = 0;
    for (size_t b = 0; b < io->seqs; b++) {
        const bt_exec_seq *s = &io->seq[b];
        for (size_t k = 0; k < s->valid; k++, at++) {
            x->seq[at] = (bt_companion_seq){s->kv, s->pos0 + k, 1};
            x->overflow[at] = s->overflow;
            x->ids[at] = s->ids[k];
        }
        if (ends[b]) x->last[out++] = (uint32_t)at - 1;
    }
    for (size_t pad = at; pad < io->rows; pad++) {
        x->seq[pad] = (bt_companion_seq){0};
        x->overflow[pad] = NULL;
    }
    const uint32_t index = row->program[out ? BT_PKG_OUT_ALL : BT_PKG_OUT_NONE];
    return (bt_exec_job){.x = x,
                         .program = &bt_pkg_programs(x->pkg)[index],
                         .inst = bt_pkg_code(x->pkg, index),
                         .fuse = bt_pkg_fuse(x->pkg, index),
                         .io = io,
                         .arena = arena,
                         .ids = x->ids,
                         .seqs = {x->seq, io->rows, 1, x->overflow},
                         .seq_out = 1,
                         .rows = io->rows,
                         .out = out,
                         .routed = x->routed,
                         .real = at,
                         .real_out = out,
                         .last = x->last};
}

static bool is_finite(const float *x, size_t k, const bt_int_shadow *entry, uint32_t count)
{
    bool is = entry || bt_finite_below(x, k, __builtin_inff());
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are `count` entries */
    for (uint32_t e = 0; e < count && is; e++) is = bt_finite_below(&x[entry[e].k], 1, __builtin_inff());
    return is;
}

void bt_exec_job_look(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, const float *x, size_t k,
                      const bt_int_shadow *entry, uint32_t count)
{
    const bool is_out = bt_pkg_is_out(i);
    const size_t rows = is_out ? j->seq_out : j->seqs.rows;
    if (bt_pkg_is_by_expert(i)) r = j->routed.row[r];
    const size_t b = is_out && j->last ? j->last[r] : r / rows;
    const bt_companion_seq *seq = &j->seqs.seq[b];
    bt_overflow *o = j->seqs.overflow[b];
    /* a sequence's only row of OUT is made of its last token's row */
    const size_t row = is_out && j->seq_out == 1 ? seq->valid - 1 : r % rows;
    if (!o || row >= seq->valid || is_finite(x, k, entry, count)) return;
    bt_overflow_note(o, (bt_overflow_place){seq->pos0 + row, i->layer, BT_OVERFLOW_INPUT});
}

bt_pkg_slice bt_exec_job_slice(const bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_header *h = j->x->header;
    bt_pkg_slice s = bt_pkg_layout_slice(&h->layout, j->program->seq, h->heads, i->arg);
    const size_t end = s.row + s.rows < j->rows ? s.row + s.rows : j->rows;
    s.rows = s.row < end ? (uint32_t)(end - s.row) : 0;
    return s;
}

bt_exec_part bt_exec_job_part(const bt_exec_job *j, const bt_pkg_slice *s, size_t b)
{
    const bt_companion_seq *seq = &j->seqs.seq[b];
    const size_t first = b * j->seqs.rows, last = first + j->seqs.rows, slice_end = s->row + s->rows;
    const size_t row = first > s->row ? first : s->row, end = last < slice_end ? last : slice_end;
    const size_t real_end = first + seq->valid < end ? first + seq->valid : end;
    return (bt_exec_part){.row = row, .rows = row < end ? end - row : 0,
                          .real = row < real_end ? real_end - row : 0, .pos = seq->pos0 + row - first};
}

uint64_t bt_exec_job_attention_macs(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *s)
{
    const uint64_t of_pair = 2 * (uint64_t)s->heads * j->x->header->head_dim;
    uint64_t pairs = 0, rows = 0;
    for (size_t b = 0; b < j->seqs.batch; b++) {
        const bt_exec_part p = bt_exec_job_part(j, s, b);
        pairs += bt_time_pairs(p.pos, p.real, bt_pkg_window(j->x->header, i->layer));
        rows += p.real;
    }
    if (j->program->ctx && i->unit != BT_PKG_COMPANION)
        j->x->stats.masked_macs +=
            (rows * bt_pkg_columns(j->x->header, j->program, i->layer) - pairs) * of_pair;
    return pairs * of_pair;
}

static bool has_16_bits(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return i->site == BT_PKG_NONE || bt_exec_site(j->x, i)->bits == 16; /* no site: attention on s16 */
}

void bt_exec_count_macs(bt_exec_job *j, const bt_pkg_inst *i, uint64_t macs)
{
    bt_exec_stats *s = &j->x->stats;
    *(i->unit == BT_PKG_COMPANION ? &s->companion_macs : &s->npu_macs) += macs;
    if (i->unit == BT_PKG_NPU_FLOAT) s->npu_float_macs += macs;
    if (i->unit == BT_PKG_NPU && has_16_bits(j, i)) s->npu_int16_macs += macs;
}

void bt_exec_count_linear(bt_exec_job *j, const bt_pkg_inst *i, size_t rows, size_t real)
{
    const bt_pkg_part p = bt_exec_linear_part(j, i);
    bt_exec_count_macs(j, i, real * i->macs_per_row);
    if (bt_pkg_is_npu_linear(i))
        j->x->stats.tile_padding_macs +=
            bt_pkg_layout_tile_macs(&j->x->header->layout, rows, p.n, i->in_width);
}

uint32_t bt_exec_job_expert(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n, size_t *ret_rows)
{
    *ret_rows = n;
    if (!bt_pkg_is_by_expert(i)) return 0;
    const uint32_t expert = j->routed.expert[r];
    const size_t left = j->routed.begin[expert + 1] - r;
    *ret_rows = left < n ? left : n;
    return expert;
}

/* The numbers of an expert's rows; NULL: the rows are of none. */
static const bt_pkg_expert *expert_of(const bt_exec_job *j, const bt_pkg_inst *i, uint32_t expert)
{
    const bt_pkg_site *site = bt_exec_site(j->x, i);
    return bt_pkg_is_by_expert(i) ? bt_pkg_expert_of(j->x->pkg, site->layer, site->kind, expert) : NULL;
}

bt_int_range bt_exec_job_range(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n,
                               size_t *ret_rows)
{
    bt_int_range range = bt_pkg_site_range(bt_exec_site(j->x, i));
    const bt_pkg_expert *of = expert_of(j, i, bt_exec_job_expert(j, i, r, n, ret_rows));
    if (of) range.zero = of->zero;
    return range;
}

bt_exec_scale bt_exec_job_scale(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n,
                                size_t *ret_rows)
{
    const bt_pkg_site *site = bt_exec_site(j->x, i);
    const bt_pkg_expert *of = expert_of(j, i, bt_exec_job_expert(j, i, r, n, ret_rows));
    return of ? (bt_exec_scale){of->scale, of->inv_scale} : (bt_exec_scale){site->scale, site->inv_scale};
}

void bt_exec_job_step(bt_exec_job *j, const bt_pkg_inst *i, const float *x, bt_companion_step_fn *fn)
{
    const bt_areas a = bt_areas_of(i, bt_pkg_sites(j->x->pkg), j->program);
    bt_companion_area area[BT_AREAS_MAX];
    for (size_t n = 0; n < a.count; n++)
        area[n] = (bt_companion_area){bt_exec_at(j, a.area[n].at), a.area[n].stride, a.area[n].is_written};
    bt_companion_step(&j->x->companion, bt_exec_rows(j, i), i->out_width, x, area, a.count, fn, j, i);
}

bt_exec_shadow bt_exec_job_shadow(const bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_areas_shadow s = bt_areas_shadow_of(i, bt_pkg_sites(j->x->pkg), j->program);
    return (bt_exec_shadow){bt_exec_at(j, s.counts), bt_exec_at(j, s.entries)};
}

/* Drops the entries of columns that are not hot. Returns how many are left. */
static uint32_t keep_hot(bt_int_shadow *entry, uint32_t count, const uint8_t *hot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (hot[entry[i].k]) entry[kept++] = entry[i];
    return kept;
}

void bt_exec_job_shadow_made(bt_exec_job *j, const bt_pkg_inst *i, const bt_exec_shadow *s, size_t r0,
                             size_t n)
{
    const bt_pkg_site *site = bt_exec_site(j->x, i);
    const uint8_t *hot = site->shadow == BT_SHADOW_CHANNEL ? bt_exec_const(j->x, site->hot) : NULL;
    uint64_t sum = 0;
    for (size_t r = r0; r < r0 + n; r++) {
        if (hot) s->count[r] = keep_hot(s->entry + r * i->in_width, s->count[r], hot);
        if (bt_exec_is_real(j, i, r)) sum += s->count[r];
    }
    atomic_fetch_add_explicit(&j->x->shadow_entries, sum, memory_order_relaxed);
}
