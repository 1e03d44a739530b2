/* Pages with several holders: sharing and copy-on-write, against a model that is plain lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kv/kv_pages.h"

enum { LAYERS = 2, HEADS = 2, DIM = 4 };

static bt_kv_pages *new_pool(uint32_t elem, size_t page, size_t tokens)
{
    bt_kv_pages *p = NULL;
    bt_fault f = {""};
    if (bt_kv_pages_new(&p, LAYERS, HEADS, DIM, elem, page, tokens, &f) < 0) fail_msg("%s", f.text);
    return p;
}

/* The bytes of one row, all of them a function of what is in it and where it is. */
static void row_of(uint8_t *ret, size_t bytes, uint32_t value, size_t layer, int is_v, size_t t)
{
    for (size_t i = 0; i < bytes; i++)
        ret[i] = (uint8_t)(bt_rng_u64(value, ((layer * 2 + (size_t)is_v) * 4096 + t) * 64 + i / 8) >> (i % 8 * 8));
}

static void write_row(const bt_kv_pages *p, const bt_kv_seq *s, size_t t, uint32_t value)
{
    bt_kv_view v;
    bt_kv_pages_view(&v, p, s);
    for (size_t l = 0; l < LAYERS; l++)
        for (int is_v = 0; is_v < 2; is_v++) row_of(bt_kv_view_row(&v, l, is_v, t, 0), v.token_bytes, value, l, is_v, t);
}

static void expect_row(const bt_kv_pages *p, const bt_kv_seq *s, size_t t, uint32_t value)
{
    bt_kv_view v;
    bt_kv_pages_view(&v, p, s);
    uint8_t want[64];
    assert_true(v.token_bytes <= sizeof want);
    for (size_t l = 0; l < LAYERS; l++)
        for (int is_v = 0; is_v < 2; is_v++) {
            row_of(want, v.token_bytes, value, l, is_v, t);
            assert_memory_equal(bt_kv_view_row(&v, l, is_v, t, 0), want, v.token_bytes);
        }
}

static void a_shared_page_is_copied_by_whoever_writes_first_and_kept_by_the_other(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 16, 16 * 8);
    bt_kv_seq a = {0}, b = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &a, 40, NULL), BT_OK);
    for (size_t t = 0; t < 40; t++) write_row(p, &a, t, 1);
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 40, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_used(p), 3);
    assert_int_equal(bt_kv_pages_shared(p), 3);
    assert_memory_equal(b.number, a.number, sizeof *a.number * 3);

    assert_int_equal(bt_kv_pages_own(p, &b, 35, 40, NULL), BT_OK);
    const uint32_t want[] = {0, 1, 3};
    assert_memory_equal(b.number, want, sizeof want);
    assert_int_equal(bt_kv_pages_used(p), 4);
    assert_int_equal(bt_kv_pages_shared(p), 2);
    for (size_t t = 35; t < 40; t++) write_row(p, &b, t, 2);
    for (size_t t = 0; t < 40; t++) {
        expect_row(p, &a, t, 1);
        expect_row(p, &b, t, t < 35 ? 1 : 2);
    }
    assert_int_equal(bt_kv_pages_own(p, &a, 40, 48, NULL), BT_OK);             /* nobody else has it now */
    assert_int_equal(a.number[2], 2);
    bt_kv_pages_release(p, &a);
    assert_int_equal(bt_kv_pages_used(p), 3);
    assert_int_equal(bt_kv_pages_shared(p), 0);
    assert_int_equal(bt_kv_pages_own(p, &b, 0, 48, NULL), BT_OK);              /* left alone with them: no copy */
    assert_memory_equal(b.number, want, sizeof want);
    bt_kv_pages_release(p, &b);
    assert_int_equal(bt_kv_pages_free_count(p), 8);
    bt_kv_pages_free(p);
}

static void the_copy_holds_the_rows_below_the_first_one_written_and_no_other(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(1, 16, 48);
    bt_kv_seq a = {0}, b = {0}, c = {0};
    const size_t page_bytes = bt_kv_pages_page_bytes(p);
    assert_int_equal(bt_kv_pages_reserve(p, &c, 48, NULL), BT_OK);
    for (size_t i = 0; i < 3; i++) memset(c.page[i], 0xee, page_bytes);
    bt_kv_pages_release(p, &c);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 16, NULL), BT_OK);
    for (size_t t = 0; t < 16; t++) write_row(p, &a, t, 1);
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 16, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_own(p, &b, 5, 16, NULL), BT_OK);
    bt_kv_view v;
    bt_kv_pages_view(&v, p, &b);
    uint8_t untouched[64];
    memset(untouched, 0xee, sizeof untouched);
    for (size_t t = 0; t < 16; t++)
        if (t < 5) expect_row(p, &b, t, 1);
        else
            for (size_t l = 0; l < LAYERS; l++)
                for (int is_v = 0; is_v < 2; is_v++)
                    assert_memory_equal(bt_kv_view_row(&v, l, is_v, t, 0), untouched, v.token_bytes);
    bt_kv_pages_release(p, &a);
    bt_kv_pages_release(p, &b);
    bt_kv_pages_free(p);
}

static void a_copy_that_finds_no_free_page_changes_nothing(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 16, 16 * 4);
    bt_kv_seq a = {0}, b = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &a, 48, NULL), BT_OK);
    for (size_t t = 0; t < 48; t++) write_row(p, &a, t, 1);
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 48, NULL), BT_OK);
    bt_fault f = {""};
    assert_int_equal(bt_kv_pages_own(p, &b, 17, 48, &f), BT_EAGAIN);
    assert_string_equal(f.text, "2 KV pages to be copied, 1 are free");
    assert_memory_equal(b.number, a.number, sizeof *a.number * 3);
    assert_int_equal(bt_kv_pages_shared(p), 3);
    assert_int_equal(bt_kv_pages_own(p, &b, 32, 48, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_own(p, &b, 32, 48, NULL), BT_OK);             /* its own already */
    for (size_t t = 0; t < 32; t++) expect_row(p, &b, t, 1);
    bt_kv_pages_release(p, &a);
    bt_kv_pages_release(p, &b);
    bt_kv_pages_free(p);
}

static void rows_that_a_sequence_does_not_hold_are_not_shared_or_owned(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 16, 16 * 4);
    bt_kv_seq a = {0}, b = {0};
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 1, NULL), BT_EARG);
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 0, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 20, NULL), BT_OK);
    bt_fault f = {""};
    assert_int_equal(bt_kv_pages_share(p, &b, &a, 33, &f), BT_EARG);
    assert_string_equal(f.text, "33 tokens of a sequence whose KV pages hold 32");
    assert_int_equal(bt_kv_pages_share(p, &b, &a, SIZE_MAX, NULL), BT_EARG);
    assert_int_equal(b.len, 0);
    assert_int_equal(bt_kv_pages_own(p, &a, 20, 33, NULL), BT_EARG);
    assert_int_equal(bt_kv_pages_own(p, &a, 7, 7, NULL), BT_EARG);
    assert_int_equal(bt_kv_pages_own(p, &a, SIZE_MAX - 1, SIZE_MAX, NULL), BT_EARG);
    assert_int_equal(bt_kv_pages_shared(p), 0);
    bt_kv_pages_release(p, &a);
    bt_kv_pages_free(p);
}

/* The model: every sequence is the list of its rows' values and of its pages' numbers, every page a count. */
enum { SEQS = 7, PAGE = 4, PAGES = 21, ROWS = 40 };

typedef struct plain {
    bt_kv_seq s;
    uint32_t value[ROWS], number[ROWS / PAGE];
    size_t rows, pages;
} plain;

typedef struct world {
    bt_kv_pages *p;
    plain q[SEQS];
    unsigned count[PAGES], ops[4];
    uint64_t seed, draws;
    uint32_t values;
} world;

static size_t draw(world *w, size_t n) { return (size_t)(bt_rng_u64(w->seed, w->draws++) % n); }

static size_t free_pages(const world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < PAGES; i++) n += w->count[i] == 0;
    return n;
}

static uint32_t lowest(world *w)
{
    uint32_t i = 0;
    while (w->count[i]) i++;
    w->count[i] = 1;
    return i;
}

/* Room for one to ten rows more, pages of its own under them, and the rows; or none of it where the model says that
 * no page is free. */
static void append(world *w, plain *q)
{
    size_t n = 1 + draw(w, 10);
    if (n > ROWS - q->rows) n = ROWS - q->rows;
    if (n == 0) return;
    const size_t want = (q->rows + n + PAGE - 1) / PAGE, more = want > q->pages ? want - q->pages : 0;
    const bool has_room = more <= free_pages(w);
    assert_int_equal(bt_kv_pages_reserve(w->p, &q->s, q->rows + n, NULL), has_room ? BT_OK : BT_EAGAIN);
    if (!has_room) return;
    for (size_t i = 0; i < more; i++) q->number[q->pages++] = lowest(w);
    size_t copies = 0;
    for (size_t i = q->rows / PAGE; i < want; i++) copies += w->count[q->number[i]] > 1;
    const bool can_copy = copies <= free_pages(w);
    assert_int_equal(bt_kv_pages_own(w->p, &q->s, q->rows, q->rows + n, NULL), can_copy ? BT_OK : BT_EAGAIN);
    if (!can_copy) return;
    for (size_t i = q->rows / PAGE; i < want; i++)
        if (w->count[q->number[i]] > 1) {
            w->count[q->number[i]]--;
            q->number[i] = lowest(w);
        }
    for (size_t i = 0; i < n; i++, q->rows++) {
        q->value[q->rows] = ++w->values;
        write_row(w->p, &q->s, q->rows, w->values);
    }
    w->ops[0]++;
    w->ops[1] += (unsigned)copies;
}

static void let_go(world *w, plain *q)
{
    bt_kv_pages_release(w->p, &q->s);
    for (size_t i = 0; i < q->pages; i++) w->count[q->number[i]]--;
    q->pages = 0;
}

static void share(world *w, plain *q, const plain *src)
{
    if (src->rows == 0) return;
    let_go(w, q);
    q->rows = 1 + draw(w, src->rows);
    q->pages = (q->rows + PAGE - 1) / PAGE;
    assert_int_equal(bt_kv_pages_share(w->p, &q->s, &src->s, q->rows, NULL), BT_OK);
    memcpy(q->value, src->value, sizeof q->value);
    memcpy(q->number, src->number, sizeof q->number);
    for (size_t i = 0; i < q->pages; i++) w->count[q->number[i]]++;
    w->ops[2]++;
}

static void compare(const world *w)
{
    size_t shared = 0;
    for (size_t i = 0; i < PAGES; i++) shared += w->count[i] > 1;
    assert_int_equal(bt_kv_pages_free_count(w->p), free_pages(w));
    assert_int_equal(bt_kv_pages_used(w->p), PAGES - free_pages(w));
    assert_int_equal(bt_kv_pages_shared(w->p), shared);
    for (size_t k = 0; k < SEQS; k++) {
        const plain *q = &w->q[k];
        assert_int_equal(q->s.len, q->pages);
        if (q->pages) assert_memory_equal(q->s.number, q->number, q->pages * sizeof *q->number);
        for (size_t t = 0; t < q->rows; t++) expect_row(w->p, &q->s, t, q->value[t]);
    }
}

static void any_order_of_sharing_and_owning_keeps_every_row_and_page(void **state)
{
    (void)state;
    unsigned done[4] = {0};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world w = {.p = new_pool(seed % 2 ? 1 : 2, PAGE, PAGE * PAGES), .seed = seed};
        for (unsigned step = 0; step < 600; step++) {
            plain *q = &w.q[draw(&w, SEQS)];
            const size_t what = draw(&w, 10);
            if (what < 5) append(&w, q);
            else if (what < 7) {
                const plain *src = &w.q[draw(&w, SEQS)];
                if (src != q) share(&w, q, src);
            } else if (what < 9) {
                let_go(&w, q);
                q->rows = 0;
                w.ops[3]++;
            }
            compare(&w);
        }
        for (size_t k = 0; k < SEQS; k++) let_go(&w, &w.q[k]);
        assert_int_equal(bt_kv_pages_used(w.p), 0);
        bt_kv_pages_free(w.p);
        for (size_t i = 0; i < 4; i++) done[i] += w.ops[i];
    }
    print_message("seeds 1 to 12: %u appends, %u copies on write, %u shares, %u releases\n", done[0],
                  done[1], done[2], done[3]);
    for (size_t i = 0; i < 4; i++) assert_true(done[i] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_page_is_copied_by_whoever_writes_first_and_kept_by_the_other),
        cmocka_unit_test(the_copy_holds_the_rows_below_the_first_one_written_and_no_other),
        cmocka_unit_test(a_copy_that_finds_no_free_page_changes_nothing),
        cmocka_unit_test(rows_that_a_sequence_does_not_hold_are_not_shared_or_owned),
        cmocka_unit_test(any_order_of_sharing_and_owning_keeps_every_row_and_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
