/* Header and table of an image: written when it is filled, and checked, with every byte, before a mapped one
 * is used. No place in a file is followed: the plan gives every place, and the file only says which matrices
 * fell back. */
#include "base/hash.h"
#include "base/num.h"
#include "model/weights_private.h"

#include <stdatomic.h>
#include <string.h>

enum { DIGEST_AT = 48 };

static void digest(uint8_t ret[BT_HASH_BYTES], const uint8_t *image, const bt_weights_plan *p)
{
    static const uint8_t zero[BT_HASH_BYTES];
    bt_hash_stream s;
    bt_hash_begin(&s);
    bt_hash_add(&s, image, DIGEST_AT);
    bt_hash_add(&s, zero, sizeof zero);
    bt_hash_add(&s, image + BT_WEIGHTS_HEADER_BYTES, p->count * BT_WEIGHTS_ENTRY_BYTES);
    bt_hash_end(ret, &s);
}

/* ---- the items' hashes, on all threads ---- */

typedef struct hash_job {
    const bt_weights_plan *plan;
    const uint8_t *image;
    uint8_t *table; /* to write to; NULL: compare */
    atomic_bool differs;
} hash_job;

static void hash_part(void *ud, size_t part, size_t parts)
{
    hash_job *j = ud;
    for (size_t n = part; n < j->plan->count; n += parts) {
        const bt_weights_item *i = &j->plan->item[n];
        const uint64_t h = bt_hash64(j->image + i->at, i->end - i->at);
        const size_t at = n * BT_WEIGHTS_ENTRY_BYTES + 32;
        if (j->table) bt_put64(j->table + at, h);
        else if (bt_get64(j->image + BT_WEIGHTS_HEADER_BYTES + at) != h) atomic_store(&j->differs, true);
    }
}

void bt_weights_seal(uint8_t *image, const bt_weights_plan *p, bt_pool *pool)
{
    uint8_t *entry = image + BT_WEIGHTS_HEADER_BYTES;
    memcpy(image, BT_WEIGHTS_MAGIC, 8);
    bt_put32(image + 8, BT_WEIGHTS_VERSION);
    bt_put32(image + 12, (uint32_t)p->form);
    memcpy(image + 16, p->model->id, sizeof p->model->id);
    bt_put64(image + 32, p->bytes);
    bt_put32(image + 40, (uint32_t)p->count);
    for (size_t n = 0; n < p->count; n++, entry += BT_WEIGHTS_ENTRY_BYTES) {
        const bt_weights_item *i = &p->item[n];
        bt_put32(entry, i->layer);
        bt_put16(entry + 4, (uint16_t)i->which);
        bt_put16(entry + 6, (uint16_t)i->form);
        bt_put32(entry + 8, (uint32_t)i->group);
        bt_put64(entry + 16, i->at);
        bt_put64(entry + 24, i->end);
    }
    hash_job j = {.plan = p, .image = image, .table = image + BT_WEIGHTS_HEADER_BYTES};
    bt_pool_run(pool, hash_part, &j);
    digest(image + DIGEST_AT, image, p);
}

/* The plan's form of a matrix, or the one that it falls back to. */
static bool take_form(bt_weights_item *i, const uint8_t *entry)
{
    const uint32_t form = bt_get16(entry + 6), group = bt_get32(entry + 8);
    if (form == (uint32_t)i->form && group == i->group) return true;
    if (!bt_weight_is_matrix(i->which) || i->form != BT_FORM_FP4) return false;
    bt_weights_plan_fall_back(i);
    return form == (uint32_t)i->form && group == i->group;
}

static bool has_place(const bt_weights_item *i, const uint8_t *entry)
{
    return bt_get32(entry) == i->layer && bt_get16(entry + 4) == (uint16_t)i->which &&
           bt_get64(entry + 16) == i->at && bt_get64(entry + 24) == i->end;
}

bt_err bt_weights_check(bt_weights_plan *p, const uint8_t *image, size_t bytes, bt_fault *fault)
{
    const uint8_t *table = image + BT_WEIGHTS_HEADER_BYTES;
    uint8_t d[BT_HASH_BYTES];
    if (bytes < BT_WEIGHTS_HEADER_BYTES + p->count * BT_WEIGHTS_ENTRY_BYTES ||
        memcmp(image, BT_WEIGHTS_MAGIC, 8) != 0)
        return bt_fail(fault, BT_EFORMAT, "the file holds no weights");
    if (bt_get32(image + 8) != BT_WEIGHTS_VERSION)
        return bt_fail(fault, BT_EVERSION, "the weights have version %u, not %d", bt_get32(image + 8),
                       BT_WEIGHTS_VERSION);
    if (bt_get32(image + 12) != (uint32_t)p->form ||
        memcmp(image + 16, p->model->id, sizeof p->model->id) != 0)
        return bt_fail(fault, BT_EFORMAT, "the weights are of another model or form");
    digest(d, image, p);
    if (bt_get64(image + 32) != bytes || bt_get32(image + 40) != p->count ||
        memcmp(image + DIGEST_AT, d, sizeof d) != 0)
        return bt_fail(fault, BT_EFORMAT, "the header of the weights is damaged");
    bt_weights_plan_choose(p);
    for (size_t n = 0; n < p->count; n++)
        if (!take_form(&p->item[n], table + n * BT_WEIGHTS_ENTRY_BYTES))
            return bt_fail(fault, BT_EFORMAT, "item %zu has no form of its own", n);
    const bt_err e = bt_weights_plan_place(p, fault);
    if (e < 0) return e;
    for (size_t n = 0; n < p->count; n++)
        if (!has_place(&p->item[n], table + n * BT_WEIGHTS_ENTRY_BYTES))
            return bt_fail(fault, BT_EFORMAT, "item %zu is not in its place", n);
    if (p->bytes != bytes)
        return bt_fail(fault, BT_EFORMAT, "the file of weights has %zu bytes, not %zu", bytes, p->bytes);
    return BT_OK;
}

bt_err bt_weights_check_content(const bt_weights_plan *p, const uint8_t *image, bt_pool *pool,
                                bt_fault *fault)
{
    hash_job j = {.plan = p, .image = image};
    bt_pool_run(pool, hash_part, &j);
    return j.differs ? bt_fail(fault, BT_EFORMAT, "the weights are damaged") : BT_OK;
}
