/* The page book against a model that is plain lists: every kept prefix is written out whole, every
 * search looks at all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kv/kv_book.h"

enum { PAGE_TOKENS = 2, PAGES = 24, SEQS = 6, SEQ_PAGES = 7, IDS = SEQ_PAGES * PAGE_TOKENS + 3 };

typedef struct kept {
    uint64_t class;
    int32_t ids[IDS];
    uint32_t len, page; /* len: of the whole prefix, this page its last */
    uint64_t used;      /* when it was let go of last */
} kept;

typedef struct model {
    uint32_t table[SEQS][SEQ_PAGES], len[SEQS];
    kept kept[PAGES];
    uint32_t kept_len;
    uint64_t clock;
} model;

/* How books of these tests know prompts. */
static bt_prompt_by by = BT_PROMPT_BY_IDS;
static uint32_t block_tokens = 1;
static uint32_t none;       /* room of window pages, of which there are none */
static bt_prompt_salt salt; /* of the prompts that are asked for next */

static bt_kv_book *new_book(uint32_t pages, uint32_t page_tokens, uint32_t seqs, uint32_t seq_pages)
{
    bt_kv_book *b = NULL;
    bt_fault f = {""};
    if (bt_kv_book_new(&b, pages, page_tokens, seqs, seq_pages, by, &f) < 0) fail_msg("%s", f.text);
    return b;
}

/* The prompt of these ids, with what the book goes by and nothing else. */
static const bt_prompt_view *of(const int32_t *ids, uint32_t len)
{
    static uint64_t hashes[IDS];
    static bt_prompt_view view;
    if (by == BT_PROMPT_BY_HASHES) bt_prompt_hash(hashes, ids, len, block_tokens);
    view = by == BT_PROMPT_BY_IDS
               ? (bt_prompt_view){.tokens = len, .ids = ids}
               : (bt_prompt_view){.tokens = len, .hashes = {.of = hashes, .block_tokens = block_tokens}};
    view.salt = salt;
    return &view;
}

static uint32_t holders(const model *m, uint32_t page)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < SEQS; s++)
        for (uint32_t i = 0; i < m->len[s]; i++) n += m->table[s][i] == page;
    return n;
}

static bool is_kept(const model *m, uint32_t page)
{
    for (uint32_t i = 0; i < m->kept_len; i++)
        if (m->kept[i].page == page) return true;
    return false;
}

static const kept *find(const model *m, uint64_t class, const int32_t *ids, uint32_t len)
{
    for (uint32_t i = 0; i < m->kept_len; i++)
        if (m->kept[i].class == class && m->kept[i].len == len &&
            !memcmp(m->kept[i].ids, ids, len * sizeof *ids))
            return &m->kept[i];
    return NULL;
}

static uint32_t match(const model *m, uint64_t class, const int32_t *ids, uint32_t len)
{
    uint32_t done = 0;
    while (done + PAGE_TOKENS <= len && done / PAGE_TOKENS < SEQ_PAGES &&
           find(m, class, ids, done + PAGE_TOKENS))
        done += PAGE_TOKENS;
    return done;
}

/* The cached page to go next: none that a longer one goes through, of these the one let go of first. */
static uint32_t to_evict(const model *m)
{
    const kept *best = NULL;
    for (uint32_t i = 0; i < m->kept_len; i++) {
        const kept *k = &m->kept[i];
        bool is_inner = holders(m, k->page) > 0;
        for (uint32_t j = 0; j < m->kept_len; j++)
            is_inner = is_inner || (m->kept[j].len > k->len && m->kept[j].class == k->class &&
                                    !memcmp(m->kept[j].ids, k->ids, k->len * sizeof *k->ids));
        if (!is_inner && (!best || k->used < best->used)) best = k;
    }
    return best ? best->page : UINT32_MAX;
}

static void forget_page(model *m, uint32_t page)
{
    for (uint32_t i = 0; i < m->kept_len; i++)
        if (m->kept[i].page == page) m->kept[i--] = m->kept[--m->kept_len];
}

static void counts(const model *m, uint32_t *used, uint32_t *cached)
{
    *used = *cached = 0;
    for (uint32_t p = 0; p < PAGES; p++) {
        *used += holders(m, p) > 0;
        *cached += holders(m, p) == 0 && is_kept(m, p);
    }
}

static void hold(model *m, bt_kv_book *b, uint32_t seq, uint32_t tokens)
{
    const uint32_t want = (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    uint32_t used, cached, len;
    counts(m, &used, &cached);
    const bool may = want <= m->len[seq] || (want <= SEQ_PAGES && want - m->len[seq] <= PAGES - used);
    assert_int_equal(bt_kv_book_hold(b, seq, tokens), may);
    const uint32_t *got = bt_kv_book_table(b, seq, &len);
    assert_int_equal(len, may && want > m->len[seq] ? want : m->len[seq]);
    for (uint32_t free_pages = PAGES - used - cached; m->len[seq] < len; m->len[seq]++) {
        const uint32_t page = got[m->len[seq]];
        assert_true(page < PAGES);
        assert_int_equal(holders(m, page), 0);
        if (free_pages > 0) {
            assert_false(is_kept(m, page));
            free_pages--;
        } else {
            assert_int_equal(page, to_evict(m));
            forget_page(m, page);
        }
        m->table[seq][m->len[seq]] = page;
    }
}

static void release(model *m, bt_kv_book *b, uint32_t seq)
{
    bt_kv_book_release(b, seq);
    while (m->len[seq] > 0) {
        const uint32_t page = m->table[seq][--m->len[seq]];
        m->clock++;
        for (uint32_t i = 0; i < m->kept_len; i++)
            if (m->kept[i].page == page) m->kept[i].used = m->clock;
    }
}

/* The model's classes stand for two classes and two salts each. */
static uint64_t class_of(uint64_t who) { return 7 + who % 2; }

static const bt_prompt_view *of_salt(uint64_t who, const int32_t *ids, uint32_t len)
{
    salt.bytes[3] = (uint8_t)(who / 2 % 2);
    const bt_prompt_view *view = of(ids, len);
    salt = (bt_prompt_salt){{0}};
    return view;
}

static void share(model *m, bt_kv_book *b, uint32_t seq, uint64_t who, const int32_t *ids, uint32_t n)
{
    uint32_t used, cached, len, leave = 0;
    const uint32_t want = match(m, who, ids, n);
    counts(m, &used, &cached);
    for (uint32_t d = PAGE_TOKENS; d <= want; d += PAGE_TOKENS)
        leave += holders(m, find(m, who, ids, d)->page) == 0;
    assert_int_equal(bt_kv_book_match(b, class_of(who), of_salt(who, ids, n), n), want);
    assert_int_equal(bt_kv_book_room_after(b, class_of(who), of_salt(who, ids, n), n, &none),
                     PAGES - used - leave);
    if (m->len[seq] > 0) return;
    assert_int_equal(bt_kv_book_share(b, seq, class_of(who), of_salt(who, ids, n), n), want);
    const uint32_t *got = bt_kv_book_table(b, seq, &len);
    assert_int_equal(len, want / PAGE_TOKENS);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(got[i], find(m, who, ids, (i + 1) * PAGE_TOKENS)->page);
        m->table[seq][i] = got[i];
    }
    m->len[seq] = len;
    assert_int_equal(bt_kv_book_room(b), PAGES - used - leave);
}

static void keep(model *m, bt_kv_book *b, uint32_t seq, uint64_t who, const int32_t *ids, uint32_t n)
{
    bt_kv_book_keep(b, seq, class_of(who), of_salt(who, ids, n), n);
    for (uint32_t i = 0; i < m->len[seq] && (i + 1) * PAGE_TOKENS <= n; i++) {
        const uint32_t page = m->table[seq][i], len = (i + 1) * PAGE_TOKENS;
        const kept *k = find(m, who, ids, len);
        if (k && k->page != page) return;
        if (k) continue;
        if (is_kept(m, page))
            return; /* under other tokens: not what the header allows, and nothing comes of it */
        kept *to = &m->kept[m->kept_len++];
        *to = (kept){.class = who, .len = len, .page = page};
        memcpy(to->ids, ids, len * sizeof *ids);
    }
}

/* Few token values, classes and salts, so that prefixes meet often; up to 24 kept pages in 32 buckets, so
 * that some share one. */
static void run_storm(uint64_t seed, uint32_t steps)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    bt_kv_book *b = new_book(PAGES, PAGE_TOKENS, SEQS, SEQ_PAGES);
    model m = {.clock = 0};
    uint64_t draws = 0;
    uint32_t hits = 0, evictions = 0;
    for (uint32_t i = 0; i < steps; i++) {
        int32_t ids[IDS];
        const uint64_t r = bt_rng_u64(seed, draws++), bits = bt_rng_u64(seed, draws++);
        const uint32_t seq = (uint32_t)(r % SEQS), n = (uint32_t)(r >> 8) % (IDS + 1),
                       kind = (uint32_t)(r >> 16) % 64, kept_before = m.kept_len;
        const uint64_t who = (r >> 32) % 4;
        for (uint32_t k = 0; k < IDS; k++) ids[k] = (int32_t)(bits >> k & 1);
        if (kind < 20) hold(&m, b, seq, n);
        else if (kind < 34) release(&m, b, seq);
        else if (kind < 50) share(&m, b, seq, who, ids, n);
        else if (kind < 63) keep(&m, b, seq, who, ids, n);
        evictions += kind < 20 && m.kept_len < kept_before;
        hits += kind >= 34 && kind < 50 && m.len[seq] > 0;
        uint32_t used, cached;
        counts(&m, &used, &cached);
        assert_int_equal(bt_kv_book_used(b), used);
        assert_int_equal(bt_kv_book_cached(b), cached);
        assert_int_equal(bt_kv_book_room(b), PAGES - used);
        assert_true(bt_kv_book_is_sound(b));
    }
    assert_true(hits > steps / 100 && evictions > steps / 100);
    bt_kv_book_free(b);
}

static void does_what_plain_lists_do_whatever_the_order_of_calls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) run_storm(seed, 6000);
}

/* Blocks of one token, and of a whole page: the same numbers, for the model still compares tokens. */
static void finds_the_same_prefixes_by_hashes_of_blocks_that_a_page_is_made_of(void **state)
{
    (void)state;
    by = BT_PROMPT_BY_HASHES;
    for (block_tokens = 1; block_tokens <= PAGE_TOKENS; block_tokens++)
        for (uint64_t seed = 5; seed <= 6; seed++) run_storm(seed, 6000);
    block_tokens = 1;
    by = BT_PROMPT_BY_IDS;
}

/* Blocks of 4 tokens, pages of 2: whoever has 6 tokens in common has the pages of the first block in common,
 * and of the second block none; a block that the prompt's end cuts is another one than the same block whole.
 */
static void a_prefix_that_ends_inside_a_block_is_found_by_who_has_the_whole_block(void **state)
{
    (void)state;
    const int32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, six[] = {1, 2, 3, 4, 5, 6, 9, 9}, two[] = {1, 2, 9, 9};
    by = BT_PROMPT_BY_HASHES;
    block_tokens = 4;
    bt_kv_book *b = new_book(8, 2, 4, 4);
    assert_true(bt_kv_book_hold(b, 0, 8));
    bt_kv_book_keep(b, 0, 5, of(a, 8), 8);
    assert_int_equal(bt_kv_book_match(b, 5, of(a, 8), 8), 8);
    assert_int_equal(bt_kv_book_match(b, 5, of(a, 8), 7), 6); /* the block is there, the page is not asked for
                                                               */
    assert_int_equal(bt_kv_book_match(b, 5, of(six, 8), 8), 4);
    assert_int_equal(bt_kv_book_match(b, 5, of(two, 4), 4), 0);
    assert_int_equal(bt_kv_book_match(b, 5, of(a, 6), 6), 4);
    assert_int_equal(bt_kv_book_match(b, 6, of(a, 8), 8), 0);
    bt_kv_book_free(b);
    block_tokens = 1;
    by = BT_PROMPT_BY_IDS;
}

/* The bytes that the allocator has given out; sanitizers have one of their own, of which it knows nothing. */
static size_t taken_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* The bytes of this process that lie in memory. */
static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &all, &resident) != 2) fail_msg("/proc/self/statm cannot be read");
    fclose(f);
    return resident * 4096;
}

/* A tree of a million blocks: 4 sequences of 64 pages of 64 tokens at a time, half of each a prefix that
 * came before, until every page is kept; and then as many again, each in place of an old one. */
static void a_tree_of_a_million_blocks_takes_less_than_forty_bytes_each(void **state)
{
    (void)state;
    enum { N = 1 << 20, LONG = 64, TOKENS = 64 };
    uint64_t hashes[LONG], last[LONG] = {1};
    const bt_prompt_view view = {.tokens = LONG * TOKENS, .hashes = {hashes, TOKENS}};
    by = BT_PROMPT_BY_HASHES;
    const size_t before = resident_bytes(), taken_before = taken_bytes();
    bt_kv_book *b = new_book(N, TOKENS, 4, LONG);
    const size_t taken = taken_bytes() - taken_before;
    by = BT_PROMPT_BY_IDS;
    for (uint32_t i = 0; i < 2 * N / (LONG / 2); i++) {
        for (uint32_t k = 0; k < LONG; k++)
            hashes[k] = k < LONG / 2 && i > 0 ? last[k] : bt_rng_u64(k ? hashes[k - 1] : i, i);
        memcpy(last, hashes, sizeof last);
        const uint32_t seq = i % 4, had = bt_kv_book_share(b, seq, 1, &view, view.tokens);
        assert_int_equal(had, i > 0 ? LONG / 2 * TOKENS : 0);
        assert_true(bt_kv_book_hold(b, seq, view.tokens));
        bt_kv_book_keep(b, seq, 1, &view, view.tokens);
        assert_int_equal(bt_kv_book_match(b, 1, &view, view.tokens), view.tokens);
        bt_kv_book_release(b, seq);
    }
    assert_int_equal(bt_kv_book_cached(b), N);
    assert_true(bt_kv_book_is_sound(b));
    const size_t resident = resident_bytes() - before;
    print_message("%.1f bytes a page, %.1f of them resident\n", (double)taken / N, (double)resident / N);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    assert_true(taken > (size_t)30 * N);
    assert_true(taken < (size_t)40 * N);
    assert_true(resident < (size_t)41 * N);
#endif
    bt_kv_book_free(b);
}

/* A node that uses a hundredth of its pages has touched little of the memory for them. */
static void pages_that_were_never_held_take_no_memory_but_addresses(void **state)
{
    (void)state;
    enum { N = 1 << 20, LONG = 64, TOKENS = 64 };
    by = BT_PROMPT_BY_HASHES;
    const size_t before = resident_bytes(), taken_before = taken_bytes();
    bt_kv_book *b = new_book(N, TOKENS, 4, LONG);
    const size_t taken = taken_bytes() - taken_before;
    by = BT_PROMPT_BY_IDS;
    for (uint32_t i = 0; i < N / 100 / LONG; i++) {
        uint64_t hashes[LONG];
        const bt_prompt_view view = {.tokens = LONG * TOKENS, .hashes = {hashes, TOKENS}};
        for (uint32_t k = 0; k < LONG; k++) hashes[k] = bt_rng_u64(i, k);
        assert_true(bt_kv_book_hold(b, 0, view.tokens));
        bt_kv_book_keep(b, 0, 1, &view, view.tokens);
        bt_kv_book_release(b, 0);
    }
    assert_int_equal(bt_kv_book_cached(b), N / 100 / LONG * LONG);
    const size_t resident = resident_bytes() - before;
    print_message("%.2f MB resident of %.1f\n", (double)resident / 1e6, (double)taken / 1e6);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    assert_true(resident < taken / 4);
#endif
    bt_kv_book_free(b);
}

/* The hash only chooses a bucket and is compared nowhere, so prompts of one bucket are what prompts of one
 * hash would be: a thousand prompts over 8 buckets. */
static void never_takes_one_prompt_for_another_of_its_bucket(void **state)
{
    (void)state;
    enum { N = 8 };
    bt_kv_book *b = new_book(N, 1, N, 1);
    uint32_t kept_count = 0;
    for (int32_t id = 0; id < N; id++) {
        assert_true(bt_kv_book_hold(b, (uint32_t)id, 1));
        bt_kv_book_keep(b, (uint32_t)id, 1, of(&id, 1), 1);
    }
    for (int32_t id = 0; id < 1000; id++) {
        kept_count += bt_kv_book_match(b, 1, of(&id, 1), 1);
        assert_int_equal(bt_kv_book_match(b, 2, of(&id, 1), 1), 0);
        if (id >= N) assert_int_equal(bt_kv_book_match(b, 1, of(&id, 1), 1), 0);
    }
    assert_int_equal(kept_count, N);
    bt_kv_book_free(b);
}

static void a_page_is_known_by_all_tokens_before_it(void **state)
{
    (void)state;
    const int32_t a[] = {1, 2, 3, 4}, other[] = {9, 2, 3, 4};
    bt_kv_book *b = new_book(8, 2, 4, 4);
    assert_true(bt_kv_book_hold(b, 0, 4));
    bt_kv_book_keep(b, 0, 5, of(a, 4), 4);
    assert_int_equal(bt_kv_book_match(b, 5, of(a, 4), 4), 4);
    assert_int_equal(bt_kv_book_match(b, 5, of(a, 3), 3), 2);
    assert_int_equal(bt_kv_book_match(b, 5, of(other, 4), 4), 0);
    assert_int_equal(bt_kv_book_match(b, 5, of(a + 2, 2), 2), 0);
    assert_int_equal(bt_kv_book_match(b, 6, of(a, 4), 4), 0);
    bt_kv_book_free(b);
}

/* By ids and by hashes: the same tokens, of one class, under two salts and under none. */
static void prompts_of_different_salts_have_no_prefix_in_common(void **state)
{
    (void)state;
    const int32_t a[] = {1, 2, 3, 4};
    for (int k = 0; k < 2; k++) {
        by = k ? BT_PROMPT_BY_HASHES : BT_PROMPT_BY_IDS;
        bt_kv_book *b = new_book(8, 2, 4, 4);
        for (uint8_t one = 0; one < 3; one++) {
            salt.bytes[15] = one;
            assert_int_equal(bt_kv_book_match(b, 5, of(a, 4), 4), 0);
            assert_int_equal(bt_kv_book_room_after(b, 5, of(a, 4), 4, &none), 8 - 2 * one);
            assert_int_equal(bt_kv_book_share(b, one, 5, of(a, 4), 4), 0);
            assert_true(bt_kv_book_hold(b, one, 4));
            bt_kv_book_keep(b, one, 5, of(a, 4), 4);
        }
        for (uint8_t one = 0; one < 3; one++) {
            uint32_t len;
            salt.bytes[15] = one;
            assert_int_equal(bt_kv_book_share(b, 3, 5, of(a, 4), 4), 4);
            assert_int_equal(bt_kv_book_table(b, 3, &len)[0], bt_kv_book_table(b, one, &len)[0]);
            bt_kv_book_release(b, 3);
        }
        assert_int_equal(bt_kv_book_used(b), 6);
        assert_true(bt_kv_book_is_sound(b));
        bt_kv_book_free(b);
        salt = (bt_prompt_salt){{0}};
    }
    by = BT_PROMPT_BY_IDS;
}

static void takes_the_prefix_unused_longest_and_its_end_first(void **state)
{
    (void)state;
    const int32_t a[] = {1, 1, 2, 2}, c[] = {3, 3, 4, 4};
    bt_kv_book *b = new_book(4, 2, 3, 4);
    uint32_t len;
    assert_true(bt_kv_book_hold(b, 0, 4) && bt_kv_book_hold(b, 1, 4));
    bt_kv_book_keep(b, 0, 1, of(a, 4), 4);
    bt_kv_book_keep(b, 1, 1, of(c, 4), 4);
    bt_kv_book_release(b, 0);
    bt_kv_book_release(b, 1);
    assert_int_equal(bt_kv_book_cached(b), 4);
    assert_int_equal(bt_kv_book_share(b, 2, 1, of(a, 4), 4), 4); /* a use: now c is the older one */
    bt_kv_book_release(b, 2);
    assert_true(bt_kv_book_hold(b, 2, 1));
    assert_int_equal(bt_kv_book_match(b, 1, of(c, 4), 4), 2);
    assert_int_equal(bt_kv_book_match(b, 1, of(a, 4), 4), 4);
    assert_true(bt_kv_book_hold(b, 2, 5));
    assert_int_equal(bt_kv_book_match(b, 1, of(c, 4), 4), 0);
    assert_int_equal(bt_kv_book_match(b, 1, of(a, 4), 4), 2);
    assert_false(bt_kv_book_hold(b, 2, 9));
    (void)bt_kv_book_table(b, 2, &len);
    assert_int_equal(len, 3);
    bt_kv_book_free(b);
}

static void refuses_shapes_that_its_header_does_not_name(void **state)
{
    (void)state;
    bt_kv_book *b = NULL;
    assert_int_equal(bt_kv_book_new(&b, 0, 64, 1, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, (1u << 24) + 1, 64, 1, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, 1, 0, 1, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, 1, 257, 1, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, 1, 64, 0, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, 1, 64, 1025, 1, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_int_equal(bt_kv_book_new(&b, 1, 64, 1, 0, BT_PROMPT_BY_IDS, NULL), BT_EARG);
    assert_null(b);
    bt_kv_book_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_plain_lists_do_whatever_the_order_of_calls),
        cmocka_unit_test(finds_the_same_prefixes_by_hashes_of_blocks_that_a_page_is_made_of),
        cmocka_unit_test(a_prefix_that_ends_inside_a_block_is_found_by_who_has_the_whole_block),
        cmocka_unit_test(a_tree_of_a_million_blocks_takes_less_than_forty_bytes_each),
        cmocka_unit_test(pages_that_were_never_held_take_no_memory_but_addresses),
        cmocka_unit_test(never_takes_one_prompt_for_another_of_its_bucket),
        cmocka_unit_test(a_page_is_known_by_all_tokens_before_it),
        cmocka_unit_test(prompts_of_different_salts_have_no_prefix_in_common),
        cmocka_unit_test(takes_the_prefix_unused_longest_and_its_end_first),
        cmocka_unit_test(refuses_shapes_that_its_header_does_not_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
