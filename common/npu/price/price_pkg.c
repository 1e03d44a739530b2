/* Prices of programs: a program at one number of rows is priced once, but for its attention, which depends on
 * the position. */
#include "npu/price/price_pkg.h"
#include "npu/lower/stages.h"
#include "npu/pkg/pkg_ops.h"
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>
#include <string.h>

/* The prices of a program at one number of rows. */
typedef struct body {
    uint32_t code, rows, out; /* the key; programs of different contexts share their code */
    size_t stages;
    uint64_t *ns;         /* [stages]: ns without attention and first use */
    uint64_t *first;      /* [stages]: first use of the weights that every chunk reads */
    uint64_t *tail_first; /* [stages]: first use of the weights that only rows of logits pass */
    struct attention {
        uint32_t inst, stage;
    } * attention;
    size_t attentions;
    bt_price_sum sum; /* sum of ns; tail_ns included */
    uint64_t first_ns, tail_first_ns;
} body;

enum { MAX_BODIES = 1024, MAX_SLICES = 64 };

struct bt_price_pkg {
    const bt_pkg *pkg;
    bt_profile npu, companion;
    bt_stage_engines engines;
    bt_shapes shapes;
    size_t stages;
    bt_stage *stage, *other; /* [stages]: of a chunk that makes logits; scratch for any program */
    bt_schedule_stage *as_stage, *as_other;
    body *body; /* [bodies] */
    size_t bodies, next;
    uint64_t *ns, *other_ns; /* [stages]: scratch for a chunk that is summed; the other engine's work */
};

static bool is_npu(const bt_pkg_inst *i) { return i->unit != BT_PKG_COMPANION; }

/* The part of a sum that an instruction counts in. */
static uint8_t part_of(const bt_pkg_inst *i)
{
    const uint8_t of = bt_pkg_op_info_of(i->op)->of;
    if (i->op == BT_PKG_SESSION) return BT_PRICE_PKG_SESSIONS;
    if (is_npu(i)) return BT_PRICE_PKG_NPU;
    return of < BT_OP_KINDS ? of : BT_PRICE_PKG_EDGES;
}

/* ---- lifetime ---- */

/* Checks that a program's stages are those of the last chunk, or the first of them. */
static bt_err look_at(size_t *ret, bt_price_pkg *p, uint32_t program, bt_fault *fault)
{
    const size_t n = bt_stages_of(p->other, p->as_other, p->stages, p->pkg, program);
    if (n > p->stages || memcmp(p->as_other, p->as_stage, n * sizeof *p->as_stage) != 0)
        return bt_fail(
            fault, BT_EARG,
            "program %u of the package has other stages than the one that makes logits, so nothing "
            "prices it",
            program);
    *ret = n;
    return BT_OK;
}

static bt_err make_room(bt_price_pkg *p, uint32_t last, bt_fault *fault)
{
    p->stages = bt_stages_of(NULL, NULL, 0, p->pkg, last);
    p->stage = calloc(p->stages + 1, sizeof *p->stage);
    p->other = calloc(p->stages + 1, sizeof *p->other);
    p->as_stage = calloc(p->stages + 1, sizeof *p->as_stage);
    p->as_other = calloc(p->stages + 1, sizeof *p->as_other);
    p->ns = calloc(p->stages + 1, sizeof *p->ns);
    p->other_ns = calloc(p->stages + 1, sizeof *p->other_ns);
    p->body = malloc(MAX_BODIES * sizeof *p->body);
    if (!p->stage || !p->other || !p->as_stage || !p->as_other || !p->ns || !p->other_ns || !p->body)
        return bt_fail(fault, BT_ENOMEM, "out of memory for prices of %zu stages", p->stages);
    bt_stages_of(p->stage, p->as_stage, p->stages, p->pkg, last);
    return BT_OK;
}

static bt_err look_at_all(bt_price_pkg *p, bt_fault *fault)
{
    const bt_pkg_row *row = bt_pkg_rows(p->pkg), *one = NULL;
    const uint32_t rows = bt_pkg_header_of(p->pkg)->rows.count;
    size_t n;
    for (uint32_t i = 0; i < rows; i++)
        if (row[i].batch == 1) one = &row[i];
    if (!one) return bt_fail(fault, BT_EARG, "the package has no program for one sequence alone");
    uint32_t seen[2] = {one->program[BT_PKG_OUT_NONE], one->program[BT_PKG_OUT_LAST]};
    bt_err e = make_room(p, seen[1], fault);
    if (e == BT_OK) e = look_at(&n, p, seen[0], fault);
    for (uint32_t i = 0; e == BT_OK && i < rows; i++)
        for (int k = 0; e == BT_OK && row[i].batch == 1 && k < 2; k++) {
            const uint32_t program = row[i].program[k ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE];
            if (bt_pkg_has_steps_of(p->pkg, program, seen[k])) continue; /* so it has the same stages */
            seen[k] = program;
            e = look_at(&n, p, program, fault);
        }
    return e;
}

bt_err bt_price_pkg_new(bt_price_pkg **ret, const bt_price_pkg_config *config, bt_fault *fault)
{
    bt_price_pkg *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for prices of a package");
    p->pkg = config->pkg;
    p->npu = p->companion = *config->npu;
    bt_err e = bt_price_need_time(&p->npu, fault);
    if (config->companion) p->companion = *config->companion;
    else if (e == BT_OK && p->npu.time.companion[0]) e = bt_profile_companion(&p->companion, &p->npu, fault);
    if (e == BT_OK) e = bt_price_need_time(&p->companion, fault);
    p->engines = (bt_stage_engines){&p->npu, &p->companion, config->kv_elem_bits};
    if (e == BT_OK) e = bt_pkg_shapes(&p->shapes, p->pkg, fault);
    if (e == BT_OK) e = look_at_all(p, fault);
    if (e == BT_OK) *ret = p;
    else bt_price_pkg_free(p);
    return e;
}

static void free_body(body *b)
{
    free(b->ns);
    free(b->first);
    free(b->tail_first);
    free(b->attention);
    *b = (body){0};
}

void bt_price_pkg_free(bt_price_pkg *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->bodies; i++) free_body(&p->body[i]);
    free(p->body);
    free(p->stage);
    free(p->other);
    free(p->as_stage);
    free(p->as_other);
    free(p->ns);
    free(p->other_ns);
    free(p);
}

const bt_pkg *bt_price_pkg_of(const bt_price_pkg *p) { return p->pkg; }
const bt_stage_engines *bt_price_pkg_engines(const bt_price_pkg *p) { return &p->engines; }
const bt_shapes *bt_price_pkg_shapes(const bt_price_pkg *p) { return &p->shapes; }

bt_price_pkg_stages bt_price_pkg_stages_of(const bt_price_pkg *p)
{
    return (bt_price_pkg_stages){p->stage, p->as_stage, p->stages};
}

uint64_t bt_price_pkg_compile_ns(const bt_price_pkg *p)
{
    const bt_pkg_row *row = bt_pkg_rows(p->pkg);
    uint64_t seqs = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bt_pkg_header_of(p->pkg)->rows.count; i++) {
        seqs += row[i].batch == 1 && row[i].seq != last;
        last = row[i].seq;
    }
    return bt_time_times(seqs, p->npu.time.program_compile_ns);
}

/* ---- a program at a number of rows ---- */

static void add_part(bt_price_sum *s, uint8_t part, bt_term term, uint64_t ns)
{
    s->ns = bt_time_plus(s->ns, ns);
    s->part_ns[part] = bt_time_plus(s->part_ns[part], ns);
    s->term_ns[term] = bt_time_plus(s->term_ns[term], ns);
}

/* A product's launch is fixed, as is all that is neither product nor attention. */
static void add_inst(bt_price_sum *s, const bt_price_pkg *p, const bt_pkg_inst *i, const bt_stage_inst *r)
{
    const uint64_t launch = (is_npu(i) ? &p->npu : &p->companion)->time.op_launch_ns;
    const bool is_product = bt_pkg_op_info_of(i->op)->price == BT_PRICED_MATRIX && r->ns >= launch;
    if (is_product) add_part(s, part_of(i), BT_TERM_PRODUCTS, r->ns - launch);
    add_part(s, part_of(i), bt_pkg_is_attention(i) ? BT_TERM_ATTENTION : BT_TERM_FIXED,
             is_product ? launch : r->ns);
    s->spill_ns = bt_time_plus(s->spill_ns, r->spill_ns);
    s->ops = bt_time_plus(s->ops, r->ops);
    s->bytes = bt_time_plus(s->bytes, r->bytes);
}

static void add_fixed(body *b, bt_price_pkg *p, uint32_t program, size_t stage, const bt_pkg_inst *i,
                      const bt_stage_chunk *c)
{
    const bt_stage_inst r = bt_stage_inst_cost(&p->engines, p->pkg, program, i, c);
    const bool is_out = bt_pkg_is_out(i);
    uint64_t *first = is_out ? b->tail_first : b->first, *all = is_out ? &b->tail_first_ns : &b->first_ns;
    b->ns[stage] = bt_time_plus(b->ns[stage], r.ns);
    first[stage] = bt_time_plus(first[stage], r.first_ns);
    *all = bt_time_plus(*all, r.first_ns);
    add_inst(&b->sum, p, i, &r);
    if (is_out) b->sum.tail_ns = bt_time_plus(b->sum.tail_ns, r.ns);
}

/* Adds what a stage begins with: the wait for the other engine, and a dispatch. */
static void add_begin(body *b, bt_price_pkg *p, size_t stage, const bt_pkg_inst *first)
{
    const uint64_t wait = bt_stage_sync(&p->engines, p->other, stage),
                   dispatch = p->other[stage].is_dispatch ? p->npu.time.dispatch_ns : 0;
    b->ns[stage] = bt_time_plus(wait, dispatch);
    add_part(&b->sum, BT_PRICE_PKG_SYNC, BT_TERM_FIXED, wait);
    add_part(&b->sum, BT_PRICE_PKG_NPU, BT_TERM_FIXED, dispatch);
    if (bt_pkg_is_out(first)) b->sum.tail_ns = bt_time_plus(b->sum.tail_ns, b->ns[stage]);
}

static bt_err fill(body *b, bt_price_pkg *p, uint32_t program, const bt_stage_chunk *c, bt_fault *fault)
{
    const bt_pkg_inst *code = bt_pkg_code(p->pkg, program);
    const uint32_t insts = bt_pkg_programs(p->pkg)[program].insts;
    const bt_err e = look_at(&b->stages, p, program, fault);
    if (e < 0) return e;
    b->ns = calloc(p->stages, sizeof *b->ns);
    b->first = calloc(p->stages, sizeof *b->first);
    b->tail_first = calloc(p->stages, sizeof *b->tail_first);
    b->attention = calloc(insts, sizeof *b->attention);
    if (!b->ns || !b->first || !b->tail_first || !b->attention)
        return bt_fail(fault, BT_ENOMEM, "out of memory pricing a program");
    for (size_t j = 0; j < b->stages; j++) {
        const bt_stage *s = &p->other[j];
        add_begin(b, p, j, &code[s->first]);
        for (uint32_t n = s->first; n < s->first + s->insts; n++)
            if (bt_pkg_is_attention(&code[n]))
                b->attention[b->attentions++] = (struct attention){n, (uint32_t)j};
            else add_fixed(b, p, program, j, &code[n], c);
    }
    return BT_OK;
}

/* The body of a program at so many rows; a new one replaces the oldest. NULL: memory is out. */
static const body *body_of(bt_price_pkg *p, uint32_t program, uint64_t rows, bt_fault *fault)
{
    const bt_pkg_program *g = &bt_pkg_programs(p->pkg)[program];
    for (size_t i = 0; i < p->bodies; i++)
        if (p->body[i].code == g->code && p->body[i].rows == rows && p->body[i].out == g->out)
            return &p->body[i];
    body made = {.code = g->code, .rows = (uint32_t)rows, .out = g->out};
    const bt_stage_chunk c = {.rows = rows};
    if (fill(&made, p, program, &c, fault) < 0) {
        free_body(&made);
        return NULL;
    }
    const bool is_full = p->bodies == MAX_BODIES;
    const size_t at = is_full ? p->next++ % MAX_BODIES : p->bodies++;
    if (is_full) free_body(&p->body[at]);
    p->body[at] = made;
    return &p->body[at];
}

/* ---- a chunk ---- */

bt_err bt_price_pkg_cut(bt_price_pkg_chunk *ret, const bt_price_pkg *p, uint64_t first, uint64_t pos,
                        uint64_t end, bt_fault *fault)
{
    const bt_shapes_chunk c = bt_shapes_next(&p->shapes, (size_t)end, (size_t)pos);
    const bt_pkg_row *row;
    const bt_err e = bt_pkg_find_row(&row, p->pkg, 1, c.rows, (size_t)pos + c.valid, fault);
    if (e < 0) return e;
    const bool is_last = pos + c.valid == end;
    *ret = (bt_price_pkg_chunk){
        .pos = pos,        .valid = c.valid,
        .rows = c.rows,    .program = row->program[is_last ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE],
        .ctx = row->ctx,   .is_first = pos == first,
        .is_last = is_last};
    return BT_OK;
}

/* Prices of attention, kept for layers that cost the same: those of one window in a dense package, and layers
 * whose heads have the same shares. */
typedef struct slices {
    struct {
        uint32_t arg, layer;
        bt_stage_inst cost;
    } at[MAX_SLICES];
    size_t count;
} slices;

static bool attend_alike(const bt_pkg *p, uint32_t a, uint32_t b)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_head *head = h->sparse_ppm ? bt_pkg_const_at(p, h->sparse_heads) : NULL;
    if (bt_pkg_window(h, a) != bt_pkg_window(h, b)) return false;
    for (uint32_t i = 0; head && i < h->heads; i++)
        if (head[(size_t)a * h->heads + i].ppm != head[(size_t)b * h->heads + i].ppm) return false;
    return true;
}

static bt_stage_inst attention_cost(slices *s, const bt_price_pkg *p, uint32_t program, const bt_pkg_inst *i,
                                    const bt_stage_chunk *c)
{
    for (size_t k = 0; k < s->count; k++)
        if (s->at[k].arg == i->arg && attend_alike(p->pkg, s->at[k].layer, i->layer)) return s->at[k].cost;
    const bt_stage_inst cost = bt_stage_inst_cost(&p->engines, p->pkg, program, i, c);
    if (s->count < MAX_SLICES) {
        s->at[s->count].arg = i->arg;
        s->at[s->count].layer = i->layer;
        s->at[s->count++].cost = cost;
    }
    return cost;
}

/* Prices a chunk. ns[stages]: zero for stages that the body lacks; other_ns[stages]: the other engine's work
 * in each stage; sum: over all stages, may be NULL. */
static void price_chunk(uint64_t *ns, uint64_t *other_ns, bt_price_sum *sum, bt_price_pkg *p, const body *b,
                        uint32_t program, const bt_stage_chunk *c)
{
    const bt_pkg_inst *code = bt_pkg_code(p->pkg, program);
    slices s = {.count = 0};
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): body_of has put a new body there */
    memcpy(ns, b->ns, p->stages * sizeof *ns);
    memset(other_ns, 0, p->stages * sizeof *other_ns);
    for (size_t j = 0; j < b->stages; j++)
        ns[j] = bt_time_plus(ns[j], bt_time_plus(c->is_first ? b->first[j] : 0, b->tail_first[j]));
    if (sum) *sum = b->sum;
    for (size_t k = 0; k < b->attentions; k++) {
        const bt_pkg_inst *i = &code[b->attention[k].inst];
        const uint32_t stage = b->attention[k].stage;
        const bt_stage_inst r = attention_cost(&s, p, program, i, c);
        ns[stage] = bt_time_plus(ns[stage], r.ns);
        other_ns[stage] = bt_time_plus(other_ns[stage], r.other_ns);
        if (sum) add_inst(sum, p, i, &r);
    }
    if (!sum) return;
    sum->lead_ns = c->is_first ? b->first_ns : 0;
    sum->first_ns = bt_time_plus(sum->lead_ns, b->tail_first_ns);
    sum->ns = bt_time_plus(sum->ns, sum->first_ns);
    sum->term_ns[BT_TERM_PRODUCTS] = bt_time_plus(sum->term_ns[BT_TERM_PRODUCTS], sum->first_ns);
    sum->tail_ns = bt_time_plus(sum->tail_ns, b->tail_first_ns);
    sum->chunks = 1;
}

bt_err bt_price_pkg_stage_ns(uint64_t *ns, bt_price_pkg *p, const bt_price_pkg_chunk *c, bool has_overlap,
                             bt_fault *fault)
{
    const body *b = body_of(p, c->program, c->rows, fault);
    const bt_stage_chunk at = {.pos = c->pos, .rows = c->rows, .ctx = c->ctx, .is_first = c->is_first};
    uint64_t owed[BT_SCHEDULE_ENGINES] = {0, 0};
    if (!b) return bt_fail(fault, BT_ENOMEM, "out of memory pricing a program");
    price_chunk(ns, p->other_ns, NULL, p, b, c->program, &at);
    for (size_t j = 0; has_overlap && j < b->stages; j++) {
        const int engine = p->as_stage[j].engine;
        ns[j] = bt_time_plus(ns[j], owed[engine]);
        owed[engine] = 0;
        owed[!engine] = bt_time_plus(owed[!engine], p->other_ns[j]);
    }
    return BT_OK;
}

bt_price_sum bt_price_pkg_sum(bt_price_pkg *p, const bt_price_pkg_chunk *c)
{
    const body *b = body_of(p, c->program, c->rows, NULL);
    const bt_stage_chunk at = {.pos = c->pos, .rows = c->rows, .ctx = c->ctx, .is_first = c->is_first};
    bt_price_sum sum = {0};
    if (b) price_chunk(p->ns, p->other_ns, &sum, p, b, c->program, &at);
    return sum;
}

uint64_t bt_price_pkg_first_ns(bt_price_pkg *p)
{
    bt_price_pkg_chunk c;
    if (bt_price_pkg_cut(&c, p, 0, 0, 1, NULL) < 0) return 0;
    const body *b = body_of(p, c.program, c.rows, NULL);
    return b ? bt_time_plus(b->first_ns, b->tail_first_ns) : 0;
}

/* ---- for device/work.h ---- */

static bt_work_chunk cut(void *ud, uint64_t begin, uint64_t end)
{
    const bt_price_pkg *p = ud;
    const bt_shapes_chunk c = bt_shapes_next(&p->shapes, (size_t)end, (size_t)begin);
    return (bt_work_chunk){.rows = c.rows, .valid = c.valid};
}

static bt_price_sum chunk(void *ud, uint64_t first, uint64_t begin, uint64_t end, bool makes_logits)
{
    bt_price_pkg *p = ud;
    bt_price_pkg_chunk c;
    const bt_pkg_row *row;
    if (bt_price_pkg_cut(&c, p, first, begin, end, NULL) < 0) return (bt_price_sum){0};
    if (c.is_last && !makes_logits &&
        bt_pkg_find_row(&row, p->pkg, 1, c.rows, c.pos + c.valid, NULL) == BT_OK)
        c.program = row->program[BT_PKG_OUT_NONE];
    return bt_price_pkg_sum(p, &c);
}

/* Adds the work of one more row of logits behind the last layer. */
static void add_tail(bt_price_sum *s, const body *none, const body *last, bool is_first_use)
{
    const uint64_t ns = bt_time_plus(last->sum.tail_ns, is_first_use ? last->tail_first_ns : 0);
    s->ns = bt_time_plus(s->ns, ns);
    s->tail_ns = bt_time_plus(s->tail_ns, ns);
    s->first_ns = bt_time_plus(s->first_ns, is_first_use ? last->tail_first_ns : 0);
    s->ops = bt_time_plus(s->ops, last->sum.ops - none->sum.ops);
    s->bytes = bt_time_plus(s->bytes, last->sum.bytes - none->sum.bytes);
    for (int k = 0; k < BT_PRICE_PARTS; k++)
        s->part_ns[k] = bt_time_plus(s->part_ns[k], last->sum.part_ns[k] - none->sum.part_ns[k]);
    for (int k = 0; k < BT_TERMS; k++)
        s->term_ns[k] = bt_time_plus(s->term_ns[k], last->sum.term_ns[k] - none->sum.term_ns[k]);
    if (is_first_use)
        s->term_ns[BT_TERM_PRODUCTS] = bt_time_plus(s->term_ns[BT_TERM_PRODUCTS], last->tail_first_ns);
}

static bt_price_sum batch(void *ud, uint64_t rows, const bt_price_batch *s, bool is_first, uint64_t outs)
{
    bt_price_pkg *p = ud;
    const uint64_t padding = s->rows < rows ? rows - s->rows : 0, own = bt_time_plus(s->end, padding),
                   most = s->most > own ? s->most : own, ctx = bt_pkg_header_of(p->pkg)->ctx_tokens;
    const bt_pkg_row *row;
    bt_price_sum sum = {0};
    if (bt_pkg_find_row(&row, p->pkg, 1, rows, most < ctx ? most : ctx, NULL) < 0) return sum;
    const uint32_t program = row->program[BT_PKG_OUT_NONE];
    const bt_stage_chunk at = {.rows = rows, .ctx = row->ctx, .is_first = is_first, .batch = s};
    const body *b = body_of(p, program, rows, NULL);
    if (b) price_chunk(p->ns, p->other_ns, &sum, p, b, program, &at);
    const body *last = b ? body_of(p, row->program[BT_PKG_OUT_LAST], rows, NULL) : NULL;
    b = last ? body_of(p, program, rows, NULL) : NULL; /* body_of may have moved it */
    for (uint64_t i = 0; b && i < outs; i++) add_tail(&sum, b, last, !i);
    return sum;
}

bt_work_programs bt_price_pkg_programs(bt_price_pkg *p)
{
    return (bt_work_programs){.profile = &p->npu, .cut = cut, .chunk = chunk, .batch = batch, .ud = p};
}
