/* The memory that compiling will take, told from a header: the package's size beside the file that is
 * written, the compiler's memory beside what it takes, and a machine that has too little of either. */
#include "npu/compile/needs.h"
#include "base/file.h"
#include "base/memory.h"
#include "npu/pkg/pkg.h"
#include "model/weights.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 512, CALIB = 300 };

typedef struct world {
    engine_kit kit;
    int32_t ids[CALIB];
    char dir[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 8];
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model_ffn(arch, 176)};
    assert_true(temp_folder_new(w.dir));
    snprintf(w.path, sizeof w.path, "%s/p.bpk", w.dir);
    engine_kit_ids(w.ids, CALIB, w.kit.model, 21);
    return w;
}

static void end(world *w)
{
    unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0); /* nothing else was left in it */
    engine_kit_done(&w->kit);
}

static bt_compile_options options(const world *w, const char *recipe)
{
    bt_compile_options o = {.shape_policy = "chunk:32+tail", .ctx_tokens = CTX, .calib_ids = w->ids,
                            .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    return o;
}

static bt_compile_needs needs(const world *w, const bt_compile_options *o)
{
    bt_fault f = {""};
    bt_compile_needs n = {0};
    if (bt_compile_needs_of(&n, w->kit.model, o, 1, &f) < 0) fail_msg("%s", f.text);
    return n;
}

static void compare(const world *w, const bt_compile_options *o)
{
    bt_fault f = {""};
    bt_pkg *p = NULL;
    const bt_compile_needs n = needs(w, o);
    if (bt_compile(w->path, w->kit.model, o, NULL, &f) < 0) fail_msg("%s", f.text);
    if (bt_pkg_open(&p, w->path, &f) < 0) fail_msg("%s", f.text);
    const bt_pkg_header *h = bt_pkg_header_of(p);
    print_message("%s %s %s: told %lu, written %lu\n", h->recipe, h->shape_policy, h->profile,
                  (unsigned long)n.package_bytes, (unsigned long)h->file_bytes);
    assert_true(n.package_bytes >= h->file_bytes);
    assert_true(n.package_bytes <= h->file_bytes + h->file_bytes / 20);
    assert_int_equal(n.arena_bytes, h->arena_bytes);
    assert_int_equal(n.max_seq, h->max_seq);
    bt_pkg_close(p);
}

static void a_package_has_the_size_that_was_told(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    static const char *const recipes[] = {
        "w8a8",      "w8a16:no-rotate", "w4a16:r4", "w8a8/1=w4a16:no-bias/head=w8a16", "w8a8:no-bias,asym",
        "w8a8:lut6", "w8a16:lut4"};
    static const char *const policies[] = {"chunk:32+tail", "pow2", "range:1-64"};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
            bt_compile_options o = options(&w, recipes[r]);
            o.shape_policy = policies[(a + r) % 3];
            o.npu_ops = r == 4 ? BT_PKG_OPS_ALL : BT_PKG_OPS_LINEAR;
            compare(&w, &o);
        }
        end(&w);
    }
}

static void devices_that_take_more_or_less_are_counted_too(void **state)
{
    (void)state;
    static const char *const names[] = {"hexagon-v75", "ane-m2-ultra", "host"};
    world w = begin("llama");
    for (size_t i = 0; i < 3; i++) {
        bt_profile profile;
        assert_int_equal(bt_profile_load(&profile, names[i], NULL), BT_OK);
        bt_compile_options o = options(&w, "w8a8");
        o.profile = &profile;
        o.shape_policy = "chunk:32";
        compare(&w, &o);
        o.npu_ops = BT_PKG_OPS_ALL;
        compare(&w, &o);
    }
    end(&w);
}

static void more_windows_layers_in_floats_and_gptq_take_more_memory(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_compile_options o = options(&w, "w8a8");
    const uint64_t usual = needs(&w, &o).memory_bytes;
    o.calib_len = 4 * BT_COMPILE_MAX_CALIB; /* not read */
    const uint64_t windows = needs(&w, &o).memory_bytes;
    o = options(&w, "w8a8:gptq");
    const uint64_t gptq = needs(&w, &o).memory_bytes;
    end(&w);
    assert_true(windows > usual);
    assert_true(gptq > usual);
}

static void too_little_memory_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    bt_fault f = {""};
    world w = begin("llama");
    const bt_compile_options o = options(&w, "w8a8");
    bt_memory_set_free(4096);
    const bt_err e = bt_compile(w.path, w.kit.model, &o, NULL, &f);
    const int there = access(w.path, F_OK);
    bt_memory_set_free(0);
    end(&w);
    assert_int_equal(e, BT_ELIMIT);
    assert_non_null(strstr(f.text, "compiling needs "));
    assert_non_null(strstr(f.text, "of memory, 4.0 KiB free"));
    assert_int_equal(there, -1);
}

/* ---- a disk that is nearly full: a small file system in memory, seen by a child alone ---- */

enum { NO_DISK = 77 };

/* A file that does not fit is refused with both numbers, before there is one. */
static int is_refused(bt_err e, const bt_fault *f, const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "[ -z \"$(find '%s' -type f ! -name '*.lock')\" ]", dir);
    if (e != BT_ELIMIT || !strstr(f->text, "its disk has ") || !strstr(f->text, "KiB left"))
        fprintf(stderr, "%d: %s\n", e, f->text);
    return e == BT_ELIMIT && strstr(f->text, "its disk has ") && strstr(f->text, "KiB left") &&
           system(command) == 0;
}

static int on_a_full_disk(const world *w)
{
    bt_fault compiling = {""}, converting = {""};
    const bt_compile_options o = options(w, "w8a8");
    const bt_weights_options wo = {.ctx_tokens = 1, .cache_dir = w->dir};
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return NO_DISK;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return NO_DISK;
    if (mount("none", w->dir, "tmpfs", 0, "size=64k") < 0) return NO_DISK;
    const bt_err e = bt_compile(w->path, w->kit.model, &o, NULL, &compiling);
    const int compiled = is_refused(e, &compiling, w->dir);
    const bt_err k = bt_weights_keep(w->kit.model, &wo, NULL, &converting);
    return compiled && is_refused(k, &converting, w->dir) ? 0 : 1;
}

static void a_full_disk_is_told_before_compiling_and_converting(void **state)
{
    (void)state;
    int status = 0;
    world w = begin("llama");
    const pid_t pid = fork();
    if (pid == 0) _exit(on_a_full_disk(&w));
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    end(&w);
    if (WEXITSTATUS(status) == NO_DISK) {
        print_message("no small file system can be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_package_has_the_size_that_was_told),
        cmocka_unit_test(devices_that_take_more_or_less_are_counted_too),
        cmocka_unit_test(more_windows_layers_in_floats_and_gptq_take_more_memory),
        cmocka_unit_test(too_little_memory_is_told_and_leaves_nothing),
        cmocka_unit_test(a_full_disk_is_told_before_compiling_and_converting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
