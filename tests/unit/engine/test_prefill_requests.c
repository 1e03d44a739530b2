/* Ten thousand requests, computed by the engines that nodes have: after they were made, nothing is compiled.
 */
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/slow.h"
#include "tests/helpers/temp_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { REQUESTS = 10000, SHRUNK = 16, CTX = 1024, QUANTILES = 32, PAGE = 64 };

/* ContextTokens of Azure's conversation trace of 2023 (19,366 requests, 1,154.7 on average): the quantiles 0,
 * 1/32 ..
 * 1. A length is drawn evenly between two of them, and is a 16th of that here. */
static const uint32_t quantile[QUANTILES + 1] = {
    2,    165,  194,  206,  235,  374,  383,  391,  396,  401,  405,  412,  428,  818,  966,  1001, 1020,
    1037, 1052, 1067, 1083, 1100, 1120, 1147, 1189, 1312, 1335, 1770, 2310, 3018, 4079, 4089, 14050};

static uint32_t draw(uint64_t *rng, uint32_t below)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*rng >> 33) % below);
}

static size_t next_length(uint64_t *rng)
{
    const uint32_t q = draw(rng, QUANTILES), wide = quantile[q + 1] - quantile[q];
    const uint32_t n = (quantile[q] + draw(rng, wide)) / SHRUNK;
    return n ? n : 1;
}

static engine_kit model(void)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.layers = 1;
    s.dim = s.ffn = 32;
    s.heads = 2;
    s.kv_heads = 1;
    s.head_dim = 16;
    s.vocab = 320;
    s.ctx = CTX;
    return engine_kit_of(&s);
}

/* Files in a folder, those of its own folders too. */
static size_t files_of(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char sub[512];
        if (e->d_name[0] == '.') continue;
        snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        n += e->d_type == DT_DIR ? files_of(sub) : 1;
    }
    if (d) closedir(d);
    return n;
}

static void requests_of_a_conversation_trace_compile_nothing(void **state) /* AC-b2 */
{
    (void)state;
    static const char *const engines[] = {"host", "npu"};
    static const char *const policies[] = {"chunk:64+tail", "pow2"};
    char cache[TEMP_FOLDER_BYTES];
    engine_kit k = model();
    int32_t ids[CTX];
    float *logits = engine_kit_floats(k.model->hp.vocab);
    bt_kv_view kv = engine_kit_pages(k.model, CTX, PAGE, 2);
    assert_true(temp_folder_new(cache));
    assert_int_equal(setenv("BATON_CACHE_DIR", cache, 1), 0);
    engine_kit_ids(ids, CTX, k.model, 9);
    const int requests = slow_run() ? REQUESTS / 10 : REQUESTS;
    for (size_t i = 0; i < 4; i++) {
        const bt_prefill_config c = {.engine = engines[i / 2], .threads = 1, .ctx_tokens = CTX,
                                     .want = {.shape_policy = policies[i % 2], .npu_ops = 0}};
        bt_prefill *p = NULL;
        bt_fault f = {""};
        if (bt_prefill_new(&p, k.model, &c, &f) < 0) fail_msg("%s", f.text);
        const uint64_t compiled = bt_prefill_work(p).compilations;
        const size_t files = files_of(cache);
        assert_int_equal(compiled > 0, i / 2 == 0); /* npu: its programs are those of a file that is there */
        assert_true(i / 2 == 0 || files > i % 2);
        uint64_t rng = 20231116, tokens = 0;
        size_t longest = 0;
        for (int r = 0; r < requests; r++) {
            const size_t n = next_length(&rng);
            if (bt_prefill_run(p, &kv, ids, n, 0, NULL, logits, BT_PREFILL_LAST, &f) < 0)
                fail_msg("%s", f.text);
            assert_int_equal(bt_prefill_work(p).compilations, compiled);
            tokens += n;
            longest = n > longest ? n : longest;
        }
        assert_int_equal(files_of(cache), files);
        assert_true(bt_prefill_work(p).rows >= tokens);
        const double mean = (double)tokens * SHRUNK / requests;
        assert_true(mean > 1100 && mean < 1400 && longest > 700); /* quantiles: the last 32nd is wide */
        bt_prefill_free(p);
    }
    free(logits);
    engine_kit_pages_free(&kv);
    engine_kit_done(&k);
    assert_int_equal(temp_folder_remove(cache), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_a_conversation_trace_compile_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
