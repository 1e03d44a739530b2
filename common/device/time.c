/* The terms of the time model, each once. Products are taken in 128 bits. */
#include "device/time.h"
#include "base/wide.h"

uint64_t bt_time_scale_wide(uint64_t n, uint64_t mul, uint64_t div)
{
    return bt_wide_clamp(bt_wide_div(bt_wide_add(bt_wide_mul(n, mul), bt_wide_of(div - 1)), div), INT64_MAX);
}

static uint64_t times(uint64_t a, uint64_t b) { return bt_time_times(a, b); }
static uint64_t over(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t or_memory(const bt_profile_time *t, uint64_t rate)
{
    return rate ? rate : t->memory_bytes_per_us;
}

uint64_t bt_time_sync(const bt_profile_time *a, const bt_profile_time *b)
{
    return most(a->sync_ns, b->sync_ns);
}

uint64_t bt_time_weight_rate(const bt_profile_time *t) { return or_memory(t, t->weight_bytes_per_us); }
uint64_t bt_time_activation_rate(const bt_profile_time *t)
{
    return or_memory(t, t->activation_bytes_per_us);
}
uint64_t bt_time_decode_rate(const bt_profile_time *t)
{
    return t->decode_bytes_per_us ? t->decode_bytes_per_us : bt_time_weight_rate(t);
}

/* By 1000. Weights of 4 bits under inputs of 8 take the int4 rate where there is one. */
static uint32_t speed_up(const bt_profile_time *t, uint32_t input_bits, uint32_t weight_bits)
{
    if (input_bits > 8) return 1000;
    if (weight_bits == 4 && t->int4_permille) return t->int4_permille;
    return t->int8_permille ? t->int8_permille : 1000;
}

uint64_t bt_time_peak(const bt_profile_time *t, uint32_t input_bits, uint32_t weight_bits)
{
    return bt_time_scale(t->f16_ops_per_us, speed_up(t, input_bits, weight_bits), 1000);
}

uint64_t bt_time_float_peak(const bt_profile_time *t, uint32_t bits)
{
    const uint32_t permille = bits == 4 ? t->fp4_permille : bits == 8 ? t->fp8_permille : 0;
    return permille ? bt_time_scale(t->f16_ops_per_us, permille, 1000) : t->f16_ops_per_us;
}

/* Between two points the share is a straight line; before the first and behind the last it is theirs. It is
 * exact: a share in whole thousandths would jump, and more rows would take less time. */
typedef struct part {
    uint64_t share, of; /* permille: share / of */
} part;

static part share_at(const bt_profile_time *t, uint64_t rows)
{
    uint32_t i = 0;
    while (i < t->points && t->efficiency[i].rows < rows) i++;
    if (!t->points) return (part){1000, 1};
    if (!i || i == t->points) return (part){t->efficiency[i ? i - 1 : 0].permille, 1};
    const uint64_t before = rows - t->efficiency[i - 1].rows, behind = t->efficiency[i].rows - rows;
    return (part){t->efficiency[i - 1].permille * behind + t->efficiency[i].permille * before,
                  before + behind};
}

static uint64_t rate_at(const bt_profile_time *t, uint64_t peak, uint64_t rows)
{
    const part p = share_at(t, rows);
    return most(1, bt_time_scale(peak, p.share, 1000 * p.of));
}

uint64_t bt_time_rate(const bt_profile_time *t, uint64_t rows, uint32_t input_bits, uint32_t weight_bits)
{
    return rate_at(t, bt_time_peak(t, input_bits, weight_bits), rows);
}

bt_time_unit bt_time_unit_of(const bt_profile_time *t, uint64_t ops, uint64_t peak, uint64_t devices)
{
    bt_time_unit u = {.ops = ops, .peak = peak, .devices = devices};
    if (t->points < 2) u.rate = rate_at(t, peak, 1);
    else u.ns = bt_time_scale(times(ops, 1000000), UINT64_C(1) << BT_TIME_UNIT_BITS, times(peak, devices));
    return u;
}

uint64_t bt_time_of_units(const bt_profile_time *t, const bt_time_unit *u, uint64_t n, uint64_t rows)
{
    if (u->rate) {
        const uint64_t ops = times(u->ops, n);
        return bt_time_of(u->devices > 1 ? ops / u->devices : ops, u->rate);
    }
    const part p = share_at(t, rows);
    return bt_time_scale(u->ns, times(n, p.of), p.share << BT_TIME_UNIT_BITS);
}

uint64_t bt_time_rows(const bt_profile_time *t, uint64_t rows, uint32_t input_bits)
{
    const uint32_t is_8 = input_bits <= 8 && t->tile_int8_permille, tile = t->tile_rows;
    if (!tile || rows <= tile) return rows;
    const uint64_t whole = times(over(rows, tile), tile);
    return bt_time_plus(rows,
                        bt_time_scale(whole - rows, is_8 ? t->tile_int8_permille : t->tile_permille, 1000));
}

uint64_t bt_time_program_rows(const bt_profile_time *t, uint64_t rows)
{
    if (!t->programs) return rows;
    const uint32_t last = t->program_rows[t->programs - 1];
    const uint64_t rest = rows % last;
    uint32_t i = 0;
    while (t->program_rows[i] < rest) i++;
    return rest ? bt_time_plus(rows - rest, t->program_rows[i]) : rows;
}

/* 0 stands for all. */
static uint32_t apart(uint32_t a, uint32_t b) { return !a ? 0 : a > b ? a - b : b - a; }

const bt_profile_attention *bt_time_step_attention(const bt_profile_time *t, uint32_t head_dim,
                                                   uint32_t group)
{
    const bt_profile_attention *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t->kernels; i++) {
        const bt_profile_attention *k = &t->attention[i];
        const uint64_t by = (uint64_t)apart(k->head_dim, head_dim) << 32 | apart(k->group, group);
        if (by < least) least = by, best = k;
    }
    return best;
}

static uint64_t compute(const bt_profile *p, const bt_time_matrix *m, uint64_t passing, uint64_t staying)
{
    const bt_profile_time *t = &p->time;
    if (!t->array_rows) {
        const uint64_t ops = times(2 * m->inputs, staying);
        const bt_time_unit row = bt_time_unit_of(t, ops, bt_time_peak(t, m->input_bits, m->weight_bits), 1);
        return bt_time_of_units(t, &row, passing, passing);
    }
    const uint64_t folds = times(over(m->inputs, t->array_rows), over(staying, t->array_cols));
    const uint64_t cycles = times(folds, t->array_rows + t->array_cols - 2 + most(passing, 4));
    const uint64_t f16 = bt_time_scale(over(cycles, t->arrays), 1000000, t->clock_khz);
    return bt_time_scale(f16, 1000, speed_up(t, m->input_bits, m->weight_bits));
}

uint64_t bt_time_palette_bytes(uint64_t inputs, uint64_t outputs, uint32_t index_bits)
{
    return times(inputs, bt_time_scale(outputs, index_bits, 8));
}

uint64_t bt_time_of_matrix(const bt_profile *p, const bt_time_matrix *m)
{
    const bt_profile_time *t = &p->time;
    const uint64_t tile = p->tile_input_rows ? p->tile_input_rows : 1;
    const uint64_t weights =
        m->weight_bytes ? m->weight_bytes : times(m->inputs, bt_time_scale(m->outputs, m->weight_bits, 8));
    const uint64_t input = times(m->rows, bt_time_scale(m->inputs, m->input_bits, 8)),
                   output = times(m->rows, bt_time_scale(m->outputs, m->input_bits, 8));
    const uint64_t moving = m->is_weights_pass ? m->outputs : m->rows,
                   staying = m->is_weights_pass ? m->rows : m->outputs;
    const uint64_t passing = times(over(moving, tile), tile);
    uint64_t ns =
        compute(p, m, m->is_weights_pass ? passing : bt_time_rows(t, passing, m->input_bits), staying);
    ns = most(ns, bt_time_of(m->is_weights_pass ? input : weights, bt_time_weight_rate(t)));
    ns = most(ns, bt_time_of(bt_time_plus(m->is_weights_pass ? weights : input, output),
                             bt_time_activation_rate(t)));
    if (m->weight_bits == 4) ns = most(ns, bt_time_of(weights, t->int4_bytes_per_us)); /* unpacking */
    if (m->group && t->group32_permille)
        ns = bt_time_plus(ns,
                          bt_time_scale(bt_time_scale(ns, t->group32_permille - 1000, 1000), 32, m->group));
    ns = bt_time_plus(ns, bt_time_of(m->spill_bytes, bt_time_activation_rate(t)));
    return bt_time_plus(ns, t->op_launch_ns);
}

/* Rows behind `first` see first + 1, first + 2, ... positions, until they see the window. */
uint64_t bt_time_pairs(uint64_t first, uint64_t rows, uint64_t window)
{
    const uint64_t short_rows = !window || bt_time_plus(first, rows) < window ? rows
                                : first < window                              ? window - first
                                                                              : 0;
    const bt_wide before = bt_wide_mul(short_rows, first),
                  own = bt_wide_right(bt_wide_mul(short_rows, short_rows + 1), 1),
                  others = bt_wide_mul(rows - short_rows, window);
    return bt_wide_clamp(bt_wide_add(bt_wide_add(before, own), others), INT64_MAX);
}

uint64_t bt_time_positions(uint64_t first, uint64_t rows, uint64_t window)
{
    const uint64_t unseen = window && first >= window ? first + 1 - window : 0;
    return bt_time_plus(first - unseen, rows);
}

uint64_t bt_time_of_attention(const bt_profile *p, const bt_time_attention *a)
{
    const bt_profile_time *t = &p->time;
    const uint64_t scores = times(a->pairs, a->heads);
    const bt_time_unit score = bt_time_unit_of(t, 4 * (uint64_t)a->head_dim, bt_time_peak(t, 16, 16), 1);
    const uint64_t kv =
        times(a->ctx, bt_time_scale(2 * (uint64_t)a->kv_heads * a->head_dim, a->kv_elem_bits, 8));
    const uint64_t ns =
        most(bt_time_of_units(t, &score, scores, a->rows), bt_time_of(kv, bt_time_activation_rate(t)));
    return bt_time_plus(bt_time_plus(ns, bt_time_of(scores, t->score_elements_per_us)), t->op_launch_ns);
}

uint64_t bt_time_two_engines(const bt_profile_time *t, uint64_t bytes, uint64_t per_us, uint64_t other_bytes,
                             uint64_t other_per_us)
{
    const uint64_t alone = most(bt_time_of(bytes, per_us), bt_time_of(other_bytes, other_per_us));
    return most(alone, bt_time_of(bt_time_plus(bytes, other_bytes), t->shared_bytes_per_us));
}

/* The straight line through entry `end` and the one before it. */
static uint64_t line_of(const bt_profile_time *t, uint32_t end, uint64_t bytes)
{
    const uint64_t ns = t->all_reduce[end - 1].ns, from = t->all_reduce[end - 1].bytes;
    return bt_time_plus(ns, bt_time_scale(bytes - from, t->all_reduce[end].ns - ns,
                                          t->all_reduce[end].bytes - from));
}

/* One shot as the sums of a table's group, which begin at `i`, have it. Between two sizes the measured time
 * is a straight line, rounded up. Behind the last size the line goes on, but each device sends all bytes at
 * least once; a single size says no line, and each device sends them to all others. */
static uint64_t shot_of(const bt_profile_time *t, uint32_t i, uint64_t bytes)
{
    const uint32_t devices = t->all_reduce[i].devices, first = i;
    if (bytes <= t->all_reduce[i].bytes) return t->all_reduce[i].ns;
    for (uint32_t end = i + 1; end < t->sums && t->all_reduce[end].devices == devices; end++, i++)
        if (bytes <= t->all_reduce[end].bytes) return line_of(t, end, bytes);
    const uint64_t sent = times(bytes - t->all_reduce[i].bytes, i == first ? t->devices - 1 : 1),
                   ns = bt_time_plus(t->all_reduce[i].ns, bt_time_of(sent, t->interconnect_bytes_per_us));
    return i == first ? ns : most(ns, line_of(t, i, bytes));
}

/* A group between two of the table lies between their times, or has those of the larger one where these are
 * less. */
static uint64_t one_shot(const bt_profile_time *t, uint64_t bytes)
{
    uint32_t i = 0, below = 0;
    for (; i < t->sums && t->all_reduce[i].devices < t->devices; i++)
        if (t->all_reduce[i].devices != t->all_reduce[below].devices) below = i;
    if (i == t->sums)
        return bt_time_plus(t->interconnect_ns,
                            bt_time_of(times(bytes, t->devices - 1), t->interconnect_bytes_per_us));
    const uint64_t more = shot_of(t, i, bytes);
    const uint32_t few = t->all_reduce[below].devices, many = t->all_reduce[i].devices;
    if (!i || many == t->devices) return more;
    const uint64_t less = shot_of(t, below, bytes);
    return less >= more ? more : less + bt_time_scale(more - less, t->devices - few, many - few);
}

uint64_t bt_time_all_reduce(const bt_profile_time *t, uint64_t bytes)
{
    if (t->devices < 2) return 0;
    const uint64_t messages = 2 * ((uint64_t)t->devices - 1);
    const uint64_t one =
        bt_time_plus(bt_time_of(over(bytes, t->devices), t->interconnect_bytes_per_us), t->interconnect_ns);
    const uint64_t ring = times(messages, one), shot = one_shot(t, bytes);
    return ring < shot ? ring : shot;
}
