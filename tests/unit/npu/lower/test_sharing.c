/* The savings from programs that chunks share, against llm.npu's published counts. */
#include "npu/lower/sharing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Qwen1.5-1.8B, of which llm.npu reports 120 of 144 subgraphs shared and 75 % less memory. */
static const bt_hparams qwen = {.arch = BT_ARCH_QWEN2, .layers = 24,    .dim = 2048,
                                .ffn = 5504,           .heads = 16,     .kv_heads = 16,
                                .head_dim = 128,       .vocab = 151936, .qkv_bias = true};

static void
a_prompt_of_1024_in_chunks_of_256_shares_120_of_144_subgraphs_and_three_quarters_of_the_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* rotations and head norms change no subgraph */
        bt_hparams hp = qwen;
        hp.qk_norm = i == 2;
        const bt_graph_options o = {.rotate_embed = i == 1, .rotate_attention = i >= 1};
        bt_graph *g;
        bt_sharing r;
        assert_int_equal(bt_graph_build(&g, &hp, &o, NULL), BT_OK);
        assert_int_equal(bt_sharing_of(&r, g, 1024, 256, 8, NULL), BT_OK);
        assert_int_equal(r.chunks, 4);
        assert_int_equal(r.subgraphs, 144);
        assert_int_equal(r.shared, 120);
        assert_int_equal(r.unshared, 24);
        print_message("%.1f MB instead of %.1f MB: %.4f\n", (double)r.shared_bytes / 1e6,
                      (double)r.naive_bytes / 1e6, r.ratio);
        assert_true(r.ratio > 0.25 && r.ratio < 0.28);
        bt_graph_free(g);
    }
}

static void one_chunk_has_nothing_to_share(void **state)
{
    (void)state;
    bt_graph *g;
    bt_sharing r;
    assert_int_equal(bt_graph_build(&g, &qwen, NULL, NULL), BT_OK);
    assert_int_equal(bt_sharing_of(&r, g, 200, 256, 8, NULL), BT_OK);
    assert_int_equal(r.chunks, 1);
    assert_true(r.shared_bytes == r.naive_bytes);
    assert_int_equal(bt_sharing_of(&r, g, 0, 256, 8, NULL), BT_EARG);
    assert_int_equal(bt_sharing_of(&r, g, 1, 0, 8, NULL), BT_EARG);
    bt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_prompt_of_1024_in_chunks_of_256_shares_120_of_144_subgraphs_and_three_quarters_of_the_memory),
        cmocka_unit_test(one_chunk_has_nothing_to_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
