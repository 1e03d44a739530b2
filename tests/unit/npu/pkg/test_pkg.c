/* Package files: written and read again, one copy of equal constants, rows found or refused with the
 * nearest, the model they belong to. */
#include "npu/pkg/pkg_private.h"
#include "base/hash.h"
#include "kernels/kernels.h"
#include "model/weights.h"
#include "npu/run/exec.h"
#include "npu/pkg/recipe.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct package {
    uint8_t *bytes;
    size_t len;
    bt_pkg *p;
} package;

static package made(tiny_pkg o)
{
    bt_fault f = {""};
    package k = {0};
    k.bytes = tiny_pkg_bytes(&k.len, &o);
    if (bt_pkg_from_bytes(&k.p, k.bytes, k.len, NULL, true, NULL, &f) < 0) fail_msg("%s", f.text);
    return k;
}

static void done(package *k)
{
    bt_pkg_close(k->p);
    free(k->bytes);
}

static const tiny_pkg kinds[] = {
    {.seqs = {4}},
    {.rotate = true, .bits = 4, .seqs = {1, 16}},
    {.ops_all = true, .layers = 1},
    {.llm_int8 = true},
    {.ops_all = true, .rotate = true, .seqs = {1, 3, 8}},
    {.packed = true, .seqs = {2, 4}},
};
/* Weights beside which code is small. */
static const tiny_pkg large = {.dim = 256, .ffn = 1024, .vocab = 2000, .seqs = {1, 32}};

/* ---- writing and reading ---- */

static void what_was_written_is_read_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        package k = made(kinds[i]);
        const bt_pkg_header *h = bt_pkg_header_of(k.p);
        assert_int_equal(h->layers, kinds[i].layers ? kinds[i].layers : 2);
        assert_int_equal(h->file_bytes, k.len);
        assert_string_equal(h->model_name, "tiny");
        assert_string_equal(h->recipe, kinds[i].llm_int8 ? "w8a8:llm-int8" : "w8a8");
        assert_int_equal(bt_pkg_tensors(k.p)[3].weight, BT_WEIGHT_V);
        assert_int_equal(bt_pkg_sites(k.p)[3].kind, BT_SITE_DOWN);
        assert_int_equal(bt_pkg_rows(k.p)[0].ctx, 16);
        assert_string_equal(bt_pkg_fallbacks(k.p)[0].why, "npu_ops linear");
        assert_int_equal(bt_pkg_sessions(k.p)[0].mapped_bytes, 1000);
        const bt_pkg_inst *code = bt_pkg_code(k.p, 0);
        assert_string_equal(bt_pkg_op_name((bt_pkg_op)code[0].op), "embed");
        assert_null(bt_pkg_const_at(k.p, BT_PKG_NONE));
        done(&k);
    }
}

static void the_same_calls_give_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        package a = made(kinds[i]), b = made(kinds[i]);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.bytes, b.bytes, a.len);
        done(&b);
        done(&a);
    }
}

static void constants_lie_at_multiples_of_64_and_are_the_bytes_given(void **state)
{
    (void)state;
    package k = made(kinds[0]);
    const bt_pkg_const *c = bt_pkg_consts(k.p);
    for (uint32_t i = 0; i < bt_pkg_header_of(k.p)->consts.count; i++) {
        uint8_t hash[16];
        assert_int_equal((uintptr_t)bt_pkg_const_at(k.p, i) % 64, 0);
        bt_hash128(hash, bt_pkg_const_at(k.p, i), c[i].bytes);
        assert_memory_equal(hash, c[i].hash, sizeof hash);
    }
    const float *rms = bt_pkg_const_at(k.p, bt_pkg_tensors(k.p)[0].panels);
    for (int i = 0; i < 16; i++) assert_true(rms[i] >= 0.5f && rms[i] <= 8.5f);
    done(&k);
}

/* ---- the file ---- */

static char dir[TEMP_FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    return temp_folder_new(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir); /* fails where a temporary file stayed behind */
}

static void a_file_appears_only_when_it_is_whole(void **state)
{
    (void)state;
    char path[300];
    bt_fault f = {""};
    bt_pkg_writer *w = NULL;
    snprintf(path, sizeof path, "%s/x.bpk", dir);
    assert_int_equal(bt_pkg_writer_new(&w, path, &f), BT_OK);
    assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, "abc", 3), 0);
    assert_int_equal(access(path, F_OK), -1);
    bt_pkg_writer_free(w);
    assert_int_equal(access(path, F_OK), -1);

    tiny_pkg_write(path, &kinds[0]);
    struct stat st;
    bt_pkg *p = NULL;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(bt_pkg_open(&p, path, &f), BT_OK);
    bt_pkg_close(p);

    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(bt_pkg_open(&p, path, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "x.bpk"));
    assert_non_null(strstr(f.text, "cut short"));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(bt_pkg_open(&p, path, &f), BT_EFORMAT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(bt_pkg_open(&p, path, &f), BT_EIO);
    assert_int_equal(bt_pkg_open(&p, dir, &f), BT_EFORMAT);
}

static void put(const char *path, const uint8_t *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void a_look_reads_no_constant_and_believes_no_header(void **state)
{
    (void)state;
    package k = made(kinds[0]);
    bt_pkg_header *h = (void *)k.bytes;
    const bt_pkg_const *c = (void *)(k.bytes + h->consts.offset);
    const size_t last = (size_t)c[h->consts.count - 1].offset;
    const uint32_t ops = h->npu_ops;
    char path[300];
    bt_fault f = {""};
    bt_pkg *p = NULL;
    snprintf(path, sizeof path, "%s/x.bpk", dir);
    k.bytes[last] ^= 1; /* a constant */
    put(path, k.bytes, k.len);
    assert_int_equal(bt_pkg_open(&p, path, &f), BT_EFORMAT);
    assert_int_equal(bt_pkg_look(&p, path, &f), BT_OK);
    assert_string_equal(bt_pkg_header_of(p)->recipe, h->recipe);
    bt_pkg_close(p);
    k.bytes[last] ^= 1;
    h->npu_ops = BT_PKG_OPS_ALL + 1; /* with a digest that fits, as anybody can make it */
    tiny_pkg_repair(k.bytes, k.len);
    put(path, k.bytes, k.len);
    assert_int_equal(bt_pkg_look(&p, path, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "npu_ops"));
    h->npu_ops = ops;
    put(path, k.bytes, k.len); /* the digest is the other header's */
    assert_int_equal(bt_pkg_look(&p, path, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "digest"));
    assert_int_equal(unlink(path), 0);
    done(&k);
}

static void threads_refuse_for_the_reason_that_one_finds_first(void **state)
{
    (void)state;
    package k = made(large);
    const bt_pkg_const *c = (void *)(k.bytes + bt_pkg_header_of(k.p)->consts.offset);
    const uint32_t count = bt_pkg_header_of(k.p)->consts.count;
    char path[300];
    bt_fault f = {""}, one = {""};
    bt_pool *pool = NULL;
    bt_pkg *p = NULL;
    assert_int_equal(bt_pool_new(&pool, 3, &f), BT_OK);
    snprintf(path, sizeof path, "%s/x.bpk", dir);
    put(path, k.bytes, k.len);
    assert_int_equal(bt_pkg_open_on(&p, path, pool, &f), BT_OK);
    bt_pkg_close(p);
    for (uint32_t i = count; i-- > 0;) k.bytes[c[i].offset] ^= 1;
    put(path, k.bytes, k.len);
    assert_int_equal(bt_pkg_open(&p, path, &one), BT_EFORMAT);
    assert_non_null(strstr(one.text, "constant 0 is damaged"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(bt_pkg_open_on(&p, path, pool, &f), BT_EFORMAT);
        assert_string_equal(f.text, one.text);
    }
    assert_int_equal(unlink(path), 0);
    bt_pool_free(pool);
    done(&k);
}

static void the_writers_first_failure_stays(void **state)
{
    (void)state;
    char path[300];
    bt_fault f = {""};
    bt_pkg_writer *w = NULL;
    const bt_pkg_header h = {.layers = 1};
    snprintf(path, sizeof path, "%s/none/x.bpk", dir);
    assert_int_equal(bt_pkg_writer_new(&w, path, &f), BT_EIO);
    assert_non_null(strstr(f.text, "none/x.bpk"));
    snprintf(path, sizeof path, "%s/x.bpk", dir);
    assert_int_equal(bt_pkg_writer_new(&w, path, &f), BT_OK);
    assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, "", 0), BT_PKG_NONE);
    assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, "abc", 3), BT_PKG_NONE);
    assert_int_equal(bt_pkg_writer_row(w, &(bt_pkg_row){.batch = 1}), BT_PKG_NONE);
    assert_int_equal(bt_pkg_writer_finish(w, &h, &f), BT_EARG);
    assert_non_null(strstr(f.text, "a constant of no bytes"));
    bt_pkg_writer_free(w);

    assert_int_equal(bt_pkg_writer_new(&w, path, &f), BT_OK);
    for (uint32_t i = 0; i < BT_PKG_MAX_ROWS; i++)
        assert_int_equal(bt_pkg_writer_row(w, &(bt_pkg_row){.batch = 1}), i);
    assert_int_equal(bt_pkg_writer_row(w, &(bt_pkg_row){.batch = 1}), BT_PKG_NONE);
    assert_int_equal(bt_pkg_writer_finish(w, &h, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "more than 4096 rows"));
    bt_pkg_writer_free(w);
}

/* ---- equal constants once ---- */

static void many_constants_are_each_stored_once(void **state)
{
    (void)state;
    char path[300];
    bt_pkg_writer *w = NULL;
    snprintf(path, sizeof path, "%s/x.bpk", dir);
    assert_int_equal(bt_pkg_writer_new(&w, path, NULL), BT_OK);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < 5000; i++)
            assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, &i, sizeof i), i);
    const uint32_t zero[2] = {0, 0}; /* the same beginning, another length */
    assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, zero, 8), 5000);
    bt_pkg_writer_free(w);
}

static void two_specializations_share_one_copy_of_the_weights(void **state) /* AC-a2, AC-h1 */
{
    (void)state;
    tiny_pkg prefill = large, decode = large;
    prefill.seqs[0] = 32, prefill.seqs[1] = 0;
    decode.seqs[0] = 1, decode.seqs[1] = 0;
    package both = made(large), a = made(prefill), b = made(decode);
    assert_int_equal(bt_pkg_header_of(both.p)->rows.count, 4);
    assert_true((double)both.len <= 1.02 * (double)(a.len > b.len ? a.len : b.len));
    assert_int_equal(bt_pkg_header_of(both.p)->weights_bytes, bt_pkg_header_of(a.p)->weights_bytes);
    /* Every program that uses a weight finds it at the same address. */
    const bt_pkg_row *r = bt_pkg_rows(both.p);
    const void *base[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const uint32_t index = r[2 * i].program[BT_PKG_OUT_LAST];
        const bt_pkg_program *g = &bt_pkg_programs(both.p)[index];
        const bt_pkg_inst *code = bt_pkg_code(both.p, index);
        assert_int_equal(g->seq, i ? 32 : 1);
        for (uint32_t n = 0; n < g->insts && !base[i]; n++)
            if (code[n].op == BT_PKG_LINEAR)
                base[i] = bt_pkg_const_at(both.p, bt_pkg_tensors(both.p)[code[n].tensor].panels);
    }
    assert_non_null(base[0]);
    assert_ptr_equal(base[0], base[1]);
    done(&b);
    done(&a);
    done(&both);
}

static void one_changed_byte_stores_that_tensor_twice_and_no_other(void **state) /* AC-h1 */
{
    (void)state;
    tiny_pkg same = large, other = large;
    same.same_layers = other.same_layers = true;
    other.flip_layer = 1;
    package a = made(same), b = made(other);
    const bt_pkg_tensor *t[2] = {bt_pkg_tensors(a.p), bt_pkg_tensors(b.p)};
    for (uint32_t w = 0; w < BT_PKG_LAYER_TENSORS; w++) {
        if (t[0][w].n && t[0][w].weight != BT_WEIGHT_FFN_NORM)
            assert_int_equal(t[0][w].panels, t[0][w + BT_PKG_LAYER_TENSORS].panels);
        if (t[1][w].n && t[1][w].weight != BT_WEIGHT_FFN_NORM)
            assert_int_equal(t[1][w].panels != t[1][w + BT_PKG_LAYER_TENSORS].panels,
                             t[1][w].weight == BT_WEIGHT_DOWN);
    }
    const uint64_t down = bt_pkg_consts(b.p)[t[1][10].panels].bytes;
    assert_int_equal(bt_pkg_header_of(b.p)->weights_bytes, bt_pkg_header_of(a.p)->weights_bytes + down);
    /* The tensor, and its sums of columns; one constant's table entry each. */
    assert_true(b.len - a.len <= down + 16 * 16 * 4 + 2 * (sizeof(bt_pkg_const) + 64));
    done(&b);
    done(&a);
}

/* ---- rows ---- */

static void a_shape_that_is_not_in_the_table_is_refused_with_the_nearest_row(void **state) /* AC-a1 */
{
    (void)state;
    package k = made((tiny_pkg){.seqs = {1, 3, 8}}); /* contexts of 16 and 32 */
    const bt_pkg_row *r = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_pkg_find_row(&r, k.p, 1, 3, 16, &f), BT_OK);
    assert_int_equal(r->seq, 3);
    assert_int_equal(r->ctx, 16);
    assert_int_equal(bt_pkg_find_row(&r, k.p, 1, 8, 17, &f), BT_OK);
    assert_int_equal(r->ctx, 32);
    static const struct {
        size_t batch, seq, end;
        const char *near;
    } refused[] = {
        {1, 4, 10, "no specialization for batch 1, seq 4, ctx 10; the nearest has batch 1, seq 3, ctx 16"},
        {1, 6, 20, "no specialization for batch 1, seq 6, ctx 20; the nearest has batch 1, seq 8, ctx 32"},
        {1, 3, 33, "no specialization for batch 1, seq 3, ctx 33; the nearest has batch 1, seq 3, ctx 32"},
        {2, 3, 16, "no specialization for batch 2, seq 3, ctx 16; the nearest has batch 1, seq 3, ctx 16"},
        {1, 0, 0, "the nearest has batch 1, seq 1, ctx 16"},
        {1, SIZE_MAX, SIZE_MAX, "the nearest has batch 1, seq 8, ctx 32"},
    };
    const bt_pkg_row *before = r;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(bt_pkg_find_row(&r, k.p, refused[i].batch, refused[i].seq, refused[i].end, &f),
                         BT_ELIMIT);
        if (!strstr(f.text, refused[i].near)) fail_msg("got '%s'", f.text);
    }
    assert_ptr_equal(r, before);
    done(&k);
}

static void a_range_takes_any_number_of_rows_between_its_ends(void **state)
{
    (void)state;
    package k = made((tiny_pkg){.seqs = {8}});
    bt_fault f = {""};
    const bt_pkg_row *r = NULL;
    bt_pkg_row *rows = (bt_pkg_row *)(uintptr_t)bt_pkg_rows(k.p);
    rows[0].seq_min = rows[1].seq_min = 3;
    tiny_pkg_repair(k.bytes, k.len);
    bt_pkg_close(k.p);
    if (bt_pkg_from_bytes(&k.p, k.bytes, k.len, NULL, true, NULL, &f) < 0) fail_msg("%s", f.text);
    for (size_t seq = 3; seq <= 8; seq++) assert_int_equal(bt_pkg_find_row(&r, k.p, 1, seq, 16, &f), BT_OK);
    assert_int_equal(bt_pkg_find_row(&r, k.p, 1, 2, 16, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "seq 3-8, ctx 16"));
    done(&k);
}

/* ---- models ---- */

static void a_package_of_another_model_is_refused_by_the_field(void **state)
{
    (void)state;
    package k = made(kinds[0]);
    const bt_pkg_header *h = bt_pkg_header_of(k.p);
    bt_fault f = {""};
    bt_model fits = {.hp = {.arch = (bt_arch)h->arch, .layers = h->layers, .dim = h->dim, .ffn = h->ffn,
                            .heads = h->heads, .kv_heads = h->kv_heads, .head_dim = h->head_dim,
                            .vocab = h->vocab, .rope_dims = h->rope_dims, .rope_base = h->rope_base,
                            .rope_scale = h->rope_scale, .rms_eps = h->rms_eps, .qkv_bias = true,
                            .qk_norm = true, .times.scores = h->attn_scale}};
    memcpy(fits.id, h->model_id, sizeof fits.id);
    if (bt_pkg_check_model(k.p, &fits, &f) < 0) fail_msg("%s", f.text);
    bt_model m = fits;
    m.hp.layers = 3;
    assert_int_equal(bt_pkg_check_model(k.p, &m, &f), BT_EARG);
    assert_non_null(strstr(f.text, "layers is 2 there and 3 here"));
    m = fits;
    m.hp.times.add = 2;
    assert_int_equal(bt_pkg_check_model(k.p, &m, &f), BT_EARG);
    assert_non_null(strstr(f.text, "add_scale"));
    m = fits;
    m.hp.rms_eps = 1e-6f;
    assert_int_equal(bt_pkg_check_model(k.p, &m, &f), BT_EARG);
    assert_non_null(strstr(f.text, "rms_eps"));
    m = fits;
    m.id[15] ^= 1;
    assert_int_equal(bt_pkg_check_model(k.p, &m, &f), BT_EARG);
    assert_non_null(strstr(f.text, "model id"));
    ((bt_pkg_header *)(void *)k.bytes)->kernels_version++;
    assert_int_equal(bt_pkg_check_model(k.p, &fits, &f), BT_EARG);
    assert_non_null(strstr(f.text, "numeric version"));
    done(&k);
}

/* ---- names ---- */

static void indices_and_names_are_those_of_the_tables(void **state)
{
    (void)state;
    static const bt_weight order[] = {
        BT_WEIGHT_ATTN_NORM,    BT_WEIGHT_Q,      BT_WEIGHT_K,    BT_WEIGHT_V,
        BT_WEIGHT_Q_NORM,       BT_WEIGHT_K_NORM, BT_WEIGHT_O,    BT_WEIGHT_FFN_NORM,
        BT_WEIGHT_GATE,         BT_WEIGHT_UP,     BT_WEIGHT_DOWN, BT_WEIGHT_ATTN_POST_NORM,
        BT_WEIGHT_FFN_POST_NORM};
    for (uint32_t i = 0; i < BT_PKG_LAYER_TENSORS; i++)
        assert_int_equal(bt_pkg_tensor_index(3, 2, order[i]), 26 + i);
    assert_int_equal(bt_pkg_tensor_index(3, UINT32_MAX, BT_WEIGHT_OUT_NORM), 39);
    assert_int_equal(bt_pkg_tensor_index(3, UINT32_MAX, BT_WEIGHT_OUTPUT), 40);
    assert_int_equal(bt_pkg_tensor_index(3, 3, BT_WEIGHT_Q), BT_PKG_NONE);
    assert_int_equal(bt_pkg_tensor_index(3, 0, BT_WEIGHT_EMBED), BT_PKG_NONE);
    assert_int_equal(bt_pkg_site_index(3, 2, BT_SITE_DOWN), 11);
    assert_int_equal(bt_pkg_site_index(3, UINT32_MAX, BT_SITE_HEAD), 12);
    assert_int_equal(bt_pkg_site_index(3, 0, 9), BT_PKG_NONE);
    assert_int_equal(bt_pkg_site_of(BT_WEIGHT_UP), BT_SITE_UP);
    assert_int_equal(bt_pkg_site_of(BT_WEIGHT_Q_NORM), BT_PKG_NONE);
    assert_string_equal(bt_pkg_op_name(BT_PKG_LINEAR), "linear");
    assert_string_equal(bt_pkg_op_name(BT_PKG_INT_SPLIT), "int_split");
    assert_string_equal(bt_pkg_op_name(BT_PKG_DEQUANTISE16), "dequantise16");
    assert_string_equal(bt_pkg_op_name((bt_pkg_op)0), "?");
    assert_string_equal(bt_pkg_op_name((bt_pkg_op)40), "?");
    assert_string_equal(bt_pkg_op_name((bt_pkg_op)200), "?");
    assert_string_equal(bt_pkg_value_name(BT_PKG_VALUE_SHADOW), "shadow");
    assert_string_equal(bt_pkg_value_name(BT_PKG_VALUE_OTHER), "other");
    assert_string_equal(bt_pkg_value_name(UINT32_MAX), "?");
}

/* ---- the executor, of packages that no compiler makes ---- */

static void parameters_may_be_the_first_constant(void **state)
{
    (void)state;
    package k = made((tiny_pkg){.ops_all = true});
    const uint32_t index = bt_pkg_rows(k.p)[0].program[BT_PKG_OUT_NONE];
    const bt_pkg_program *g = &bt_pkg_programs(k.p)[index];
    const bt_pkg_inst *code = bt_pkg_code(k.p, index);
    uint32_t i = 0;
    while (code[i].op != BT_PKG_INT_RMSNORM) i++;
    assert_int_equal(code[i].params, 0);
    enum { TOKENS = 32, HEAD_BYTES = 8 * 2, PLANE = TOKENS * HEAD_BYTES };
    uint8_t *page = calloc(1, 2 * 2 * PLANE), *arena = tiny_pkg_alloc((size_t)g->arena_bytes);
    memset(page, 0xff, 2 * 2 * PLANE);
    const bt_kv_view kv = {.page = &page,
                           .page_tokens = TOKENS,
                           .tokens_capacity = TOKENS,
                           .layer_bytes = 2 * PLANE,
                           .plane_bytes = PLANE,
                           .token_bytes = HEAD_BYTES,
                           .head_bytes = HEAD_BYTES,
                           .elem_bytes = 2,
                           .layers = 2,
                           .kv_heads = 1,
                           .head_dim = 8};
    const int32_t ids[4] = {1, 2, 3, 4};
    const bt_exec_seq seq = {.ids = ids, .kv = &kv, .valid = 4};
    const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 4};
    bt_exec *x = NULL;
    assert_int_equal(bt_exec_new(&x, k.p, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    assert_int_equal(bt_exec_run(x, &bt_pkg_rows(k.p)[0], BT_PKG_OUT_NONE, arena, &io, NULL), BT_OK);
    for (size_t plane = 0; plane < 4; plane++) /* K and V of both layers */
        for (size_t t = 0; t < TOKENS; t++)
            assert_int_equal(page[plane * PLANE + t * HEAD_BYTES + 1] == 0xff, t >= 4);
    bt_exec_free(x);
    free(arena);
    free(page);
    done(&k);
}

static void llm_int8_between_integer_operators_is_refused(void **state)
{
    (void)state;
    package k = made((tiny_pkg){.llm_int8 = true, .ops_all = true});
    bt_exec *x = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_exec_new(&x, k.p, bt_kernels_select(NULL), NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "llm-int8"));
    done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(the_same_calls_give_the_same_bytes),
        cmocka_unit_test(constants_lie_at_multiples_of_64_and_are_the_bytes_given),
        cmocka_unit_test_setup_teardown(a_file_appears_only_when_it_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_look_reads_no_constant_and_believes_no_header, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_refuse_for_the_reason_that_one_finds_first, setup, teardown),
        cmocka_unit_test_setup_teardown(the_writers_first_failure_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(many_constants_are_each_stored_once, setup, teardown),
        cmocka_unit_test(two_specializations_share_one_copy_of_the_weights),
        cmocka_unit_test(one_changed_byte_stores_that_tensor_twice_and_no_other),
        cmocka_unit_test(a_shape_that_is_not_in_the_table_is_refused_with_the_nearest_row),
        cmocka_unit_test(a_range_takes_any_number_of_rows_between_its_ends),
        cmocka_unit_test(a_package_of_another_model_is_refused_by_the_field),
        cmocka_unit_test(indices_and_names_are_those_of_the_tables),
        cmocka_unit_test(parameters_may_be_the_first_constant),
        cmocka_unit_test(llm_int8_between_integer_operators_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
