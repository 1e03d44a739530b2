/* Pages and packing: who holds what, and rows that arrive where they left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/kv_dtype.h"
#include "kv/kv_pack.h"
#include "kv/kv_pages.h"
#include <xxhash.h>

static bt_kv_pages *new_pool(uint32_t layers, uint32_t heads, uint32_t dim, uint32_t elem, size_t page,
                             size_t tokens)
{
    bt_kv_pages *p = NULL;
    bt_fault f = {""};
    if (bt_kv_pages_new(&p, layers, heads, dim, elem, page, tokens, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static void the_lowest_free_page_is_taken_first(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 1, 8, 2, 16, 16 * 200);
    bt_kv_seq a = {0}, b = {0}, c = {0};
    assert_int_equal(bt_kv_pages_total(p), 200);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 33, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_reserve(p, &b, 16 * 100, NULL), BT_OK);
    assert_int_equal(a.len, 3);
    assert_int_equal(b.number[0], 3);
    bt_kv_pages_release(p, &a);
    assert_int_equal(bt_kv_pages_reserve(p, &c, 64, NULL), BT_OK);
    const uint32_t want[] = {0, 1, 2, 103};
    assert_memory_equal(c.number, want, sizeof want);
    assert_int_equal(bt_kv_pages_used(p), 104);
    for (size_t i = 0; i < c.len; i++) assert_int_equal((uintptr_t)c.page[i] % 64, 0);
    bt_kv_pages_release(p, &b);
    bt_kv_pages_release(p, &c);
    bt_kv_pages_release(p, &c);
    assert_int_equal(bt_kv_pages_used(p), 0);
    bt_kv_pages_free(p);
    bt_kv_pages_free(NULL);
}

static void a_reservation_gets_all_or_nothing(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(1, 1, 1, 4, 64, 64 * 4);
    bt_kv_seq a = {0}, b = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &a, 0, NULL), BT_OK);
    assert_int_equal(a.len, 0);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 65, NULL), BT_OK);
    uint8_t *first = a.page[0];
    first[0] = 77;
    bt_fault f = {""};
    assert_int_equal(bt_kv_pages_reserve(p, &b, 129, &f), BT_EAGAIN);
    assert_string_equal(f.text, "3 more KV pages needed, 2 are free");
    assert_int_equal(bt_kv_pages_reserve(p, &b, 257, &f), BT_ELIMIT);
    assert_int_equal(bt_kv_pages_reserve(p, &b, SIZE_MAX, &f), BT_ELIMIT);
    assert_int_equal(b.len, 0);
    assert_int_equal(bt_kv_pages_used(p), 2);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 256, NULL), BT_OK); /* grows in place */
    assert_ptr_equal(a.page[0], first);
    assert_int_equal(a.page[0][0], 77);
    assert_int_equal(bt_kv_pages_reserve(p, &a, 1, NULL), BT_OK); /* never shrinks */
    assert_int_equal(a.len, 4);
    bt_kv_pages_release(p, &a);
    bt_kv_pages_release(p, &b);
    bt_kv_pages_free(p);
}

static void pages_named_by_number_are_those_that_a_reservation_of_them_has(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 1, 8, 2, 16, 16 * 5);
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, 16 * 5, NULL), BT_OK);
    const uint32_t numbers[] = {4, 0, 3};
    uint8_t *page[3];
    bt_kv_view held, v;
    bt_kv_pages_view(&held, p, &s);
    bt_kv_pages_view_of(&v, page, p, numbers, 3);
    assert_int_equal(v.tokens_capacity, 48);
    for (size_t i = 0; i < 3; i++) assert_ptr_equal(v.page[i], s.page[numbers[i]]);
    v.page = held.page;
    v.tokens_capacity = held.tokens_capacity;
    assert_memory_equal(&v, &held, sizeof v);
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

static void shapes_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, heads, dim, elem;
        size_t page, tokens;
        bt_err want;
    } c[] = {
        {0, 1, 1, 2, 64, 64, BT_EARG},         {257, 1, 1, 2, 64, 64, BT_EARG},
        {1, 0, 1, 2, 64, 64, BT_EARG},         {1, 257, 1, 2, 64, 64, BT_EARG},
        {1, 1, 0, 2, 64, 64, BT_EARG},         {1, 1, 257, 2, 64, 64, BT_EARG},
        {1, 1, 1, 3, 64, 64, BT_EARG},         {1, 1, 63, 1, 64, 64, BT_EARG},
        {1, 1, 1, 2, 0, 64, BT_EARG},          {1, 1, 1, 2, 48, 64, BT_EARG},
        {1, 1, 1, 2, 512, 64, BT_EARG},        {1, 1, 1, 2, 64, 0, BT_EARG},
        {1, 1, 1, 2, 64, SIZE_MAX, BT_ELIMIT}, {256, 256, 256, 4, 256, SIZE_MAX >> 8, BT_ELIMIT},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        bt_kv_pages *p = NULL;
        assert_int_equal(bt_kv_pages_new(&p, c[i].layers, c[i].heads, c[i].dim, c[i].elem, c[i].page,
                                         c[i].tokens, NULL),
                         c[i].want);
        assert_null(p);
    }
}

static void a_large_pool_costs_nothing_until_it_is_touched(void **state)
{
    (void)state;
    if (SIZE_MAX == UINT32_MAX) skip();                    /* no room for it */
    bt_kv_pages *p = new_pool(32, 8, 128, 2, 64, 1 << 17); /* 16 GiB */
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, 8192, NULL), BT_OK);
    s.page[127][bt_kv_pages_page_bytes(p) - 1] = 1;
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

static void int8_heads_carry_a_scale_and_are_of_even_length(void **state)
{
    (void)state;
    bt_kv_pages *p = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_kv_pages_new(&p, 30, 3, 63, 1, 64, 64, &f), BT_EARG);
    assert_string_equal(f.text, "kv pages: int8 KV needs heads of an even number of elements, not 63");
    p = new_pool(30, 3, 64, 1, 64, 64);
    assert_int_equal(bt_kv_token_bytes(1, 30, 3, 64), 2 * 30 * 3 * 66);
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, 64, NULL), BT_OK);
    bt_kv_view v;
    bt_kv_pages_view(&v, p, &s);
    assert_int_equal(v.elem_bytes, 1);
    assert_int_equal(v.head_bytes, 66);
    assert_int_equal(v.token_bytes, 3 * 66);
    assert_ptr_equal(bt_kv_view_row(&v, 29, 1, 63, 2) + 66, v.page[0] + 64 * bt_kv_token_bytes(1, 30, 3, 64));
    for (size_t t = 0; t < 64; t++) assert_int_equal((uintptr_t)(bt_kv_view_row(&v, 1, 1, t, 1) + 64) % 2, 0);
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

typedef enum abuse { TWICE, FOREIGN, POOL_IN_USE, NO_ABUSE } abuse;

/* Ends with 0 unless an assert stops it. */
static void commit_abuse(abuse how)
{
    bt_kv_pages *p = NULL;
    bt_kv_seq a = {0}, c = {0}, copy = {NULL, malloc(sizeof *copy.number), 1, 0};
    if (!copy.number || bt_kv_pages_new(&p, 1, 1, 1, 2, 64, 640, NULL) < 0 ||
        bt_kv_pages_reserve(p, &a, 1, NULL) < 0 || bt_kv_pages_reserve(p, &c, 1, NULL) < 0)
        _exit(1);
    copy.id = a.id;
    copy.number[0] = a.number[0];
    if (how == FOREIGN) c.number[0] = a.number[0];
    if (how == POOL_IN_USE) bt_kv_pages_free(p);
    bt_kv_pages_release(p, &a);
    if (how == TWICE) bt_kv_pages_release(p, &copy);
    bt_kv_pages_release(p, &c);
    bt_kv_pages_free(p);
    free(copy.number);
    _exit(0);
}

static void giving_back_what_one_does_not_hold_stops_the_process(void **state)
{
    (void)state;
    for (abuse how = TWICE; how <= NO_ABUSE; how++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(2);
            signal(SIGABRT, SIG_DFL);
            commit_abuse(how);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (how == NO_ABUSE) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* Each element of each row gets a value of its own, by the definition of the neutral layout. */
static uint16_t value_of(size_t layer, size_t is_v, size_t t, size_t head, size_t e)
{
    return (uint16_t)(((((layer * 2 + is_v) * 100 + t) * 3 + head) * 5 + e) * 2654435761u >> 7);
}

enum { LAYERS = 3, HEADS = 3, DIM = 5, TOKENS = 100 };

static void fill(const bt_kv_view *v)
{
    for (size_t l = 0; l < LAYERS; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < TOKENS; t++)
                for (size_t h = 0; h < HEADS; h++)
                    for (size_t e = 0; e < DIM; e++) {
                        const uint16_t x = value_of(l, (size_t)is_v, t, h, e);
                        memcpy(bt_kv_view_row(v, l, is_v, t, h) + 2 * e, &x, 2);
                    }
}

static void a_body_is_the_neutral_layout(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(LAYERS, HEADS, DIM, 2, 16, 128);
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, TOKENS, NULL), BT_OK);
    bt_kv_view v;
    bt_kv_pages_view(&v, p, &s);
    assert_int_equal(v.tokens_capacity, 112);
    fill(&v);
    static const struct {
        size_t begin, count;
    } c[] = {{0, 100}, {16, 32}, {96, 4}, {7, 1}, {15, 2}, {32, 16}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const size_t n = bt_kv_pack_bytes(&v, c[i].count);
        assert_int_equal(n, c[i].count * 2 * HEADS * DIM * 2);
        uint8_t *body = malloc(n);
        assert_non_null(body);
        assert_int_equal(bt_kv_pack_take(body, n, &v, 2, c[i].begin, c[i].count, NULL), BT_OK);
        const uint8_t *at = body;
        for (size_t is_v = 0; is_v < 2; is_v++)
            for (size_t t = c[i].begin; t < c[i].begin + c[i].count; t++)
                for (size_t h = 0; h < HEADS; h++)
                    for (size_t e = 0; e < DIM; e++, at += 2) {
                        uint16_t x;
                        memcpy(&x, at, 2);
                        assert_int_equal(x, value_of(2, is_v, t, h, e));
                    }
        free(body);
    }
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

static void place_writes_its_rows_and_no_other_byte(void **state)
{
    (void)state;
    bt_kv_pages *a = new_pool(LAYERS, HEADS, DIM, 2, 16, 128), *b = new_pool(LAYERS, HEADS, DIM, 2, 64, 128);
    bt_kv_seq from = {0}, to = {0};
    assert_int_equal(bt_kv_pages_reserve(a, &from, TOKENS, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_reserve(b, &to, TOKENS, NULL), BT_OK);
    bt_kv_view va, vb;
    bt_kv_pages_view(&va, a, &from);
    bt_kv_pages_view(&vb, b, &to);
    fill(&va);
    for (size_t i = 0; i < to.len; i++) memset(to.page[i], 0xee, bt_kv_pages_page_bytes(b));
    uint8_t body[2 * 32 * HEADS * DIM * 2], before[32], back[sizeof body];
    assert_int_equal(bt_kv_pack_take(body, sizeof body, &va, 1, 48, 32, NULL), BT_OK);
    assert_int_equal(bt_kv_pack_place(&vb, 1, 48, 32, body, sizeof body, NULL), BT_OK);
    assert_int_equal(bt_kv_pack_take(back, sizeof back, &vb, 1, 48, 32, NULL), BT_OK);
    assert_memory_equal(back, body, sizeof body);
    memset(before, 0xee, sizeof before);
    for (size_t l = 0; l < LAYERS; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < 128; t++)
                if (l != 1 || t < 48 || t >= 80)
                    assert_memory_equal(bt_kv_view_row(&vb, l, is_v, t, 0), before, HEADS * DIM * 2);
    bt_kv_pages_release(a, &from);
    bt_kv_pages_release(b, &to);
    bt_kv_pages_free(a);
    bt_kv_pages_free(b);
}

static void a_digest_is_checked_where_the_rows_lie(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(LAYERS, HEADS, DIM, 2, 16, 128);
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, TOKENS, NULL), BT_OK);
    bt_kv_view v;
    bt_kv_pages_view(&v, p, &s);
    fill(&v);
    uint8_t body[2 * 52 * HEADS * DIM * 2];
    bt_kv_header h = {.attempt = 1,      .layer = 1,      .token_begin = 48,  .token_count = 52,
                      .kv_heads = HEADS, .head_dim = DIM, .dtype = BT_KV_F16, .body_bytes = sizeof body};
    assert_int_equal(bt_kv_pack_take(body, sizeof body, &v, 1, 48, 52, NULL), BT_OK);
    bt_kv_header_digest(h.digest, &h, body);
    assert_int_equal(bt_kv_pack_check(&v, &h, NULL), BT_OK);
    for (size_t t = 48; t < TOKENS; t++)
        for (int is_v = 0; is_v < 2; is_v++) {
            uint8_t *byte = bt_kv_view_row(&v, 1, is_v, t, t % HEADS) + t % (2 * DIM);
            *byte ^= 1;
            assert_int_equal(bt_kv_pack_check(&v, &h, NULL), BT_EFORMAT);
            *byte ^= 1;
        }
    bt_kv_view_row(&v, 1, 0, 47, 0)[0] ^= 1; /* rows of no concern */
    bt_kv_view_row(&v, 0, 1, 50, 0)[0] ^= 1;
    assert_int_equal(bt_kv_pack_check(&v, &h, NULL), BT_OK);
    h.attempt = 2;
    assert_int_equal(bt_kv_pack_check(&v, &h, NULL), BT_EFORMAT);
    h.token_begin = 64;
    assert_int_equal(bt_kv_pack_check(&v, &h, NULL), BT_EARG);
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

static void the_digest_does_not_depend_on_pages(void **state)
{
    (void)state;
    XXH3_state_t *x = XXH3_createState();
    assert_non_null(x);
    XXH3_128bits_reset(x);
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < 90; t++)
                for (size_t h = 0; h < HEADS; h++)
                    for (size_t e = 0; e < DIM; e++) {
                        const uint16_t value = value_of(l, is_v, t, h, e);
                        XXH3_128bits_update(x, &value, 2);
                    }
    XXH128_canonical_t want;
    XXH128_canonicalFromHash(&want, XXH3_128bits_digest(x));
    XXH3_freeState(x);
    for (size_t page = 1; page <= 256; page *= 4) {
        bt_kv_pages *p = new_pool(LAYERS, HEADS, DIM, 2, page, 256);
        bt_kv_seq s = {0};
        assert_int_equal(bt_kv_pages_reserve(p, &s, TOKENS, NULL), BT_OK);
        bt_kv_view v;
        bt_kv_pages_view(&v, p, &s);
        fill(&v);
        uint8_t got[16];
        assert_int_equal(bt_kv_pack_digest(got, &v, 90, NULL), BT_OK);
        assert_memory_equal(got, want.digest, 16);
        bt_kv_pages_release(p, &s);
        bt_kv_pages_free(p);
    }
}

static void wrong_ranges_and_sizes_copy_nothing(void **state)
{
    (void)state;
    bt_kv_pages *p = new_pool(2, 1, 4, 2, 16, 64);
    bt_kv_seq s = {0};
    assert_int_equal(bt_kv_pages_reserve(p, &s, 20, NULL), BT_OK);
    bt_kv_view v;
    bt_kv_pages_view(&v, p, &s);
    static const struct {
        size_t layer, begin, count;
        long off;
    } c[] = {
        {2, 0, 1, 0},  {0, 0, 0, 0},        {0, 32, 1, 0},  {0, 31, 2, 0}, {0, SIZE_MAX, 2, 0},
        {0, 0, 33, 0}, {0, 1, SIZE_MAX, 0}, {0, 0, 16, -1}, {0, 0, 16, 1},
    };
    uint8_t body[4096], zero[4096] = {0}, digest[16];
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const size_t n = c[i].count > 64 ? 16 : (size_t)((long)(c[i].count * 16) + c[i].off);
        memset(body, 0, sizeof body);
        assert_int_equal(bt_kv_pack_take(body, n, &v, c[i].layer, c[i].begin, c[i].count, NULL), BT_EARG);
        assert_memory_equal(body, zero, sizeof body);
        memset(body, 1, sizeof body);
        assert_int_equal(bt_kv_pack_place(&v, c[i].layer, c[i].begin, c[i].count, body, n, NULL), BT_EARG);
    }
    for (size_t k = 0; k < s.len; k++) assert_memory_equal(s.page[k], zero, bt_kv_pages_page_bytes(p));
    assert_int_equal(bt_kv_pack_digest(digest, &v, 33, NULL), BT_EARG);
    assert_int_equal(bt_kv_pack_digest(digest, &v, 0, NULL), BT_EARG);
    bt_kv_pages_release(p, &s);
    bt_kv_pages_free(p);
}

static void the_longest_sequence_is_what_model_memory_and_wish_allow(void **state)
{
    (void)state;
    static const struct {
        size_t wanted;
        uint64_t memory;
        size_t longest;
    } c[] = {
        /* a wish is not cut: the pool says what it takes */
        {0, 0, 8192},         {100, 0, 100},    {8192, 1, 8192},       {0, 8192 * 10, 8192},
        {0, 8191 * 10, 8128}, {0, 64 * 10, 64}, {0, UINT64_MAX, 8192},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        size_t n = 0;
        assert_int_equal(bt_kv_pages_longest(&n, c[i].wanted, 8192, c[i].memory, 10, NULL), BT_OK);
        assert_int_equal(n, c[i].longest);
    }
    size_t n = 7;
    assert_int_equal(bt_kv_pages_longest(&n, 8193, 8192, 0, 10, NULL), BT_ELIMIT);
    assert_int_equal(bt_kv_pages_longest(&n, 0, 8192, 639, 10, NULL), BT_ELIMIT);
    assert_int_equal(n, 7);
}

/* 7 layers, of which the third and the sixth see all. The same rows in pages of all layers, and by class. */
static void rows_of_window_layers_lie_in_pages_of_their_own(void **state)
{
    (void)state;
    enum { DEPTH = 7, PAGE = 16, LEN = 4, ROWS = LEN * PAGE - 3 };
    const bt_kv_memory_want want = {DEPTH, 2, 4, 2, 3, PAGE, 6 * PAGE, 5 * PAGE},
                            one = {DEPTH, 2, 4, 2, 3, PAGE, LEN * PAGE, 0};
    const uint32_t all[LEN] = {5, 0, 3, 1}, order[LEN] = {0, 1, 2, 3};
    uint32_t windows[LEN] = {4, 2, 0, 1};
    uint8_t *page[2 * LEN], *whole[LEN], body[2 * PAGE * 2 * 4 * 2], digest[2][16];
    bt_kv_memory m, w;
    bt_kv_view v, v1;
    assert_int_equal(bt_kv_memory_new(&m, &want, NULL), BT_OK);
    assert_int_equal(bt_kv_memory_new(&w, &one, NULL), BT_OK);
    assert_null(w.windows);
    assert_int_equal(bt_kv_memory_token_bytes(&m), 7 * 2 * 2 * 4 * 2);
    bt_kv_memory_view(&v, page, &m, &(bt_kv_numbers){all, windows, LEN});
    bt_kv_memory_view(&v1, whole, &w, &(bt_kv_numbers){order, NULL, LEN});
    assert_int_equal(v.layers, DEPTH);
    assert_int_equal(v.tokens_capacity, LEN * PAGE);
    for (size_t l = 0; l < DEPTH; l++)
        for (size_t t = 0; t < ROWS; t++)
            for (int k = 0; k < 4; k++) {
                uint8_t row[8];
                for (size_t i = 0; i < 8; i++) row[i] = (uint8_t)(l * 31 + t * 7 + (size_t)k * 3 + i);
                memcpy(bt_kv_view_row(&v, l, k / 2, t, k % 2), row, 8);
                memcpy(bt_kv_view_row(&v1, l, k / 2, t, k % 2), row, 8);
            }
    assert_int_equal(bt_kv_pack_digest(digest[0], &v, ROWS, NULL), BT_OK); /* no row lies on another */
    assert_int_equal(bt_kv_pack_digest(digest[1], &v1, ROWS, NULL), BT_OK);
    assert_memory_equal(digest[0], digest[1], 16);
    windows[0] = BT_KV_NO_PAGE;
    bt_kv_memory_view(&v, page, &m, &(bt_kv_numbers){all, windows, LEN});
    assert_int_equal(v.window_begin, PAGE);
    assert_int_equal(bt_kv_pack_digest(digest[0], &v, ROWS, NULL), BT_EARG);
    for (size_t l = 0; l < DEPTH; l++) {
        const bool is_all = l == 2 || l == 5;
        assert_int_equal(bt_kv_pack_take(body, sizeof body, &v, l, 0, PAGE, NULL), is_all ? BT_OK : BT_EARG);
        assert_int_equal(bt_kv_pack_place(&v, l, 0, PAGE, body, sizeof body, NULL), is_all ? BT_OK : BT_EARG);
        assert_int_equal(bt_kv_pack_take(body, sizeof body, &v, l, PAGE, PAGE, NULL), BT_OK);
        assert_memory_equal(body, bt_kv_view_row(&v1, l, 0, PAGE, 0), sizeof body / 2);
    }
    bt_kv_memory_free(&m);
    bt_kv_memory_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_free_page_is_taken_first),
        cmocka_unit_test(a_reservation_gets_all_or_nothing),
        cmocka_unit_test(pages_named_by_number_are_those_that_a_reservation_of_them_has),
        cmocka_unit_test(shapes_out_of_range_are_refused),
        cmocka_unit_test(the_longest_sequence_is_what_model_memory_and_wish_allow),
        cmocka_unit_test(a_large_pool_costs_nothing_until_it_is_touched),
        cmocka_unit_test(int8_heads_carry_a_scale_and_are_of_even_length),
        cmocka_unit_test(giving_back_what_one_does_not_hold_stops_the_process),
        cmocka_unit_test(a_body_is_the_neutral_layout),
        cmocka_unit_test(place_writes_its_rows_and_no_other_byte),
        cmocka_unit_test(a_digest_is_checked_where_the_rows_lie),
        cmocka_unit_test(the_digest_does_not_depend_on_pages),
        cmocka_unit_test(wrong_ranges_and_sizes_copy_nothing),
        cmocka_unit_test(rows_of_window_layers_lie_in_pages_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
