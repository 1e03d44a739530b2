/* The float executor: one function for each kind of operator, all of the same shape (split by outputs, call a kernel), and the
 * loop that runs a program. What a step computes is decided by the program alone. */
#include "graph/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, ATTN_BLOCK_ROWS = 32, DIRECT_ELEMS = 16384 };

struct bt_host {
    const bt_packed *packed;
    const bt_hparams *hp;
    const bt_kernels *kernels;
    bt_pool *pool;
    uint8_t *scratch; /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    float attn_scale;
    bt_host_rotations rotations;
};

/* What a part of a step needs to know; the same for every part. */
typedef struct job {
    const bt_host *h;
    const bt_program *prog;
    const bt_step *step;
    const bt_host_io *io;
    uint8_t *arena;
    atomic_size_t next; /* attention: the next unit to take */
} job;

bt_err bt_host_new(bt_host **ret, const bt_packed *packed, const bt_host_rotations *rotations, const bt_kernels *kernels,
                   bt_pool *pool, bt_fault *fault)
{
    bt_host *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "making an executor");
    h->packed = packed;
    h->hp = &bt_packed_model(packed)->hp;
    h->kernels = kernels;
    h->pool = pool;
    if (rotations) h->rotations = *rotations;
    const size_t e1 = bt_companion_rotation_elems(&h->rotations.r1), e2 = bt_companion_rotation_elems(&h->rotations.r2);
    size_t bytes = bt_attn_scratch_bytes(h->hp->head_dim);
    if (bytes < (e1 > e2 ? e1 : e2) * sizeof(float)) bytes = (e1 > e2 ? e1 : e2) * sizeof(float);
    h->scratch_bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    h->scratch = aligned_alloc(ALIGN, bt_pool_threads(pool) * h->scratch_bytes);
    if (!h->scratch) {
        free(h);
        return bt_fail(fault, BT_ENOMEM, "making an executor");
    }
    h->attn_scale = 1.0f / sqrtf((float)h->hp->head_dim);
    *ret = h;
    return BT_OK;
}

void bt_host_free(bt_host *h)
{
    if (!h) return;
    free(h->scratch);
    free(h);
}

static float *at(const job *j, size_t offset) { return (float *)(void *)(j->arena + offset); }

/* The rows [*r0, *r1) of all sequences together that this part works on. */
static void my_rows(const job *j, size_t *r0, size_t *r1, size_t part, size_t parts)
{
    bt_pool_slice(r0, r1, j->prog->batch * j->step->rows, 1, part, parts);
}

/* Row r of all sequences: which sequence, which row of it. */
static const bt_host_seq *seq_of(const job *j, size_t r, size_t *row)
{
    *row = r % j->prog->seq;
    return &j->io->seq[r / j->prog->seq];
}

static void run_embed(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const bt_gguf_tensor *table = bt_packed_model(j->h->packed)->embed;
    const size_t width = j->step->out_width;
    size_t r0, r1, row;
    my_rows(j, &r0, &r1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        float *y = at(j, j->step->out_at) + r * width;
        const bt_host_seq *s = seq_of(j, r, &row);
        if (row < s->valid) bt_model_row_f32(y, table, (size_t)j->io->ids[r]);
        else
            for (size_t i = 0; i < width; i++) y[i] = j->io->pad;
    }
}

static void run_rmsnorm(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    if (r0 < r1)
        j->h->kernels->rmsnorm(at(j, j->step->out_at) + r0 * width, width,
                               at(j, j->step->in_at[0]) + r0 * width, width,
                               bt_packed_vector_of(j->h->packed, j->step->layer, j->step->weight),
                               j->h->hp->rms_eps, r1 - r0, width);
}

/* A group of linear steps over one input: the panels of all of them are one range, split over the parts. */
static void run_linear(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const bt_packed_matrix *m[BT_BIND_MAX_GROUP];
    size_t total = 0, p0, p1;
    for (uint32_t g = 0; g < j->step->group; g++) {
        m[g] = bt_packed_matrix_of(j->h->packed, j->step[g].layer, j->step[g].weight);
        total += bt_matmul_panels(m[g]->n);
    }
    bt_pool_slice(&p0, &p1, total, 1, part, parts);
    for (uint32_t g = 0; g < j->step->group && p1 > 0; g++) {
        const bt_step *s = &j->step[g];
        const size_t panels = bt_matmul_panels(m[g]->n), end = p1 < panels ? p1 : panels;
        const float *x = at(j, s->in_at[0]);
        if (p0 < end && s->out_at != SIZE_MAX) {
            j->h->kernels->matmul(at(j, s->out_at), s->out_width, x, s->in_width[0], m[g]->panels, m[g]->bias,
                                  j->prog->batch * s->rows, m[g]->n, m[g]->k, p0, end);
        } else if (p0 < end) { /* logits leave the arena: real rows only */
            for (size_t b = 0; b < j->prog->batch; b++) {
                const size_t valid = j->io->seq[b].valid;
                j->h->kernels->matmul(j->io->logits + b * s->rows * s->out_width, s->out_width,
                                      x + b * s->rows * s->in_width[0], s->in_width[0], m[g]->panels,
                                      m[g]->bias, valid < s->rows ? valid : s->rows, m[g]->n, m[g]->k, p0,
                                      end);
            }
        }
        p0 = p0 > panels ? p0 - panels : 0;
        p1 = p1 > panels ? p1 - panels : 0;
    }
}

static void run_qk_norm(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width, d = j->h->hp->head_dim;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    float *x = at(j, j->step->out_at) + r0 * width;
    if (r0 < r1)
        j->h->kernels->rmsnorm(x, d, x, d, bt_packed_vector_of(j->h->packed, j->step->layer, j->step->weight),
                               j->h->hp->rms_eps, (r1 - r0) * j->step->heads, d);
}

static void run_rope(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const bt_hparams *hp = j->h->hp;
    size_t r0, r1, row;
    my_rows(j, &r0, &r1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        const bt_host_seq *s = seq_of(j, r, &row);
        if (row >= s->valid) continue;
        j->h->kernels->rope(at(j, j->step->out_at) + r * j->step->out_width, j->step->heads, hp->head_dim,
                            hp->rope_dims, bt_packed_rope_cos(j->h->packed, s->pos0 + row),
                            bt_packed_rope_sin(j->h->packed, s->pos0 + row), hp->rope_neox);
    }
}

static void run_kv_store(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->in_width[0];
    for (size_t b = 0; b < j->prog->batch; b++) {
        const bt_host_seq *s = &j->io->seq[b];
        size_t r0, r1;
        bt_pool_slice(&r0, &r1, s->valid, 1, part, parts);
        const size_t from = (b * j->prog->seq + r0) * width;
        if (r0 < r1)
            bt_kv_store(s->kv, j->step->layer, s->pos0 + r0, r1 - r0, at(j, j->step->in_at[0]) + from,
                        at(j, j->step->in_at[1]) + from, width);
    }
}

/* Units are blocks of rows x the query heads of one kv head (single heads where there is one row), taken
 * by whoever is free: causal blocks cost more towards the end. Who computes a unit changes nothing in it. */
static void run_attention(void *ud, size_t part, size_t parts)
{
    job *j = ud;
    (void)parts;
    const bt_hparams *hp = j->h->hp;
    const size_t seq = j->prog->seq, width = j->step->out_width;
    const size_t unit_heads = seq == 1 ? 1 : hp->heads / hp->kv_heads, head_units = hp->heads / unit_heads;
    const size_t blocks = (seq + ATTN_BLOCK_ROWS - 1) / ATTN_BLOCK_ROWS;
    const size_t units = j->prog->batch * blocks * head_units;
    void *scratch = j->h->scratch + part * j->h->scratch_bytes;
    for (size_t left; (left = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < units;) {
        const size_t u = units - 1 - left; /* the dear ones first */
        const size_t h0 = u % head_units * unit_heads, r0 = u / head_units % blocks * ATTN_BLOCK_ROWS;
        const size_t b = u / head_units / blocks;
        const bt_host_seq *s = &j->io->seq[b];
        const size_t end = r0 + ATTN_BLOCK_ROWS < seq ? r0 + ATTN_BLOCK_ROWS : seq;
        const size_t real = s->valid < r0 ? r0 : s->valid < end ? s->valid : end;
        float *out = at(j, j->step->out_at) + (b * seq + r0) * width;
        const float *q = at(j, j->step->in_at[0]) + (b * seq + r0) * width;
        if (real > r0)
            j->h->kernels->attn(out, width, q, width, s->kv, j->step->layer, real - r0, s->pos0 + r0,
                                hp->heads, h0, h0 + unit_heads, j->h->attn_scale, scratch);
        for (size_t r = real; r < end; r++) /* padding attends to nothing */
            memset(out + (r - r0) * width + h0 * hp->head_dim, 0, unit_heads * hp->head_dim * sizeof *out);
    }
}

static void run_add(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    j->h->kernels->add(at(j, j->step->out_at) + r0 * width, at(j, j->step->in_at[1]) + r0 * width,
                       (r1 - r0) * width);
}

static void run_silu_mul(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    float *gate = at(j, j->step->out_at) + r0 * width;
    j->h->kernels->silu_mul(gate, gate, at(j, j->step->in_at[1]) + r0 * width, (r1 - r0) * width);
}

static void run_select_rows(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width, out = j->step->rows;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        const size_t b = r / out, row = out == j->prog->seq ? r % out : j->io->seq[b].valid - 1;
        memcpy(at(j, j->step->out_at) + r * width,
               at(j, j->step->in_at[0]) + (b * j->prog->seq + row) * width, width * sizeof(float));
    }
}

static const bt_companion_rotation *rotation_of(const bt_host *h, uint32_t layer)
{
    return layer == BT_GRAPH_NO_LAYER ? &h->rotations.r1 : &h->rotations.r2;
}

static void run_rotate(void *ud, size_t part, size_t parts)
{
    const job *j = ud;
    const size_t width = j->step->out_width;
    size_t r0, r1;
    my_rows(j, &r0, &r1, part, parts);
    bt_companion_rotate_rows(at(j, j->step->out_at) + r0 * width, width, r1 - r0, j->step->heads,
                             rotation_of(j->h, j->step->layer),
                             (float *)(void *)(j->h->scratch + part * j->h->scratch_bytes));
}

/* `always`: worth all threads even for one row; the others run on the caller's thread where there is
 * little to do. */
static const struct {
    bt_pool_fn *fn;
    int always;
} runner[BT_OP_KINDS] = {
    [BT_OP_EMBED] = {run_embed, 0},         [BT_OP_RMSNORM] = {run_rmsnorm, 0},
    [BT_OP_LINEAR] = {run_linear, 1},       [BT_OP_QK_NORM] = {run_qk_norm, 0},
    [BT_OP_ROPE] = {run_rope, 0},           [BT_OP_KV_STORE] = {run_kv_store, 0},
    [BT_OP_ATTENTION] = {run_attention, 1}, [BT_OP_ADD] = {run_add, 0},
    [BT_OP_SILU_MUL] = {run_silu_mul, 0},   [BT_OP_SELECT_ROWS] = {run_select_rows, 0},
    [BT_OP_ROTATE] = {run_rotate, 0},
};

static bt_err check(const bt_host *h, const bt_program *prog, const bt_host_io *io, bt_fault *fault)
{
    const bt_hparams *hp = h->hp;
    if (prog->out && !io->logits)
        return bt_fail(fault, BT_EARG, "the program gives logits, and there is no room for them");
    for (size_t i = 0; i < prog->steps; i++) {
        const bt_step *s = &prog->step[i];
        if (s->kind == BT_OP_ROTATE &&
            bt_companion_rotation_elems(rotation_of(h, s->layer)) * s->heads != s->out_width)
            return bt_fail(fault, BT_EARG, "a rotation of %zu elements for %u blocks in a row of %zu",
                           bt_companion_rotation_elems(rotation_of(h, s->layer)), s->heads, s->out_width);
    }
    for (size_t b = 0; b < prog->batch; b++) {
        const bt_host_seq *s = &io->seq[b];
        const bt_kv_view *v = s->kv;
        if (s->valid < 1 || s->valid > prog->seq)
            return bt_fail(fault, BT_EARG, "%zu tokens in a program of %zu rows", s->valid, prog->seq);
        size_t limit = bt_packed_ctx_tokens(h->packed);
        if (prog->ctx && prog->ctx < limit) limit = (size_t)prog->ctx;
        if (v->tokens_capacity < limit) limit = v->tokens_capacity;
        if (s->pos0 > limit || s->valid > limit - s->pos0)
            return bt_fail(fault, BT_EARG, "%zu positions from %zu, with room for %zu in all", s->valid,
                           s->pos0, limit);
        if (v->elem_bytes != 2 || v->layers != hp->layers || v->kv_heads != hp->kv_heads ||
            v->head_dim != hp->head_dim)
            return bt_fail(
                fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, 2",
                v->layers, v->kv_heads, v->head_dim, v->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim);
        for (size_t i = 0; i < s->valid; i++) {
            const int32_t id = io->ids[b * prog->seq + i];
            if (id < 0 || (uint32_t)id >= hp->vocab)
                return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %u", id, i, hp->vocab);
        }
    }
    return BT_OK;
}

bt_err bt_host_run(bt_host *h, const bt_program *prog, void *arena, const bt_host_io *io, bt_fault *fault)
{
    const bt_err e = check(h, prog, io, fault);
    if (e < 0) return e;
    uint32_t layer_now = BT_GRAPH_NO_LAYER;
    for (size_t i = 0; i < prog->steps; i += prog->step[i].group) {
        const bt_step *s = &prog->step[i];
        if (s->layer != layer_now) {
            layer_now = s->layer;
            if (io->cancel && atomic_load_explicit(io->cancel, memory_order_relaxed))
                return bt_fail(fault, BT_ECANCEL, "cancelled");
        }
        job j = {.h = h, .prog = prog, .step = s, .io = io, .arena = arena};
        const size_t elems = prog->batch * s->rows * s->out_width;
        const bool is_small = !runner[s->kind].always && elems < DIRECT_ELEMS;
        bt_pool_run(is_small ? NULL : h->pool, runner[s->kind].fn, &j);
        for (uint32_t g = 0; io->on_step && g < s->group; g++)
            io->on_step(io->on_step_ud, &s[g], s[g].in_at[0] == SIZE_MAX ? NULL : at(&j, s[g].in_at[0]),
                        s[g].out_at == SIZE_MAX ? NULL : at(&j, s[g].out_at), prog->batch * s[g].rows);
        if (s->kind == BT_OP_KV_STORE && io->on_kv) io->on_kv(io->on_kv_ud, s->layer);
    }
    return BT_OK;
}
