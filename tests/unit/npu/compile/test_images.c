/* Images of sessions, unpacked again and compared with the package's weights, byte by byte: tiles, their
 * padding, scales, sums, zeros, sizes. */
#include "npu/compile/images.h"
#include "base/file.h"
#include "device/tile.h"
#include "kernels/int_kernels.h"
#include "npu/compile/compile.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 128, CALIB = 128 };

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB];
    char dir[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 16];
} world;

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->kit = engine_kit_model("qwen2");
    engine_kit_ids(w->calib, CALIB, w->kit.model, 3);
    assert_true(temp_folder_new(w->dir));
    snprintf(w->path, sizeof w->path, "%s/package", w->dir);
    *state = w;
    return 0;
}

enum { PATH_BYTES = TEMP_FOLDER_BYTES + 40 };

static void image_path(char ret[PATH_BYTES], const world *w, uint32_t session)
{
    snprintf(ret, PATH_BYTES, "%s/images/session-%u.img", w->dir, session);
}

static int end(void **state)
{
    world *w = *state;
    char path[PATH_BYTES];
    for (uint32_t i = 0; i < 16; i++) image_path(path, w, i), (void)unlink(path);
    snprintf(path, sizeof path, "%s/images", w->dir);
    (void)rmdir(path);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0); /* nothing else was left there */
    engine_kit_done(&w->kit);
    free(w);
    return 0;
}

static bt_err try_compile(bt_pkg **ret, const world *w, const bt_profile *p, const char *recipe,
                          uint32_t npu_ops, bt_fault *f)
{
    bt_compile_options o = {.shape_policy = "chunk:32", .profile = p,          .npu_ops = npu_ops,
                            .ctx_tokens = CTX,          .calib_ids = w->calib, .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    const bt_err e = bt_compile(w->path, w->kit.model, &o, NULL, f);
    return e < 0 ? e : bt_pkg_open(ret, w->path, f);
}

static bt_pkg *made(const world *w, const bt_profile *p, const char *recipe, uint32_t npu_ops)
{
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    if (try_compile(&pkg, w, p, recipe, npu_ops, &f) < 0) fail_msg("%s: %s", recipe, f.text);
    return pkg;
}

static bt_err write_images(const world *w, const bt_pkg *p, bt_fault *f)
{
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "%s/images", w->dir);
    return bt_images_write(p, dir, f);
}

/* ---- reading one back ---- */

static uint16_t stored(const uint8_t *bytes, size_t at, uint32_t bits)
{
    if (bits == 8) return bytes[at];
    if (bits == 6) {
        uint32_t v = 0;
        for (size_t i = 0; i < 6; i++) v |= (bytes[(6 * at + i) / 8] >> (6 * at + i) % 8 & 1u) << i;
        return (uint16_t)v;
    }
    return (uint16_t)(bytes[at / 2] >> (at % 2 * 4) & 15);
}

/* Where docs/package-format.md says that an element of a tile is. */
static size_t place(const bt_tile *t, size_t row, size_t col)
{
    const size_t g = 32 / t->bits, left = t->rows - row / g * g, w = left < g ? left : g;
    return row / g * g * t->cols + col * w + row % g;
}

/* The matrix at `bytes`, in the tiles of the profile; returns what it takes with its scales and sums. */
static uint64_t check_matrix(const bt_pkg *p, const bt_pkg_tensor *t, const bt_profile *profile,
                             const uint8_t *bytes)
{
    const bt_tile tile = bt_tile_of(profile->tile_rows, profile->tile_cols, t->k, t->bits);
    const size_t elems = bt_tile_elems(&tile), mask = ((size_t)1 << t->bits) - 1;
    const void *panels = bt_pkg_const_at(p, t->panels);
    uint16_t *packed = malloc(elems * sizeof *packed);
    size_t at = 0;
    assert_non_null(packed);
    for (size_t n = 0; n < t->n; n += tile.rows)
        for (size_t k = 0; k < t->k; k += tile.cols) {
            for (size_t i = 0; i < elems; i++) packed[i] = stored(bytes, at++, t->bits);
            for (size_t r = 0; r < tile.rows; r++)
                for (size_t c = 0; c < tile.cols; c++) {
                    const bool is_there = n + r < t->n && k + c < t->k;
                    const int v = !is_there        ? 0
                                  : t->palette_run ? (int)bt_int_index_at(panels, n + r, k + c, t->k, t->bits)
                                                   : bt_int_packed_at(panels, n + r, k + c, t->k, t->bits);
                    assert_int_equal(packed[place(&tile, r, c)], (size_t)v & mask);
                }
        }
    free(packed);
    const uint64_t size = bt_tile_bytes(profile, t->n, t->k, t->bits);
    assert_int_equal((at * t->bits + 7) / 8, size);
    assert_memory_equal(bytes + size, bt_pkg_const_at(p, t->oscale), (size_t)t->n * 4);
    assert_memory_equal(bytes + size + (size_t)t->n * 4, bt_pkg_const_at(p, t->colsum), (size_t)t->n * 4);
    const uint64_t taken = size + 8 * (uint64_t)t->n;
    if (!t->palette_run) return taken;
    const uint64_t palettes = bt_pkg_consts(p)[t->groups].bytes;
    assert_memory_equal(bytes + taken, bt_pkg_const_at(p, t->groups), palettes);
    return taken + palettes;
}

/* Returns how many bytes of zeros the image ends with. */
static uint64_t check_image(const world *w, const bt_pkg *p, const bt_profile *profile, uint32_t session)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_session *s = &bt_pkg_sessions(p)[session];
    char path[PATH_BYTES];
    const uint8_t *bytes;
    size_t n = 0;
    uint64_t at = 0;
    image_path(path, w, session);
    assert_int_equal(bt_file_map(&bytes, &n, NULL, path, NULL), BT_OK);
    assert_int_equal(n, s->mapped_bytes);
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i];
        const uint32_t part = i / BT_PKG_LAYER_TENSORS;
        if (t->bits && t->bits <= 8 && s->first_layer <= part && part <= s->last_layer)
            at += check_matrix(p, t, profile, bytes + at);
    }
    const uint64_t zeros = n - at;
    for (; at < n; at++) assert_int_equal(bytes[at], 0);
    bt_file_unmap(bytes, n);
    return zeros;
}

static uint64_t window_of(const world *w, const bt_profile *p, const char *recipe, uint32_t npu_ops)
{
    bt_profile tight = *p;
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    tight.map_window_bytes = 1;
    assert_int_equal(try_compile(&pkg, w, &tight, recipe, npu_ops, &f), BT_ELIMIT);
    const char *at = strstr(f.text, "the smallest window that would do is ");
    assert_non_null(at);
    return strtoull(at + strlen("the smallest window that would do is "), NULL, 10);
}

static void an_image_is_the_session_s_weights_in_the_device_s_tiles(void **state) /* AC-d1 */
{
    const world *w = *state;
    static const struct {
        const char *profile, *recipe;
        uint32_t tile_rows, tile_cols, npu_ops;
        bool is_split;
    } of[] = {
        {"hexagon-v75", "w8a8", 32, 32, BT_PKG_OPS_LINEAR, true},
        {"host", "w4a8:no-gptq", 32, 32, BT_PKG_OPS_ALL, true},
        {"host", "w8a8", 128, 128, BT_PKG_OPS_ALL, true},
        {"host", "w4a8:no-gptq", 7, 5, BT_PKG_OPS_LINEAR, false}, /* bytes that two tiles share */
        {"host", "w8a8", 0, 0, BT_PKG_OPS_LINEAR, false},
        {"host", "w8a8:lut4", 32, 32, BT_PKG_OPS_LINEAR, true},
        {"host", "w8a16:lut6", 7, 5, BT_PKG_OPS_ALL, false},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bt_profile p;
        assert_int_equal(bt_profile_load(&p, of[i].profile, NULL), BT_OK);
        p.tile_rows = of[i].tile_rows;
        p.tile_cols = of[i].tile_cols;
        p.memory_bytes = p.on_chip_bytes = 0;
        p.map_window_bytes = of[i].is_split ? window_of(w, &p, of[i].recipe, of[i].npu_ops) : 0;
        bt_pkg *pkg = made(w, &p, of[i].recipe, of[i].npu_ops);
        const bt_pkg_header *h = bt_pkg_header_of(pkg);
        bt_fault f = {""};
        if (write_images(w, pkg, &f) < 0) fail_msg("%s", f.text);
        assert_int_equal(h->sessions.count > 1, of[i].is_split);
        const uint64_t state_bytes = 2 * 2 * (uint64_t)h->kv_heads * CTX * h->head_dim; /* K and V of a layer
                                                                                           in f16 */
        for (uint32_t n = 0; n < h->sessions.count; n++) {
            const bt_pkg_session *s = &bt_pkg_sessions(pkg)[n];
            const uint64_t zeros = check_image(w, pkg, &p, n), layers = s->last_layer - s->first_layer + 1,
                           with_head = s->last_layer == h->layers;
            const bool has_state = of[i].is_split && of[i].npu_ops == BT_PKG_OPS_ALL;
            assert_int_equal(zeros, h->arena_bytes + (has_state ? (layers - with_head) * state_bytes : 0));
        }
        char path[PATH_BYTES];
        image_path(path, w, h->sessions.count); /* of a package with more sessions, written before */
        assert_int_equal(access(path, F_OK), -1);
        bt_pkg_close(pkg);
    }
}

/* Packages of the helper say 1,000 bytes of every session. */
static void a_package_whose_sessions_map_something_else_is_refused_with_both_numbers(void **state)
{
    const world *w = *state;
    bt_fault f = {""};
    bt_pkg *p = NULL;
    char path[PATH_BYTES];
    tiny_pkg_write(w->path, &(tiny_pkg){.bits = 8});
    assert_int_equal(bt_pkg_open(&p, w->path, NULL), BT_OK);
    const bt_pkg_header *h = bt_pkg_header_of(p);
    uint64_t has = h->arena_bytes;
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i];
        if (t->bits == 8) has += (uint64_t)t->n * t->k + 8 * (uint64_t)t->n;
    }
    image_path(path, w, 0);
    (void)unlink(path);
    assert_int_equal(write_images(w, p, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "session 0 maps 1000 bytes"));
    snprintf(path, sizeof path, "its image has %llu", (unsigned long long)has);
    if (!strstr(f.text, path)) fail_msg("%s, not %s", f.text, path);
    image_path(path, w, 0);
    assert_int_equal(access(path, F_OK), -1);
    bt_pkg_close(p);
}

static void a_full_disk_and_a_bad_folder_leave_no_file(void **state)
{
    const world *w = *state;
    bt_profile p;
    bt_fault f = {""};
    struct rlimit before, little;
    char path[PATH_BYTES];
    assert_int_equal(bt_profile_load(&p, NULL, NULL), BT_OK);
    bt_pkg *pkg = made(w, &p, "w8a8", BT_PKG_OPS_LINEAR);
    for (uint32_t i = 0; i < 8; i++) image_path(path, w, i), (void)unlink(path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    const uint64_t limits[] = {1000, bt_pkg_sessions(pkg)[0].mapped_bytes - 1}; /* a write; the hole at the
                                                                                   end */
    for (size_t i = 0; i < 2; i++) {
        little = before;
        little.rlim_cur = (rlim_t)limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        const bt_err e = write_images(w, pkg, &f);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(e, BT_EIO);
        assert_non_null(strstr(f.text, "session-0.img"));
        image_path(path, w, 0);
        assert_int_equal(access(path, F_OK), -1);
    }
    (void)signal(SIGXFSZ, was);
    assert_int_equal(bt_images_write(pkg, w->path, &f), BT_EIO); /* a file */
    assert_int_equal(bt_images_write(pkg, "/proc/none/there", &f), BT_EIO);
    assert_non_null(strstr(f.text, "/proc/none/there"));
    bt_pkg_close(pkg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_is_the_session_s_weights_in_the_device_s_tiles),
        cmocka_unit_test(a_package_whose_sessions_map_something_else_is_refused_with_both_numbers),
        cmocka_unit_test(a_full_disk_and_a_bad_folder_leave_no_file),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
