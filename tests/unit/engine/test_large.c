/* Files, tensors, images and KV beyond 4 GiB: every size and offset on the way is a size_t. Files are holes
 * with a few bytes behind them; memory is mapped and hardly touched. */
#include "engine/decode.h"
#include "engine/needs.h"
#include "kernels/int_kernels.h"
#include "kv/kv_pages.h"
#include "model/gguf.h"
#include "model/quant.h"
#include "model/weights.h"
#include "npu/pkg/pkg.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define HOLE (UINT64_C(5) << 30)

static char dir[TEMP_FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    return temp_folder_new(dir) && setenv("BATON_CACHE_DIR", dir, 1) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return temp_folder_remove(dir);
}

/* Machines of 32 bits refuse what they have no addresses for. */
static bool is_narrow(void)
{
    if (sizeof(size_t) > 4) return false;
    print_message("skipped: no addresses beyond 4 GiB on this machine\n");
    return true;
}

static const char *in_dir(char ret[400], const char *name)
{
    snprintf(ret, 400, "%s/%s", dir, name);
    return ret;
}

static bt_model *open_model(const char *path)
{
    bt_fault f = {""};
    bt_model *m = NULL;
    if (bt_model_open(&m, path, &f) < 0) fail_msg("%s", f.text);
    return m;
}

static float *logits_of(const bt_model *m)
{
    static const int32_t ids[] = {1, 300, 17};
    bt_fault f = {""};
    bt_decode *d = NULL;
    bt_kv_pages *pages = NULL;
    bt_kv_seq seq = {0};
    bt_kv_view kv;
    float *logits = calloc(m->hp.vocab, sizeof *logits);
    const bt_decode_config c = {.rows_max = 3};
    assert_non_null(logits);
    if (bt_decode_new(&d, m, &c, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(bt_kv_pages_new(&pages, m->hp.layers, m->hp.kv_heads, m->hp.head_dim, 2, 64, 64, NULL),
                     BT_OK);
    assert_int_equal(bt_kv_pages_reserve(pages, &seq, 3, NULL), BT_OK);
    bt_kv_pages_view(&kv, pages, &seq);
    const bt_decode_seq s = {.kv = &kv, .tokens = ids, .count = 3, .out = 1};
    if (bt_decode_step(d, &s, 1, NULL, logits, &f) < 0) fail_msg("%s", f.text);
    bt_kv_pages_release(pages, &seq);
    bt_kv_pages_free(pages);
    bt_decode_free(d);
    return logits;
}

static void a_model_whose_tensors_lie_beyond_4_gib_is_the_same_model(void **state)
{
    (void)state;
    char near[400], far[400];
    struct stat st;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.type = BT_QUANT_Q8_0;
    tiny_gguf_write(&spec, in_dir(near, "near.gguf"));
    if (!tiny_gguf_write_far(&spec, in_dir(far, "far.gguf"), HOLE)) {
        print_message("no files with holes here\n");
        skip();
    }
    assert_int_equal(stat(far, &st), 0);
    assert_true((uint64_t)st.st_size > HOLE);
    if (sizeof(size_t) == 4) {
        bt_fault f = {""};
        bt_model *m = NULL;
        assert_int_equal(bt_model_open(&m, far, &f), BT_ELIMIT);
        assert_non_null(strstr(f.text, "bytes; this machine of 32 bits maps files below 4294967295"));
        return;
    }
    bt_model *a = open_model(near), *b = open_model(far);
    assert_memory_equal(a->id, b->id, sizeof a->id);
    assert_int_equal(bt_gguf_file_bytes(b->file), st.st_size);
    for (size_t i = 0; i < bt_gguf_tensor_count(a->file); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(a->file, i), *u = bt_gguf_tensor_at(b->file, i);
        size_t head;
        assert_true((size_t)(u->data - bt_gguf_head(&head, b->file)) > HOLE);
        assert_int_equal(t->bytes, u->bytes);
        assert_memory_equal(t->data, u->data, t->bytes);
    }
    float *x = logits_of(a), *y = logits_of(b);
    assert_memory_equal(x, y, a->hp.vocab * sizeof *x);
    free(x);
    free(y);
    bt_model_close(a);
    bt_model_close(b);
}

/* One tensor of more than 4 GiB, as wide as the ffn of an 8B model; a hole but for its last row. */
static void check_last_row(uint32_t type)
{
    enum { WIDE = 14336 };
    static float got[WIDE], want[WIDE];
    char path[400];
    bt_fault f = {""};
    const bt_quant_info *q = bt_quant_find(type);
    const size_t row_bytes = WIDE / q->block_elems * q->block_bytes;
    const uint64_t rows = (UINT64_C(1) << 32) / row_bytes + 100, dim[] = {WIDE, rows};
    uint8_t *row = calloc(1, row_bytes);
    size_t len;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_tensor(w, "t", type, dim, 2, NULL, 0);
    uint8_t *head = tiny_gguf_finish(w, &len);
    assert_non_null(row);
    for (size_t i = 0; i < row_bytes; i++) row[i] = (uint8_t)(i * 37 + type) & 0x3f; /* finite in all types */
    const int fd = open(in_dir(path, "one.gguf"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, head, len, 0), len);
    assert_int_equal(pwrite(fd, row, row_bytes, (off_t)(len + (rows - 1) * row_bytes)), row_bytes);
    close(fd);
    bt_gguf *g = NULL;
    if (bt_gguf_open(&g, path, &f) < 0) fail_msg("%s: %s", q->name, f.text);
    const bt_gguf_tensor *t = bt_gguf_find_tensor(g, "t");
    assert_true(t->bytes > UINT32_MAX && t->bytes == rows * row_bytes && t->rows == rows);
    bt_model_row_f32(got, t, rows - 1);
    bt_quant_to_f32(want, row, q, WIDE);
    assert_memory_equal(got, want, sizeof want);
    bool is_zero = true;
    for (size_t i = 0; i < WIDE; i++) is_zero = is_zero && want[i] == 0;
    assert_false(is_zero);
    bt_gguf_close(g);
    free(head);
    free(row);
    unlink(path);
}

static void the_last_row_of_a_tensor_beyond_4_gib_is_read_in_every_type(void **state)
{
    (void)state;
    if (is_narrow()) skip();
    char path[400];
    tiny_gguf_spec spec = tiny_gguf_default();
    if (!tiny_gguf_write_far(&spec, in_dir(path, "probe.gguf"), HOLE)) skip();
    unlink(path);
    for (uint32_t type = 0; type < 64; type++)
        if (bt_quant_find(type)) check_last_row(type);
}

/* ---- sizes of whole models, from headers ---- */

typedef struct shape {
    const char *arch;
    uint32_t layers, dim, ffn, heads, kv_heads, head_dim, vocab;
} shape;

static void matrix(tiny_gguf *w, const char *name, uint32_t layer, uint64_t k, uint64_t n)
{
    char full[96];
    const uint64_t dim[] = {k, n};
    if (layer == UINT32_MAX) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    tiny_gguf_tensor(w, full, n == 1 ? BT_QUANT_F32 : BT_QUANT_F16, dim, n == 1 ? 1 : 2, NULL, 0);
}

/* A header without the tensors' data. */
static bt_model *head_of(const shape *s, uint8_t **ret_bytes)
{
    bt_fault f = {""};
    bt_gguf *g = NULL;
    bt_model *m = NULL;
    size_t len;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    tiny_gguf_str(w, "general.architecture", "llama");
    tiny_gguf_u32(w, "llama.block_count", s->layers);
    tiny_gguf_u32(w, "llama.context_length", 131072);
    tiny_gguf_u32(w, "llama.embedding_length", s->dim);
    tiny_gguf_u32(w, "llama.feed_forward_length", s->ffn);
    tiny_gguf_u32(w, "llama.attention.head_count", s->heads);
    tiny_gguf_u32(w, "llama.attention.head_count_kv", s->kv_heads);
    tiny_gguf_u32(w, "llama.rope.dimension_count", s->head_dim);
    tiny_gguf_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tiny_gguf_f32(w, "llama.rope.freq_base", 500000.0f);
    matrix(w, "token_embd.weight", UINT32_MAX, s->dim, s->vocab);
    for (uint32_t l = 0; l < s->layers; l++) {
        matrix(w, "attn_norm.weight", l, s->dim, 1);
        matrix(w, "attn_q.weight", l, s->dim, q);
        matrix(w, "attn_k.weight", l, s->dim, kv);
        matrix(w, "attn_v.weight", l, s->dim, kv);
        matrix(w, "attn_output.weight", l, q, s->dim);
        matrix(w, "ffn_norm.weight", l, s->dim, 1);
        matrix(w, "ffn_gate.weight", l, s->dim, s->ffn);
        matrix(w, "ffn_up.weight", l, s->dim, s->ffn);
        matrix(w, "ffn_down.weight", l, s->ffn, s->dim);
    }
    matrix(w, "output_norm.weight", UINT32_MAX, s->dim, 1);
    matrix(w, "output.weight", UINT32_MAX, s->dim, s->vocab);
    *ret_bytes = tiny_gguf_finish(w, &len);
    if (bt_gguf_open_head_bytes(&g, *ret_bytes, len, &f) < 0) fail_msg("%s", f.text);
    if (bt_model_head_from_gguf(&m, g, &f) < 0) fail_msg("%s", f.text);
    return m;
}

static void sizes_of_large_models_do_not_wrap(void **state)
{
    (void)state;
    static const shape shapes[] = {{"8b", 32, 4096, 14336, 32, 8, 128, 128256},
                                   {"8b, 152k", 36, 4096, 12288, 32, 8, 128, 151936},
                                   {"70b", 80, 8192, 28672, 64, 8, 128, 128256}};
    static const bt_obtain_want usual;
    if (is_narrow()) skip();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        bt_fault f = {""};
        uint8_t *bytes;
        uint64_t image = 0, int8 = 0;
        bt_model *m = head_of(s, &bytes);
        const uint64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
        const uint64_t layer = (uint64_t)s->dim * (2 * q + 2 * kv) + 3ull * s->dim * s->ffn;
        const uint64_t weights = s->layers * layer + (uint64_t)s->dim * s->vocab;
        assert_int_equal(bt_weights_bytes(&image, m, BT_FORM_F16, false, &f), BT_OK);
        assert_true(image >= 2 * weights && image < 2 * weights + weights / 100);
        assert_int_equal(bt_weights_bytes(&int8, m, BT_FORM_INT8, false, &f), BT_OK);
        assert_true(int8 >= weights && int8 < weights + weights / 100);
        const bt_needs_want w = {.prefill = "npu", .decode = "host", .want = &usual, .rows = 64,
                                 .threads = 2};
        bt_needs n;
        if (bt_needs_of(&n, m, &w, &f) < 0) fail_msg("%s", f.text);
        print_message("%s: package %.2f, f16 %.2f, KV %.2f, work %.2f GB\n", s->arch,
                      (double)n.part[BT_NEEDS_PACKAGE] / 1e9, (double)image / 1e9,
                      (double)n.part[BT_NEEDS_KV] / 1e9, (double)n.part[BT_NEEDS_WORK] / 1e9);
        const uint64_t package = weights + 2ull * s->dim * s->vocab; /* and the embedding as it is, in f16 */
        assert_true(n.part[BT_NEEDS_PACKAGE] >= package && n.part[BT_NEEDS_PACKAGE] < package + package / 50);
        assert_int_equal(n.part[BT_NEEDS_KV], 131072ull * s->layers * 2 * kv * 2); /* 17 to 43 GB */
        assert_int_equal(n.part[BT_NEEDS_WEIGHTS], image);
        assert_true(n.part[BT_NEEDS_WORK] < UINT64_C(1) << 31);
        bt_model_close(m);
        free(bytes);
    }
}

/* ---- packages and KV ---- */

static void constants_beyond_4_gib_have_their_offsets(void **state)
{
    (void)state;
    const bt_pkg_header h = {.layers = 1};
    bt_pkg_writer *w = NULL;
    bt_pkg *p = NULL;
    assert_int_equal(bt_pkg_writer_sketch(&w, NULL), BT_OK);
    for (uint32_t i = 0; !is_narrow() && i < 8; i++)
        assert_int_equal(bt_pkg_writer_const(w, BT_PKG_CONST_WEIGHT, NULL, (size_t)(UINT64_C(3) << 30)), i);
    assert_int_equal(bt_pkg_writer_finish_sketch(&p, w, &h, NULL), BT_OK);
    const uint64_t bytes = bt_pkg_header_of(p)->file_bytes;
    bt_pkg_writer_free(w);
    bt_pkg_close(p);
    if (is_narrow()) return;
    assert_true(bytes > UINT64_C(24) << 30);
    assert_true(bytes < (UINT64_C(24) << 30) + 4096);
    /* a matrix of 152k outputs over 28,672 inputs: 4.4 GB of panels */
    assert_true((uint64_t)bt_int_panels(152064) * bt_int_panel_bytes(28672, 8) == UINT64_C(152064) * 28672);
}

static void kv_of_128k_tokens_has_room_to_its_last_row(void **state)
{
    (void)state;
    enum { LAYERS = 32, HEADS = 8, DIM = 128, TOKENS = 131072 };
    bt_fault f = {""};
    bt_kv_pages *p = NULL;
    bt_kv_seq seq = {0};
    bt_kv_view v;
    if (bt_kv_pages_new(&p, LAYERS, HEADS, DIM, 2, 64, TOKENS, &f) < 0) { /* 16 GiB of addresses */
        print_message("%s\n", f.text);
        skip();
    }
    assert_int_equal(bt_kv_pages_reserve(p, &seq, TOKENS, &f), BT_OK);
    bt_kv_pages_view(&v, p, &seq);
    assert_true((uint64_t)(v.page[TOKENS / 64 - 1] - v.page[0]) > UINT32_MAX);
    uint8_t *first = (uint8_t *)(uintptr_t)bt_kv_view_row(&v, 0, 0, 0, 0),
            *last = (uint8_t *)(uintptr_t)bt_kv_view_row(&v, LAYERS - 1, 1, TOKENS - 1, HEADS - 1);
    memset(first, 1, DIM * 2);
    memset(last, 2, DIM * 2);
    assert_int_equal(first[0], 1);
    assert_int_equal(last[DIM * 2 - 1], 2);
    assert_int_equal(last - first + DIM * 2, UINT64_C(16) << 30);
    bt_kv_pages_release(p, &seq);
    bt_kv_pages_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_whose_tensors_lie_beyond_4_gib_is_the_same_model),
        cmocka_unit_test(the_last_row_of_a_tensor_beyond_4_gib_is_read_in_every_type),
        cmocka_unit_test(sizes_of_large_models_do_not_wrap),
        cmocka_unit_test(constants_beyond_4_gib_have_their_offsets),
        cmocka_unit_test(kv_of_128k_tokens_has_room_to_its_last_row),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
