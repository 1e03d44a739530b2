/* Sampling as defined in the header. No step sorts the vocabulary. A cut of the ranks is found by counting
 * ids, or their mass, in bins by logit, and then among the ids of the one bin that the cut falls into. */
#include "sample/sample.h"

#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = BT_SAMPLE_BLOCK, BIN_BITS = 10, BINS = 1 << BIN_BITS, MAX_VOCAB = 1 << 20 };

/* An id that may be the last to stay: its logit as a key, and what it adds to a cut's sum. */
typedef struct cell {
    uint32_t key, id, mass;
} cell;

/* A call's notes on an id: valid only where `call` is the call's own number, so nothing is ever cleared. */
typedef struct mark {
    uint32_t call, count;
} mark;

/* The last rank that stays: z with id or a lower one, or any higher logit. */
typedef struct cut {
    float z;
    uint32_t id;
} cut;

struct bt_sample {
    const bt_kernels *kernels;
    size_t vocab, blocks;
    cell *cells;
    float *adjusted; /* logits after steps 0a and 0b */
    mark *seen;
    uint32_t call;
    /* the row at hand */
    const float *z;
    float *high, *sum; /* of each block: its highest logit, its sum of w */
    float z0, low;     /* the row's highest and lowest logit */
    cut cut;
    float edge[BLOCK];         /* the block that holds cut.id, without its ids that are beyond the cut */
    uint64_t bin[2][BINS + 1]; /* of ids at even and odd places; bin 0 is of ids that did not stay */
};

static bt_err check_range(const char *name, float v, float lo, float hi, bt_fault *fault)
{
    if (v >= lo && v <= hi) return BT_OK;
    return bt_fail(fault, BT_EARG, "%s is %g; %g to %g is allowed", name, (double)v, (double)lo, (double)hi);
}

static bt_err check_bias(const bt_sample_params *p, bt_fault *fault)
{
    if (p->bias_len > BT_SAMPLE_MAX_BIAS)
        return bt_fail(fault, BT_EARG, "logit_bias has %u entries; at most %d are allowed", p->bias_len,
                       BT_SAMPLE_MAX_BIAS);
    for (uint32_t i = 0; i < p->bias_len; i++) {
        if (p->bias[i].id < 0)
            return bt_fail(fault, BT_EARG, "logit_bias names token %d; it must not be negative",
                           p->bias[i].id);
        if (i > 0 && p->bias[i].id <= p->bias[i - 1].id)
            return bt_fail(fault, BT_EARG, "logit_bias names token %d after token %d; ids must rise",
                           p->bias[i].id, p->bias[i - 1].id);
        bt_err e = check_range("logit_bias", p->bias[i].bias, -100.0f, 100.0f, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}

bt_err bt_sample_params_check(const bt_sample_params *p, bt_fault *fault)
{
    bt_err e = check_range("temperature", p->temperature, 0.0f, BT_SAMPLE_MAX_TEMPERATURE, fault);
    if (e == BT_OK) e = check_range("top_p", p->top_p, 0.0f, 1.0f, fault);
    if (e == BT_OK) e = check_range("min_p", p->min_p, 0.0f, 1.0f, fault);
    if (e == BT_OK && p->repetition_penalty != 0.0f)
        e = check_range("repetition_penalty", p->repetition_penalty, 0.01f, 100.0f, fault);
    if (e == BT_OK) e = check_range("presence_penalty", p->presence_penalty, -2.0f, 2.0f, fault);
    if (e == BT_OK) e = check_range("frequency_penalty", p->frequency_penalty, -2.0f, 2.0f, fault);
    if (e < 0) return e;
    if (p->top_logprobs > (p->logprobs ? (uint32_t)BT_SAMPLE_MAX_TOP : 0u))
        return bt_fail(fault, BT_EARG, "top_logprobs is %u; 0 to %d is allowed%s", p->top_logprobs,
                       BT_SAMPLE_MAX_TOP, p->logprobs ? "" : ", and only with logprobs");
    if (p->program_len > BT_SAMPLE_MAX_PROGRAM || (p->program_len > 0 && !p->program))
        return bt_fail(fault, BT_EARG, "a program of %u bytes; at most %d are allowed", p->program_len,
                       BT_SAMPLE_MAX_PROGRAM);
    return check_bias(p, fault);
}

bt_err bt_sample_new(bt_sample **ret, const bt_kernels *kernels, size_t vocab, bt_fault *fault)
{
    if (vocab == 0 || vocab > MAX_VOCAB)
        return bt_fail(fault, BT_EARG, "a vocabulary of %zu; 1 to %d is allowed", vocab, MAX_VOCAB);
    bt_sample *s = calloc(1, sizeof *s);
    if (s) {
        s->kernels = kernels ? kernels : bt_kernels_select(NULL);
        s->vocab = vocab;
        s->blocks = (vocab + BLOCK - 1) / BLOCK;
        s->cells = calloc(vocab, sizeof *s->cells);
        s->adjusted = calloc(vocab, sizeof *s->adjusted);
        s->seen = calloc(vocab, sizeof *s->seen);
        s->high = calloc(s->blocks, sizeof *s->high);
        s->sum = calloc(s->blocks, sizeof *s->sum);
    }
    if (!s || !s->cells || !s->adjusted || !s->seen || !s->high || !s->sum) {
        bt_sample_free(s);
        return bt_fail(fault, BT_ENOMEM, "out of memory for sampling from %zu tokens", vocab);
    }
    *ret = s;
    return BT_OK;
}

void bt_sample_free(bt_sample *s)
{
    if (!s) return;
    free(s->cells);
    free(s->adjusted);
    free(s->seen);
    free(s->high);
    free(s->sum);
    free(s);
}

/* ---- floats in order ---- */
/* Keys ascend with logits; -0 counts as +0. */
static uint32_t key_of(float z)
{
    uint32_t u;
    z += 0.0f;
    memcpy(&u, &z, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static float of_key(uint32_t key)
{
    const uint32_t u = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float z;
    memcpy(&z, &u, sizeof z);
    return z;
}

/* The next float, -0 being +0. */
static float above(float z) { return of_key(key_of(z) + 1); }
static float below(float z) { return of_key(key_of(z) - (z == 0.0f ? 2u : 1u)); }

/* ln of x >= 1, by additions, multiplications and divisions in one order, so that it is the same on every
 * machine: x = m 2^e, m in [1/sqrt 2, sqrt 2), ln m = 2 atanh((m - 1) / (m + 1)) by its series. The error is
 * a few units in the last place of a double. */
static double ln(double x)
{
    int e = 0;
    while (x >= 1.4142135623730951) {
        x *= 0.5;
        e++;
    }
    const double t = (x - 1.0) / (x + 1.0), tt = t * t;
    double sum = 0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * tt + 1.0 / k;
    return (double)e * 0.69314718055994531 + 2.0 * t * sum;
}

/* ---- step 0 ---- */
/* Each id of the history is met once, in s->cells, which no cut needs yet. */
static void note(bt_sample *s, size_t *ids, const int32_t *from, size_t n, uint32_t add)
{
    for (size_t i = 0; i < n; i++) {
        if (from[i] < 0 || (size_t)from[i] >= s->vocab) continue;
        mark *m = &s->seen[from[i]];
        if (m->call != s->call) {
            *m = (mark){s->call, 0};
            s->cells[(*ids)++].id = (uint32_t)from[i];
        }
        m->count += add;
    }
}

static float into_range(float z) { return z > FLT_MAX ? FLT_MAX : z < -FLT_MAX ? -FLT_MAX : z; }

static void penalise(bt_sample *s, const bt_sample_params *p, const bt_sample_history *h, bool repetition)
{
    if (++s->call == 0) { /* marks of 2^32 calls ago would look new */
        memset(s->seen, 0, s->vocab * sizeof *s->seen);
        s->call = 1;
    }
    size_t ids = 0;
    note(s, &ids, h->generated, h->generated_len, 1);
    if (repetition) note(s, &ids, h->prompt, h->prompt_len, 0);
    for (size_t i = 0; i < ids; i++) {
        const uint32_t id = s->cells[i].id;
        float z = s->adjusted[id];
        if (repetition) z = z > 0.0f ? z / p->repetition_penalty : z * p->repetition_penalty;
        if (s->seen[id].count)
            z = (z - (float)s->seen[id].count * p->frequency_penalty) - p->presence_penalty;
        s->adjusted[id] = into_range(z);
    }
}

static void close_ids(bt_sample *s, const uint64_t *open)
{
    const float least = -0x1p127f;
    for (size_t i = 0; i < s->vocab; i++) {
        const float z = s->adjusted[i] > least ? s->adjusted[i] : least;
        s->adjusted[i] = open[i / 64] >> i % 64 & 1 ? z : -FLT_MAX;
    }
}

/* The logits to choose from: those given where nothing changes them, else s->adjusted. */
static const float *adjust(bt_sample *s, const bt_sample_params *p, const float *logits,
                           const bt_sample_history *h)
{
    const bool repetition = p->repetition_penalty != 0.0f && p->repetition_penalty != 1.0f;
    const bool penalties = repetition || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f;
    if (!penalties && p->bias_len == 0 && !h->open) return logits;
    memcpy(s->adjusted, logits, s->vocab * sizeof *s->adjusted);
    if (penalties) penalise(s, p, h, repetition);
    for (uint32_t i = 0; i < p->bias_len; i++)
        if ((size_t)p->bias[i].id < s->vocab) {
            float *z = &s->adjusted[p->bias[i].id];
            *z = into_range(*z + p->bias[i].bias);
        }
    if (h->open) close_ids(s, h->open);
    return s->adjusted;
}

/* ---- the row at hand, block by block ---- */
static size_t block_len(const bt_sample *s, size_t b)
{
    return b + 1 < s->blocks ? (size_t)BLOCK : s->vocab - b * BLOCK;
}

static void all_stay(bt_sample *s) { s->cut = (cut){-FLT_MAX, (uint32_t)s->vocab - 1}; }

/* Takes z as the row, of which all ids stay. false: a number of block *bad is not finite. */
static bool take_row(bt_sample *s, size_t *bad, const float *z)
{
    s->z = z;
    s->z0 = -FLT_MAX, s->low = FLT_MAX;
    for (size_t b = 0; b < s->blocks; b++) {
        float range[2];
        s->kernels->logit_range(range, z + b * BLOCK, block_len(s, b));
        if (isnan(range[1])) {
            *bad = b;
            return false;
        }
        s->high[b] = range[1];
        s->z0 = range[1] > s->z0 ? range[1] : s->z0;
        s->low = range[0] < s->low ? range[0] : s->low;
    }
    all_stay(s);
    return true;
}

/* The lowest id with the highest logit. */
static size_t first_of(const bt_sample *s)
{
    size_t i = 0;
    while (s->high[i] != s->z0) i++;
    for (i *= BLOCK; s->z[i] != s->z0;) i++;
    return i;
}

static void set_cut(bt_sample *s, float z, size_t id)
{
    const size_t b = id / BLOCK, n = block_len(s, b);
    s->cut = (cut){z, (uint32_t)id};
    memcpy(s->edge, s->z + b * BLOCK, n * sizeof *s->edge);
    for (size_t i = id % BLOCK + 1; i < n; i++)
        if (s->edge[i] == z) s->edge[i] = -INFINITY;
}

/* The ids of a block that may stay: those with z[i] >= least. */
typedef struct piece {
    const float *z;
    size_t n;
    float least;
} piece;

/* false: none with z >= least stays. */
static inline bool piece_of(piece *ret, const bt_sample *s, size_t b, float least)
{
    if (s->high[b] < least || s->high[b] < s->cut.z) return false;
    const size_t last = s->cut.id / BLOCK;
    const float from = b > last ? above(s->cut.z) : s->cut.z;
    *ret = (piece){b == last && s->cut.id + 1 < s->vocab ? s->edge : s->z + b * BLOCK, block_len(s, b),
                   from > least ? from : least};
    return s->high[b] >= ret->least;
}

/* ---- cuts ---- */
/* The cell at which the sum of mass, by descending key and then in the cells' order, comes to need; it does.
 * The cells are used up. */
static cell narrow(cell *c, size_t n, uint64_t need, uint64_t *bin)
{
    for (;;) {
        uint32_t low = UINT32_MAX, high = 0;
        for (size_t i = 0; i < n; i++) {
            low = c[i].key < low ? c[i].key : low;
            high = c[i].key > high ? c[i].key : high;
        }
        if (low == high) break;
        unsigned shift = 0;
        while ((high - low) >> shift >= BINS) shift++;
        memset(bin, 0, BINS * sizeof *bin);
        for (size_t i = 0; i < n; i++) bin[(c[i].key - low) >> shift] += c[i].mass;
        uint32_t at = (high - low) >> shift;
        for (; bin[at] < need; at--) need -= bin[at];
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if ((c[i].key - low) >> shift == at) c[kept++] = c[i];
        n = kept;
    }
    size_t i = 0;
    for (; i + 1 < n && c[i].mass < need; i++) need -= c[i].mass;
    return c[i];
}

/* How ids are counted: each as 1, or with its mass m. */
typedef struct counting {
    bool mass;
    float least; /* ids below count nothing */
    float top;   /* ids above count in the highest bin */
    float scale; /* of the bins */
    uint64_t all;
} counting;

/* Adds to the bins of n ids; mass NULL: 1 each. Bins are read in pairs, and neighbours go to bins of their
 * own, which is faster where both fall into the same. */
static void add_to_bins(bt_sample *s, const int32_t *bin, const int32_t *mass, size_t n)
{
    size_t i = 0;
    for (; i + 2 <= n; i += 2) {
        uint64_t two;
        memcpy(&two, bin + i, sizeof two);
        s->bin[0][(uint32_t)two] += mass ? (uint32_t)mass[i] : 1u;
        s->bin[1][two >> 32] += mass ? (uint32_t)mass[i + 1] : 1u;
    }
    if (i < n) s->bin[0][bin[i]] += mass ? (uint32_t)mass[i] : 1u;
}

/* Fills s->bin. */
static void count(bt_sample *s, counting *c)
{
    const float width = c->top - c->least;
    int32_t bin[BLOCK], mass[BLOCK];
    piece p;
    c->scale = width > 0.0f ? (BINS - 1) / (width < FLT_MAX ? width : FLT_MAX) : 0.0f;
    c->scale = c->scale < FLT_MAX ? c->scale : FLT_MAX;
    memset(s->bin, 0, sizeof s->bin);
    for (size_t b = 0; b < s->blocks; b++) {
        if (!piece_of(&p, s, b, c->least)) continue;
        s->kernels->logit_bins(bin, c->mass ? mass : NULL, p.z, p.n, s->z0, c->top, p.least, c->scale, BINS);
        if (c->mass) add_to_bins(s, bin, mass, p.n);
        else add_to_bins(s, bin, NULL, p.n);
    }
    c->all = 0;
    for (size_t i = 1; i <= BINS; i++) c->all += s->bin[0][i] += s->bin[1][i];
}

static int32_t bin_of(const bt_sample *s, const counting *c, float z)
{
    int32_t bin;
    s->kernels->logit_bins(&bin, NULL, &z, 1, s->z0, c->top, c->least, c->scale, BINS);
    return bin;
}

/* The least logit of this bin or a higher one. */
static float least_of_bin(const bt_sample *s, const counting *c, int32_t bin)
{
    uint32_t low = key_of(c->least), high = key_of(s->z0);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (bin_of(s, c, of_key(middle)) >= bin) high = middle;
        else low = middle + 1;
    }
    return of_key(low);
}

/* Cells of the ids that stay with logits in [low, high], in ascending id; of one logit only until their mass
 * comes to need. Ends soon after there are more than most. */
static size_t list(bt_sample *s, bool of_mass, float low, float high, uint64_t need, size_t most)
{
    uint32_t at[BLOCK];
    int32_t bin[BLOCK], mass[BLOCK];
    float z[BLOCK];
    size_t n = 0;
    uint64_t sum = 0;
    piece p;
    for (size_t b = 0; b < s->blocks && n <= most && (low < high || sum < need); b++) {
        if (!piece_of(&p, s, b, low)) continue;
        const size_t found = s->kernels->logit_list(at, p.z, p.n, p.least, high);
        for (size_t i = 0; i < found; i++) z[i] = p.z[at[i]];
        if (of_mass && found) s->kernels->logit_bins(bin, mass, z, found, s->z0, s->z0, low, 0.0f, BINS);
        for (size_t i = 0; i < found; i++, n++) {
            s->cells[n] =
                (cell){key_of(z[i]), (uint32_t)(b * BLOCK) + at[i], of_mass ? (uint32_t)mass[i] : 1u};
            sum += s->cells[n].mass;
        }
    }
    return n;
}

/* The k-th highest of the blocks' highest logits, k <= s->blocks: as many ids are as high, and most of them
 * lie in so many blocks. */
static float block_bound(bt_sample *s, size_t k)
{
    for (size_t b = 0; b < s->blocks; b++) s->cells[b] = (cell){key_of(s->high[b]), (uint32_t)b, 1};
    return of_key(narrow(s->cells, s->blocks, k, s->bin[0]).key);
}

static size_t few(const bt_sample *s) { return s->vocab / 16; }

/* Leaves the shortest beginning that counts need or more, c->all or less. Bins are counted before. Where the
 * cut's bin has too many ids for a list, as of logits that lie in narrow bands, it is cut into bins itself.
 */
static void cut_at(bt_sample *s, counting *c, uint64_t need)
{
    enum { LEVELS = 4 };
    uint64_t over = 0; /* what logits above high count */
    float high = s->z0;
    for (int level = 1;; level++) {
        uint64_t sum = 0;
        int32_t bin = BINS;
        for (; sum + s->bin[0][bin] < need; bin--) sum += s->bin[0][bin];
        const float low = least_of_bin(s, c, bin);
        if (bin < BINS) high = below(least_of_bin(s, c, bin + 1)), over = sum;
        const bool last = level == LEVELS || low == high;
        const size_t n = list(s, c->mass, low, high, need - over, last ? s->vocab : few(s));
        if (last || n <= few(s)) {
            const cell at = narrow(s->cells, n, need - over, s->bin[0]);
            set_cut(s, of_key(at.key), at.id);
            return;
        }
        c->least = low, c->top = high;
        count(s, c);
    }
}

/* Bins from least on. Few ids that are far above the others do not make the bins wide. */
static void count_first(bt_sample *s, counting *c)
{
    const float bound = block_bound(s, (s->blocks + 15) / 16);
    c->top = bound > c->least ? bound : s->z0;
    count(s, c);
}

/* The first top ranks stay. Where there are as many blocks, only few ids are mostly above their bound. */
static void cut_top_k(bt_sample *s, size_t top)
{
    counting c = {.least = s->low};
    if (top >= s->vocab) return;
    if (top <= s->blocks) {
        c.least = block_bound(s, top);
        const size_t n = list(s, false, c.least, s->z0, top, few(s));
        if (n <= few(s)) {
            const cell at = narrow(s->cells, n, top, s->bin[0]);
            set_cut(s, of_key(at.key), at.id);
            return;
        }
    }
    count_first(s, &c);
    cut_at(s, &c, top);
}

/* exp(-22) * 2^30 rounds to 0: lower logits have no mass. */
static void cut_top_p(bt_sample *s, float top_p)
{
    counting c = {.mass = true, .least = s->z0 - 22.0f};
    const float least = s->cut.z > s->low ? s->cut.z : s->low;
    c.least = c.least > least ? c.least : least;
    count_first(s, &c);
    const double want = (double)top_p * (double)c.all;
    uint64_t need = (uint64_t)want;
    need += (double)need < want;
    cut_at(s, &c, need ? need : 1);
}

static void cut_min_p(bt_sample *s, float min_p)
{
    const double from = (double)s->z0 - ln(1.0 / (double)min_p);
    if (from <= (double)s->cut.z) return;
    float least = (float)from;
    if ((double)least < from) least = above(least);
    if (least > s->cut.z) set_cut(s, least, s->vocab - 1);
}

/* ---- sums over ids ---- */
static double sum_blocks(bt_sample *s, float temperature)
{
    double all = 0;
    piece p;
    for (size_t b = 0; b < s->blocks; b++) {
        s->sum[b] = piece_of(&p, s, b, -FLT_MAX)
                        ? s->kernels->logit_sum(p.z, p.n, s->z0, temperature, p.least)
                        : 0.0f;
        all += (double)s->sum[b];
    }
    return all;
}

static int32_t draw(bt_sample *s, const bt_sample_params *params, uint64_t token_index)
{
    const double want = bt_rng_uniform(params->seed, token_index) * sum_blocks(s, params->temperature);
    double sum = 0;
    size_t b = 0, last = 0;
    piece p = {.n = 0};
    for (; sum + (double)s->sum[b] <= want; b++) sum += (double)s->sum[b]; /* ends: want is less than all */
    (void)piece_of(&p, s, b, -FLT_MAX);
    for (size_t i = 0; i < p.n; i++) {
        if (p.z[i] < p.least) continue;
        const float w = bt_exp1((p.z[i] - s->z0) / params->temperature);
        sum += (double)w;
        if (w > 0.0f) last = i;
        if (sum > want) break;
    }
    return (int32_t)(b * BLOCK + last);
}

/* ---- log probabilities ---- */
static float log_probability(float z, float zm, double log_sum)
{
    const double l = ((double)z - (double)zm) - log_sum;
    return l < -(double)FLT_MAX ? -FLT_MAX : (float)l;
}

/* The top of the row at hand. */
static uint32_t top_of(int32_t *ids, bt_sample *s, uint32_t top)
{
    if (top == 0) return 0;
    cut_top_k(s, top);
    const size_t n = list(s, false, s->cut.z, s->z0, s->vocab, s->vocab);
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && s->z[s->cells[i].id] > s->z[ids[at - 1]]; at--) ids[at] = ids[at - 1];
        ids[at] = (int32_t)s->cells[i].id;
    }
    return (uint32_t)n;
}

uint32_t bt_sample_top(int32_t *ids, bt_sample *s, uint32_t top, const float *logits)
{
    size_t bad;
    return take_row(s, &bad, logits) ? top_of(ids, s, top) : 0;
}

/* All but the token's own, of the row at hand, whose cut is lost. *log_sum: as the header's. */
static void find_logprobs(bt_sample_logprob *ret, double *log_sum, bt_sample *s, uint32_t top)
{
    *log_sum = ln(sum_blocks(s, 1.0f));
    ret->top_len = top_of(ret->top_ids, s, top);
    for (uint32_t i = 0; i < ret->top_len; i++)
        ret->top[i] = log_probability(s->z[ret->top_ids[i]], s->z0, *log_sum);
}

bt_err bt_sample_token(int32_t *ret_id, bt_sample_logprob *ret_logprob, bt_sample *s,
                       const bt_sample_params *p, const float *logits, const bt_sample_history *history,
                       bt_fault *fault)
{
    const bool logprobs = p->logprobs && ret_logprob;
    double log_sum = 0;
    size_t bad;
    if (!take_row(s, &bad, logits)) {
        for (bad *= BLOCK; isfinite(logits[bad]);) bad++;
        return bt_fail(fault, BT_EFORMAT, "the logit of token %zu is not finite", bad);
    }
    const float zm = s->z0;
    if (logprobs) find_logprobs(ret_logprob, &log_sum, s, p->top_logprobs);
    const float *z = adjust(s, p, logits, history);
    if (z != logits) (void)take_row(s, &bad, z); /* finite: step 0 keeps the range */
    else all_stay(s);
    if (s->z0 == -FLT_MAX && history->open) return bt_fail(fault, BT_EFORMAT, "no token is open");
    int32_t id = (int32_t)first_of(s);
    if (p->temperature != 0.0f) {
        if (p->top_k) cut_top_k(s, p->top_k);
        if (p->top_p < 1.0f) cut_top_p(s, p->top_p);
        if (p->min_p > 0.0f) cut_min_p(s, p->min_p);
        id = draw(s, p, history->generated_len);
    }
    if (logprobs) ret_logprob->own = log_probability(logits[id], zm, log_sum);
    *ret_id = id;
    return BT_OK;
}
