/* One run of a program: its rows and memory, how row-wise instructions become steps of the companion's pass,
 * and the shadow of planes. */
#include "npu/pkg/areas.h"
#include "npu/run/exec_private.h"

_Static_assert((int)BT_AREAS_MAX <= (int)BT_COMPANION_MAX_AREAS, "an instruction is one step");

bt_exec_job bt_exec_job_of(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena,
                           const bt_exec_io *io)
{
    const uint32_t index = row->program[out];
    const bt_pkg_program *program = &bt_pkg_programs(x->pkg)[index];
    return (bt_exec_job){.x = x,
                         .program = program,
                         .inst = bt_pkg_code(x->pkg, index),
                         .fuse = bt_pkg_fuse(x->pkg, index),
                         .io = io,
                         .arena = arena,
                         .rows = io->rows,
                         .out = out == BT_PKG_OUT_NONE   ? 0
                                : out == BT_PKG_OUT_LAST ? 1
                                                         : io->rows,
                         .seq = {io->kv, io->pos0, io->valid}};
}

bt_pkg_slice bt_exec_job_slice(const bt_exec_job *j, const bt_pkg_inst *i)
{
    const bt_pkg_header *h = j->x->header;
    bt_pkg_slice s = bt_pkg_layout_slice(&h->layout, j->program->seq, h->heads, i->arg);
    const size_t end = s.row + s.rows < j->rows ? s.row + s.rows : j->rows;
    s.rows = s.row < end ? (uint32_t)(end - s.row) : 0;
    return s;
}

uint64_t bt_exec_job_attention_macs(bt_exec_job *j, const bt_pkg_slice *s, uint64_t real)
{
    const uint64_t pairs = real * (j->io->pos0 + s->row) + real * (real + 1) / 2,
                   of_pair = 2 * (uint64_t)s->heads * j->x->header->head_dim;
    if (j->program->ctx) j->x->stats.masked_macs += (real * j->program->ctx - pairs) * of_pair;
    return pairs * of_pair;
}

static bool has_16_bits(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return i->site == BT_PKG_NONE || bt_exec_site(j->x, i)->bits == 16; /* without a site: attention on s16 */
}

void bt_exec_count_macs(bt_exec_job *j, const bt_pkg_inst *i, uint64_t macs)
{
    bt_exec_stats *s = &j->x->stats;
    *(i->unit == BT_PKG_COMPANION ? &s->companion_macs : &s->npu_macs) += macs;
    if (i->unit == BT_PKG_NPU_FLOAT) s->npu_float_macs += macs;
    if (i->unit == BT_PKG_NPU && has_16_bits(j, i)) s->npu_int16_macs += macs;
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

/* Drops the entries of columns that are not hot from entry[count]; how many are left. */
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
    const size_t real = bt_exec_real_rows(j, i);
    uint64_t sum = 0;
    for (size_t r = r0; r < r0 + n; r++) {
        if (hot) s->count[r] = keep_hot(s->entry + r * i->in_width, s->count[r], hot);
        if (r < real) sum += s->count[r];
    }
    atomic_fetch_add_explicit(&j->x->shadow_entries, sum, memory_order_relaxed);
}
