/* Linears: the panels of a group's matrices, cut into pieces that threads take. */
#include "graph/companion_private.h"

enum { PIECE_PANELS = 8 };

typedef struct linear_job {
    const bt_companion *c;
    const bt_companion_matrix *m;
    const float *x;
    size_t group, t, k;
    size_t panels;        /* of all matrices, one after the other */
    bt_pool_range pieces; /* of these, equal within one panel, as many for each thread */
} linear_job;

static void panels_of(const linear_job *j, const bt_companion_matrix *m, size_t p0, size_t p1,
                      const float *sums)
{
    const bt_kernels *kernels = j->c->kernels;
    const size_t ldy = m->ld ? m->ld : bt_companion_ld(j->c, m->n), ldx = bt_companion_ld(j->c, j->k);
    const size_t t = m->rows ? m->rows : j->t;
    const float *x = j->x + m->first * ldx;
    float *y = m->y + m->first * ldy;
    switch (m->form) {
    case BT_FORM_F16: kernels->matmul(y, ldy, x, ldx, m->panels, m->bias, t, m->n, j->k, p0, p1); break;
    case BT_FORM_INT8:
        kernels->matmul8(y, ldy, x, ldx, m->panels, m->bias, t, m->n, j->k, m->group, p0, p1);
        break;
    case BT_FORM_FP4:
        sums += m->first * ((j->k + BT_FORM_GROUP - 1) / BT_FORM_GROUP);
        kernels->matmul4(y, ldy, x, ldx, m->panels, m->bias, t, m->n, j->k, p0, p1, sums);
        break;
    case BT_FORM_MX: kernels->matmul_mx(y, ldy, x, ldx, m->panels, m->bias, t, m->n, j->k, p0, p1); break;
    }
}

static void linear_part(void *ud, size_t part, size_t parts)
{
    linear_job *j = ud;
    float *sums = bt_companion_scratch(j->c, part);
    (void)parts;
    for (size_t g = 0; g < j->group; g++)
        if (j->m[g].form == BT_FORM_FP4) {
            j->c->kernels->fp4_sums(sums, j->x, bt_companion_ld(j->c, j->k), j->t, j->k);
            break;
        }
    for (size_t i, end_piece; bt_pool_range_take(&j->pieces, &i, &end_piece);) {
        size_t p0 = j->panels * i / j->pieces.count, p1 = j->panels * end_piece / j->pieces.count;
        for (size_t g = 0; g < j->group && p1 > 0; g++) {
            const bt_companion_matrix *m = &j->m[g];
            const size_t panels = bt_matmul_panels(m->n), end = p1 < panels ? p1 : panels;
            if (p0 < end) panels_of(j, m, p0, end, sums);
            p0 = p0 > panels ? p0 - panels : 0;
            p1 = p1 > panels ? p1 - panels : 0;
        }
    }
}

void bt_companion_linear(const bt_companion *c, const bt_companion_matrix *m, size_t group, const float *x,
                         size_t t, size_t k)
{
    bt_companion_flush(c);
    linear_job j = {.c = c, .m = m, .x = x, .group = group, .t = t, .k = k};
    const size_t share = PIECE_PANELS * bt_pool_threads(c->pool);
    for (size_t g = 0; g < group; g++) j.panels += bt_matmul_panels(m[g].n);
    bt_pool_range_init(&j.pieces, (j.panels + share - 1) / share * bt_pool_threads(c->pool), 1);
    bt_pool_run(c->pool, linear_part, &j);
}
