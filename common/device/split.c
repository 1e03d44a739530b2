/* Prices each cut as it would run, and takes the best. */
#include "device/split.h"

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The part of m that has so many rows and outputs. */
static bt_time_matrix part(const bt_time_matrix *m, uint64_t rows, uint64_t outputs)
{
    bt_time_matrix p = *m;
    p.rows = rows;
    p.outputs = outputs;
    p.weight_bytes = bt_time_scale(m->weight_bytes, outputs, m->outputs);
    p.spill_bytes = bt_time_scale(bt_time_scale(m->spill_bytes, outputs, m->outputs), rows, m->rows);
    return p;
}

static uint64_t time_of(const bt_profile *p, const bt_time_matrix *m)
{
    return m->rows && m->outputs ? bt_time_of_matrix(p, m) : 0;
}

/* Bytes that a part reads and writes. */
static uint64_t bytes_of(const bt_time_matrix *m)
{
    if (!m->rows || !m->outputs) return 0;
    const uint64_t weights = m->weight_bytes
                                 ? m->weight_bytes
                                 : bt_time_times(m->inputs, bt_time_scale(m->outputs, m->weight_bits, 8));
    return bt_time_plus(weights,
                        bt_time_times(m->rows, bt_time_scale(m->inputs + m->outputs, m->input_bits, 8)));
}

static bt_split_way way_of(const bt_time_matrix *m, uint64_t rows, uint64_t outputs)
{
    if (!rows) return BT_SPLIT_COMPANION;
    if (rows == m->rows) return outputs == m->outputs ? BT_SPLIT_NPU : BT_SPLIT_OUTPUTS;
    return outputs == m->outputs ? BT_SPLIT_ROWS : BT_SPLIT_BOTH;
}

bt_split bt_split_at(const bt_profile *npu, const bt_profile *companion, const bt_time_matrix *m,
                     uint64_t rows, uint64_t outputs)
{
    const bt_time_matrix own = part(m, rows, outputs), below = part(m, m->rows - rows, m->outputs);
    bt_time_matrix beside = part(m, rows, m->outputs - outputs);
    bt_split s = {.way = way_of(m, rows, outputs), .rows = rows, .outputs = outputs};
    beside.spill_bytes = 0; /* what the NPU's memory on chip cannot hold is the NPU's alone */
    bt_time_matrix rest = below;
    rest.spill_bytes = 0;
    s.npu_ns = time_of(npu, &own);
    s.companion_ns = bt_time_plus(time_of(companion, &beside), time_of(companion, &rest));
    s.ns = most(s.npu_ns, s.companion_ns);
    if (s.way == BT_SPLIT_NPU) return s;
    const uint64_t bytes = bt_time_plus(bytes_of(&beside), bytes_of(&rest));
    if (s.way != BT_SPLIT_COMPANION)
        s.memory_ns = bt_time_two_engines(&npu->time, bytes_of(&own), npu->time.memory_bytes_per_us, bytes,
                                          companion->time.memory_bytes_per_us);
    const uint64_t written =
        bt_time_plus(bt_time_times(beside.rows, bt_time_scale(beside.outputs, m->input_bits, 8)),
                     bt_time_times(rest.rows, bt_time_scale(rest.outputs, m->input_bits, 8)));
    s.join_ns = bt_time_plus(bt_time_sync(&npu->time, &companion->time),
                             bt_time_of(written, npu->boundary_bytes_per_us));
    s.ns = bt_time_plus(most(s.ns, s.memory_ns), s.join_ns);
    return s;
}

/* Every cut of the outputs, with so many rows for the NPU. */
static void try_rows(bt_split *best, const bt_profile *npu, const bt_profile *companion,
                     const bt_time_matrix *m, uint64_t rows)
{
    const uint64_t tile = npu->tile_cols ? npu->tile_cols : 1;
    for (uint64_t n = tile;; n += tile) {
        const bool is_last = n >= m->outputs;
        const bt_split s = bt_split_at(npu, companion, m, rows, is_last ? m->outputs : n);
        if (s.ns < best->ns || (s.ns == best->ns && s.way < best->way)) *best = s;
        if (is_last) return;
    }
}

bt_split bt_split_solve(const bt_profile *npu, const bt_profile *companion, const bt_time_matrix *m)
{
    const uint64_t tile = npu->tile_input_rows ? npu->tile_input_rows : 1;
    const uint64_t whole = m->rows / tile * tile;
    const bt_split alone = bt_split_at(npu, companion, m, 0, 0);
    bt_split best = bt_split_at(npu, companion, m, m->rows, m->outputs);
    if (alone.ns < best.ns) best = alone;
    try_rows(&best, npu, companion, m, m->rows);
    if (whole && whole < m->rows) try_rows(&best, npu, companion, m, whole);
    for (uint64_t rows = tile; rows < whole; rows *= 2) try_rows(&best, npu, companion, m, rows);
    return best;
}
