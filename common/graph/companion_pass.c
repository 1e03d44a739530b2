/* Passes: which row-wise steps may wait and run together, and how blocks of rows go through them. A step's
 * arithmetic is its operator's (companion_rows.c). */
#include "graph/companion_private.h"

#include <stdlib.h>

/* MAX_STEPS: that wait at once. BLOCK_BYTES: a block's widest rows, so few that they fit the second cache
 * beside what else is there. SHARES: blocks that each thread gets, at least. */
enum { MAX_STEPS = 8, BLOCK_BYTES = 64 * 1024, SHARES = 4 };

struct bt_companion_pass {
    const bt_companion *c;
    bool is_open;   /* between begin and end */
    bool has_block; /* one matrix of the steps that wait is kept in each thread's block (bt_companion_drop) */
    bt_companion_pass_step step[MAX_STEPS];
    size_t steps;           /* that wait, all over the same t rows */
    size_t t, width, elems; /* width: of the widest; elems: of all steps together */
    bt_pool_range blocks;   /* rows that threads take */
};

bt_companion_pass *bt_companion_pass_new(void) { return calloc(1, sizeof(bt_companion_pass)); }
void bt_companion_pass_free(bt_companion_pass *p) { free(p); }
size_t bt_companion_pass_scratch_bytes(void) { return BLOCK_BYTES; }

static void pass_part(void *ud, size_t part, size_t parts)
{
    bt_companion_pass *p = ud;
    uint8_t *scratch = bt_companion_scratch(p->c, part);
    float *block = (float *)(void *)(scratch + p->c->scratch_bytes - BLOCK_BYTES);
    size_t r0, r1;
    (void)parts;
    while (bt_pool_range_take(&p->blocks, &r0, &r1))
        for (size_t i = 0; i < p->steps; i++) {
            const bt_companion_pass_step *s = &p->step[i];
            const size_t at = r0 * bt_companion_ld(p->c, s->k);
            float *y = s->y_in_block ? block : s->y ? s->y + at : NULL;
            const float *x = s->x_in_block ? block : s->x ? s->x + at : NULL;
            s->fn(p->c, s, y, x, r0, r1 - r0, scratch);
        }
}

static size_t rows_of_a_block(const bt_companion_pass *p)
{
    return BLOCK_BYTES / (bt_companion_ld(p->c, p->width) * sizeof(float));
}

void bt_companion_flush(const bt_companion *c)
{
    bt_companion_pass *p = c->pass;
    if (!p->steps) return;
    bt_pool *pool = bt_companion_pool_for(c, p->elems);
    p->c = c;
    const size_t fit = rows_of_a_block(p), share = p->t / (SHARES * bt_pool_threads(pool));
    bt_pool_range_init(&p->blocks, p->t, fit < share ? fit : share);
    bt_pool_run(pool, pass_part, p);
    p->steps = 0;
    p->has_block = false;
}

void bt_companion_begin(const bt_companion *c) { c->pass->is_open = true; }
void bt_companion_end(const bt_companion *c)
{
    bt_companion_flush(c);
    c->pass->is_open = false;
}

/* Whether, of two steps over the same t rows, the later, which touches b, may run on some rows before the
 * earlier, which touches a, has run on others. */
static bool is_apart(const bt_companion_area *a, const bt_companion_area *b, size_t t)
{
    const uintptr_t p = (uintptr_t)a->at, q = (uintptr_t)b->at;
    if (!p || !q || (!a->is_written && !b->is_written) || (p == q && a->stride == b->stride)) return true;
    return p + t * a->stride <= q || q + t * b->stride <= p;
}

/* Whether the step may wait with those that wait. */
static bool is_row_local(const bt_companion_pass *p, const bt_companion_pass_step *s)
{
    for (size_t i = 0; i < p->steps; i++)
        for (size_t a = 0; a < p->step[i].areas; a++)
            for (size_t b = 0; b < s->areas; b++)
                if (!is_apart(&p->step[i].area[a], &s->area[b], p->t)) return false;
    return true;
}

void bt_companion_pass_add(const bt_companion *c, const bt_companion_pass_step *s, size_t t)
{
    bt_companion_pass *p = c->pass;
    if (p->steps == MAX_STEPS || p->t != t || !is_row_local(p, s)) bt_companion_flush(c);
    if (!p->steps) p->c = c, p->t = t, p->width = 1, p->elems = 0;
    p->step[p->steps++] = *s;
    p->elems += t * s->k;
    if (s->k > p->width) p->width = s->k;
    if (!p->is_open) bt_companion_flush(c);
}

void bt_companion_drop(const bt_companion *c, const void *x)
{
    bt_companion_pass *p = c->pass;
    size_t i = 0;
    while (i < p->steps && (p->step[i].y != x || !p->step[i].is_fresh)) i++;
    if (i == p->steps || p->has_block || !rows_of_a_block(p)) return;
    for (size_t n = i; n < p->steps; n++)
        if (p->step[n].w == x) return; /* a second operand is read from memory */
    p->has_block = p->step[i].y_in_block = true;
    for (i++; i < p->steps; i++) {
        p->step[i].x_in_block = p->step[i].x == x;
        p->step[i].y_in_block = p->step[i].y == x;
    }
}
