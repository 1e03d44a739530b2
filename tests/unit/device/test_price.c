/* A price from a table is the sum of what its operators take one by one; steps, groups and links. */
#include "device/price.h"
#include "device/link.h"

#include <time.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    return p;
}
/* An H100 as its data sheet has it, or a group: no launches, every kernel at its peak. */
static bt_profile sheet(uint32_t devices)
{
    return (bt_profile){.name = "h100", .companion = true,
                        .time = {.is_given = true, .f16_ops_per_us = 989430000, .int8_permille = 2000,
                                 .memory_bytes_per_us = 3350000, .devices = devices > 1 ? devices : 0,
                                 .interconnect_bytes_per_us = 450000, .interconnect_ns = 5000}};
}
static const bt_price_recipe w8 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16};
static const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};

static bt_price price(const char *device, const char *shape, const bt_price_recipe *r)
{
    static const uint32_t rows[] = {32, 64, 128, 256};
    const bt_profile p = profile(device);
    bt_price ret;
    bt_fault f = {""};
    if (bt_price_of_dims(&ret, &p, bt_dims_find(shape), r, rows, 4, &f) < 0) fail_msg("%s", f.text);
    return ret;
}

/* Every operator of every layer, by device/time.h alone. */
static uint64_t one_by_one(const bt_profile *p, const bt_dims *s, const bt_price_recipe *r, uint64_t first,
                           uint64_t rows)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const size_t n = bt_dims_matrices(m, s);
    uint64_t ns = p->time.dispatch_ns, pairs = 0;
    for (uint64_t i = 0; i < rows; i++) pairs += first + i + 1;
    for (uint32_t l = 0; l < s->layers; l++) {
        for (size_t i = 0; i < n; i++) {
            const bt_time_matrix op = {.rows = rows, .inputs = m[i].inputs, .outputs = m[i].outputs,
                                       .weight_bits = r->weight_bits, .input_bits = r->input_bits};
            ns += bt_time_of_matrix(p, &op);
        }
        const bt_time_attention a = {rows,        pairs,       first + rows,   s->heads,
                                     s->kv_heads, s->head_dim, r->kv_elem_bits};
        ns += bt_time_of_attention(p, &a);
    }
    return ns;
}

static void a_chunk_from_the_table_is_within_a_thousandth_of_its_operators(void **state)
{
    (void)state;
    static const char *const devices[] = {"hexagon-v75", "ane-a17-pro", "tpu-v5e", "cloud-ai-100", "npu4"};
    static const char *const shapes[] = {"smollm2-135m", "llama-3.2-1b", "gemma-2b", "llama-2-70b"};
    for (size_t d = 0; d < 5; d++)
        for (size_t s = 0; s < 4; s++) {
            const bt_price t = price(devices[d], shapes[s], &w8);
            for (uint32_t i = 0; i < 4; i++)
                for (uint64_t first = 0; first <= 131072; first = first ? first * 8 : 256) {
                    const double want = (double)one_by_one(&t.profile, bt_dims_find(shapes[s]), &w8, first,
                                                           t.program[i].rows),
                                 got = (double)bt_price_chunk_ns(&t, i, first);
                    if (got < want * 0.999 - 1000 || got > want * 1.001 + 1000)
                        fail_msg("%s %s %u rows behind %u: %.0f, not %.0f", devices[d], shapes[s],
                                 (unsigned)t.program[i].rows, (unsigned)first, got, want);
                }
        }
}

/* AC-d4, of a model's programs: Q8_0 has a scale for each 32 inputs. */
static void programs_with_scales_for_each_32_inputs_are_eight_to_eleven_times_slower(void **state)
{
    (void)state;
    const bt_price_recipe q8_0 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16, .group = 32,
                                  .weight_bytes_permille = 1062};
    const bt_price plain = price("hexagon-v75", "llama-2-7b", &w8),
                   grouped = price("hexagon-v75", "llama-2-7b", &q8_0);
    for (uint32_t i = 0; i < plain.programs; i++) {
        const double ratio =
            (double)grouped.program[i].compute.fixed / (double)plain.program[i].compute.fixed; /* all but
                                                                                                  scores */
        print_message("%u rows: %.2f times\n", plain.program[i].rows, ratio);
        assert_true(ratio > 8 && ratio < 11);
    }
}

static void a_prompt_is_full_chunks_and_the_shortest_tail(void **state)
{
    (void)state;
    const bt_price p = price("hexagon-v75", "qwen1.5-1.8b", &w8);
    /* 256 + 256 + 88 in a program of 128 */
    const bt_price_sum s = bt_price_prompt(&p, 600);
    assert_int_equal(s.chunks, 3);
    assert_int_equal(s.ns, p.first_ns + p.last_ns + bt_price_chunk_ns(&p, 3, 0) +
                               bt_price_chunk_ns(&p, 3, 256) + bt_price_chunk_ns(&p, 2, 512));
    uint64_t terms = 0;
    for (int k = 0; k < BT_TERMS; k++) terms += s.term_ns[k];
    assert_int_equal(terms, s.ns);
    assert_int_equal(bt_price_prompt(&p, 0).ns, 0);
    assert_int_equal(bt_price_prompt(&p, 1).chunks, 1);
    assert_true(bt_price_prompt(&p, 32).ns == bt_price_prompt(&p, 1).ns);
    /* layers' operators once, and their weights at the first rate */
    const uint64_t ops = 24 * 7, bytes = bt_dims_body(bt_dims_find("qwen1.5-1.8b"));
    assert_int_equal(p.first_ns, ops * p.profile.time.first_launch_ns +
                                     bt_time_of(bytes, p.profile.time.first_weight_bytes_per_us));
}

static void a_million_tokens_on_the_slowest_device_have_a_time(void **state)
{
    (void)state;
    const char *slowest = NULL;
    uint64_t most = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        if (!profile(bt_profile_name(i)).time.is_given) continue;
        const bt_price p = price(bt_profile_name(i), "llama-2-70b", &f16);
        const uint64_t ns = bt_price_prompt(&p, 1048576).ns;
        assert_true(ns < INT64_MAX / 1000);
        if (ns > most) most = ns, slowest = bt_profile_name(i);
    }
    assert_non_null(slowest);
    /* more than the products alone at the profile's rate: nothing wrapped */
    const bt_profile p = profile(slowest);
    const double products = 2.0 * 68e9 * 1048576;
    assert_true((double)most > products / (double)p.time.f16_ops_per_us * 1000);
    bt_profile tiny = profile("hexagon-v75");
    tiny.time = (bt_profile_time){.is_given = true, .f16_ops_per_us = 1, .memory_bytes_per_us = 1};
    bt_price worst;
    static const uint32_t rows[] = {256};
    assert_int_equal(bt_price_of_dims(&worst, &tiny, bt_dims_find("llama-2-70b"), &f16, rows, 1, NULL),
                     BT_OK);
    assert_int_equal(bt_price_prompt(&worst, 1048576).ns, INT64_MAX);
}

static void decode_is_bytes_over_bandwidth_until_the_batch_is_large(void **state)
{
    (void)state;
    /* 7B in FP16 on an H100 from its peaks: 4.18 ms: 239 tokens/s of 14e9 bytes; small operators take 2 us */
    const bt_profile h = sheet(1);
    bt_price_model m = bt_price_model_of(bt_dims_find("llama-2-7b"), &f16);
    m.weight_bytes = 14000000000;
    bt_price_step s = bt_price_decode_step(1, 0, 0);
    assert_int_equal(bt_price_step_of(&h, &m, &s).ns / 10000, 418);
    /* KV is read too, by batch and context: 512 KiB a position */
    assert_int_equal(m.kv_bytes, 512 * 1024);
    s = bt_price_decode_step(32, 2048, 0);
    assert_int_equal(bt_price_step_of(&h, &m, &s).bytes,
                     14000000000 + UINT64_C(32) * (2048 * 524288 + m.norm_bytes + m.gate_bytes));
    /* the ridge: at 295 rows of 2 bytes the products take over, 13 us a row; small operators are 2 us of each
     */
    uint64_t last = 0, batch = 0;
    for (uint64_t b = 200; b < 400 && !batch; b++) {
        s = bt_price_decode_step(b, 0, 0);
        const uint64_t ns = bt_price_step_of(&h, &m, &s).ns;
        if (last && ns > last + 8000) batch = b;
        last = ns;
    }
    assert_in_range(batch, 290, 320);
}

static void a_mixed_step_is_one_pass_over_the_weights(void **state)
{
    (void)state;
    const bt_profile a = profile("a100");
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    const bt_price_step piece = bt_price_prefill_step(512, 64, 0), decode = bt_price_decode_step(16, 1024, 0);
    bt_price_step both = piece;
    bt_price_step_add(&both, &decode);
    const uint64_t alone = bt_price_step_of(&a, &m, &piece).ns + bt_price_step_of(&a, &m, &decode).ns,
                   mixed = bt_price_step_of(&a, &m, &both).ns;
    assert_true(mixed < alone * 7 / 10);
    assert_true(mixed >= bt_price_step_of(&a, &m, &decode).ns);
    assert_int_equal(bt_price_step_of(&a, &m, &both).bytes,
                     m.weight_bytes + m.kv_bytes * (576 + 16 * 1024) + 80 * (m.norm_bytes + m.gate_bytes));
}

static void a_piece_of_a_prompt_beside_decode_rows_takes_its_own_products(void **state)
{
    (void)state;
    const bt_profile h = sheet(1);
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    const bt_price_step piece = bt_price_prefill_step(0, 512, 0), decode = bt_price_decode_step(128, 4096, 0);
    bt_price_step both = decode;
    bt_price_step_add(&both, &piece);
    /* decode reads the weights for 4.5 ms, in which the products of 318 rows are hidden; 640 rows take 9.1 ms
     */
    const uint64_t alone = bt_price_step_of(&h, &m, &piece).ns,
                   more = bt_price_step_of(&h, &m, &both).ns - bt_price_step_of(&h, &m, &decode).ns;
    assert_in_range(more, 4800000, alone);
}

static void only_rows_that_want_logits_read_the_output_matrix(void **state)
{
    (void)state;
    const bt_profile h = sheet(1);
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    bt_price_step s = bt_price_prefill_step(0, 64, 0);
    const bt_price_sum with = bt_price_step_of(&h, &m, &s);
    s.logits = 0;
    const bt_price_sum without = bt_price_step_of(&h, &m, &s);
    assert_int_equal(with.bytes - without.bytes, m.head_bytes);
    assert_int_equal(with.ops - without.ops, 2 * m.head_weights);
    assert_in_range(with.ns - without.ns, m.head_bytes * 1000 / 3350000, m.head_bytes * 1000 / 3350000 + 1);
}

static void four_devices_are_faster_than_one_by_less_than_four(void **state)
{
    (void)state;
    const bt_profile one = profile("h100"), four = profile("h100x4");
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-2-70b"), &f16);
    const bt_price_step steps[] = {bt_price_decode_step(1, 1024, 0), bt_price_prefill_step(0, 2048, 0)};
    for (int i = 0; i < 2; i++) {
        const double ratio = (double)bt_price_step_of(&one, &m, &steps[i]).ns /
                             (double)bt_price_step_of(&four, &m, &steps[i]).ns;
        if (ratio < 2 || ratio >= 4) fail_msg("%d: %.2f", i, ratio);
    }
    const double chunk = (double)price("h100", "llama-2-70b", &f16).program[3].compute.fixed /
                         (double)price("h100x4", "llama-2-70b", &f16).program[3].compute.fixed;
    assert_true(chunk > 2 && chunk < 4);
}

static void devices_beyond_the_kv_heads_read_a_head_that_others_read(void **state)
{
    (void)state;
    bt_profile h = sheet(4);
    bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    const bt_price_step few = bt_price_decode_step(1, 1024, 0),
                        many = bt_price_decode_step(1, 1024 + 1048576, 0);
    uint64_t ns[2];
    for (uint32_t heads = 2; heads <= 8; heads += 6) {
        m.kv_heads = heads;
        ns[heads == 8] = bt_price_step_of(&h, &m, &many).ns - bt_price_step_of(&h, &m, &few).ns;
    }
    /* 2^20 positions of 128 KiB by two heads of four devices, and by a quarter of eight heads */
    assert_in_range(ns[0], m.kv_bytes * 1048576 / 2 * 1000 / 3350000 - 1,
                    m.kv_bytes * 1048576 / 2 * 1000 / 3350000 + 1);
    assert_in_range(ns[1], ns[0] / 2 - 1, ns[0] / 2 + 1);
    /* two heads are held twice each, one of three twice */
    assert_int_equal(bt_price_kv_held(&h.time, 8, 1200), 1200);
    assert_int_equal(bt_price_kv_held(&h.time, 2, 1200), 2400);
    assert_int_equal(bt_price_kv_held(&h.time, 3, 1200), 1600);
    assert_int_equal(bt_price_kv_held(&h.time, 0, 1200), 1200);
}

/* Two layers, four heads of eight elements over two KV heads: 256 operations a pair, 256 bytes a position. No
 * weights. */
static bt_price_model heads_alone(void)
{
    return (bt_price_model){.kv_bytes = 256, .operators = 17, .layers = 2,       .hidden = 32,    .heads = 4,
                            .kv_heads = 2,   .head_dim = 8,   .weight_bits = 16, .input_bits = 16};
}

static void attention_has_launches_and_rates_of_its_own_that_saturate(void **state)
{
    (void)state;
    const bt_price_model m = heads_alone();
    const bt_price_step one = bt_price_decode_step(3, 20, 0), piece = bt_price_prefill_step(0, 8, 0);
    bt_price_step both = one;
    bt_profile p = {.time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 1000, .decode_op_ns = 5}};
    bt_price_step_add(&both, &piece);
    /* 60 positions at 1,000 bytes a microsecond; 17 operators */
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 60 * 256 + 17 * 5);
    p.time.kernels = 1;
    p.time.attention[0] =
        (bt_profile_attention){.launch_ns = 7, .kv_bytes_per_us = 500, .kv_half_positions = 10};
    /* ten positions more of each sequence, at half the rate; a launch a layer instead of decode_op_ns */
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 90 * 256 * 2 + 2 * 7 + 15 * 5);
    assert_int_equal(bt_price_step_of(&p, &m, &both).ns, (90 + 18) * 256 * 2 + 2 * 2 * 7 + 15 * 5);
    p.time.attention[0].peak_permille = 250;
    p.time.attention[0].half_rows = 4;
    /* decode computes for longer at a quarter of the peak; of the piece 36 pairs and four rows of eight
     * positions */
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 60 * 256 * 4 + 2 * 7 + 15 * 5);
    assert_int_equal(bt_price_step_of(&p, &m, &piece).ns, (36 + 4 * 8) * 256 * 4 + 2 * 7 + 15 * 5);
    assert_int_equal(bt_price_step_of(&p, &m, &both).ns, (60 + 36 + 4 * 8) * 256 * 4 + 2 * 2 * 7 + 15 * 5);
    p.time.linear_launch_ns = 3;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 60 * 256 * 4 + 2 * 7 + 15 * 3);
}

static void sequences_of_one_row_have_a_launch_and_a_least_length(void **state)
{
    (void)state;
    const bt_price_model m = heads_alone();
    const bt_price_step short_one = bt_price_decode_step(3, 2, 0), one = bt_price_decode_step(3, 20, 0),
                        piece = bt_price_prefill_step(0, 8, 0);
    bt_profile p = {.time = {.f16_ops_per_us = 1000000, .memory_bytes_per_us = 1000, .kernels = 1,
                             .attention = {{.launch_ns = 11, .row_launch_ns = 7, .kv_bytes_per_us = 1000,
                                            .kv_half_positions = 1, .least_positions = 15}}}};
    /* three sequences of 15 positions at least; those of 21 are longer */
    assert_int_equal(bt_price_step_of(&p, &m, &short_one).ns, 3 * 15 * 256 + 2 * 7);
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 3 * 21 * 256 + 2 * 7);
    assert_int_equal(bt_price_step_of(&p, &m, &piece).ns, 15 * 256 + 2 * 11);
    p.time.attention[0].row_launch_ns = 0;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 3 * 21 * 256 + 2 * 11);
}

static void few_heads_take_what_the_longest_sequence_takes(void **state)
{
    (void)state;
    bt_price_model m = heads_alone();
    const bt_price_step one = bt_price_decode_step(1, 20, 0), two = bt_price_decode_step(2, 20, 0),
                        short_one = bt_price_decode_step(1, 15, 0), many = bt_price_decode_step(80, 20, 0),
                        piece = bt_price_prefill_step(18, 4, 0);
    bt_price_step mixed = bt_price_decode_step(3, 1, 0);
    bt_profile p = {.time = {.f16_ops_per_us = 1000000, .memory_bytes_per_us = 1000, .kernels = 1,
                             .attention = {{.launch_ns = 7, .kv_bytes_per_us = 1000, .least_positions = 15,
                                            .gather_ns = 3, .head_bytes_per_us = 10}}}};
    const uint64_t head = m.kv_bytes / m.kv_heads * 100; /* a position of one */
    bt_price_step_add(&mixed, &one);
    assert_int_equal(bt_price_step_of(&p, &m, &short_one).ns, 15 * m.kv_bytes + 2 * 7);
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 20 * head + 2 * 7);
    assert_int_equal(bt_price_step_of(&p, &m, &two).ns, 20 * head + 2 * (7 + 3));
    assert_int_equal(bt_price_step_of(&p, &m, &mixed).ns, 20 * head + 2 * (7 + 3));
    assert_int_equal(bt_price_step_of(&p, &m, &piece).ns, 20 * head + 2 * 7);
    /* many sequences fill the device */
    assert_int_equal(bt_price_step_of(&p, &m, &many).ns, 80 * 20 * m.kv_bytes + 2 * (7 + 3));
    /* in parts */
    p.time.attention[0].join_ns = 90;
    assert_int_equal(bt_price_step_of(&p, &m, &two).ns, 2 * 20 * m.kv_bytes + 2 * (7 + 3 + 90));
    assert_int_equal(bt_price_step_of(&p, &m, &short_one).ns, 15 * m.kv_bytes + 2 * 7);
    /* heads that share no KV are not gathered */
    m.heads = m.kv_heads;
    assert_int_equal(bt_price_step_of(&p, &m, &two).ns, 2 * 20 * m.kv_bytes + 2 * (7 + 90));
}

static void matrices_that_are_one_are_launched_once_and_inputs_of_8_bits_are_made_first(void **state)
{
    (void)state;
    bt_price_model m = heads_alone();
    const bt_price_step one = bt_price_decode_step(1, 1, 0);
    bt_profile p = {.time = {.f16_ops_per_us = 1000000, .memory_bytes_per_us = 1000000,
                             .linear_launch_ns = 10, .quantize_launch_ns = 3}};
    const uint64_t read = bt_price_step_of(&p, &m, &one).ns - 15 * 10;
    p.time.layer_matrices = 4; /* of two layers, and the output matrix */
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, read + 9 * 10);
    m.input_bits = 8;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, read + 9 * 13);
    p.time.layer_matrices = 0;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, read + 15 * 13);
}

static void a_matrix_takes_something_for_each_of_its_inputs_which_a_group_divides(void **state)
{
    (void)state;
    const bt_price_model m = {.operators = 5,     .hidden = 64,      .split_matrices = 2,
                              .split_inputs = 96, .weight_bits = 16, .input_bits = 16};
    const bt_price_step one = {.rows = 1};
    bt_profile p = {.time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 1000, .input_ps = 500}};
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, (3 * 64 + 96) / 2);
    p.time.devices = 2;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, (3 * 64 + 48) / 2);
    /* of a whole model: q, k and v are one matrix, gate and up another */
    const bt_dims *s = bt_dims_find("llama-3.1-8b");
    const bt_price_model whole = bt_price_model_of(s, &f16);
    assert_int_equal(whole.split_matrices, 2 * 32);
    assert_int_equal(whole.split_inputs, (4096 + 14336) * 32);
    p = sheet(1);
    const uint64_t without = bt_price_step_of(&p, &whole, &one).ns;
    p.time.layer_matrices = 4;
    p.time.input_ps = 1000;
    assert_int_equal(bt_price_step_of(&p, &whole, &one).ns, without + (3 * 4096 + 14336) * 32 + 4096);
}

static void the_longer_of_computing_and_reading_hides_a_part_of_the_other(void **state)
{
    (void)state;
    const bt_price_model m = {.body_weights = 1000, .weight_bytes = 2000, .weight_bits = 16,
                              .input_bits = 16};
    const bt_price_step one = {.rows = 1}, three = {.rows = 3};
    bt_profile p = {.time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 500}};
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 4000);
    assert_int_equal(bt_price_step_of(&p, &m, &three).ns, 6000);
    p.time.unhidden_permille = 250;
    assert_int_equal(bt_price_step_of(&p, &m, &one).ns, 4000 + 2000 / 4);
    assert_int_equal(bt_price_step_of(&p, &m, &three).ns, 6000 + 4000 / 4);
}

static void softmax_of_a_gpu_takes_its_scores(void **state)
{
    (void)state;
    const bt_price_model m = heads_alone();
    const bt_price_step piece = bt_price_prefill_step(0, 8, 0); /* 36 pairs of a row and a position */
    bt_profile p = {.companion = true, .time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 1000,
                                                .score_elements_per_us = 1000}};
    assert_int_equal(bt_price_step_of(&p, &m, &piece).ns, 36 * (256 + 2 * 4));
    p.companion = false; /* it has programs, and softmax of a step in decode_op_ns */
    assert_int_equal(bt_price_step_of(&p, &m, &piece).ns, 36 * 256);
}

static void rows_read_experts_of_their_own_until_all_are_read(void **state)
{
    (void)state;
    const bt_profile h = sheet(1);
    const bt_dims *s = bt_dims_find("qwen3-30b-a3b"); /* 8 of 128 experts a row */
    const bt_price_model m = bt_price_model_of(s, &f16);
    uint64_t bytes[3];
    for (uint64_t i = 0; i < 3; i++) {
        const bt_price_step step = bt_price_decode_step(i < 2 ? i + 1 : 16, 0, 0);
        bytes[i] = bt_price_step_of(&h, &m, &step).bytes - step.rows * (m.norm_bytes + m.gate_bytes);
    }
    assert_int_equal(bytes[0], m.weight_bytes);
    assert_int_equal(bytes[1] - bytes[0], m.expert_bytes);
    assert_int_equal(bytes[2], m.weight_bytes + m.idle_bytes);
    assert_int_equal(m.expert_bytes * 15, m.idle_bytes); /* 8 and 120 */
}

static void unpacking_bounds_weights_of_four_bits_alone(void **state)
{
    (void)state;
    bt_profile h = sheet(1);
    bt_price_recipe q4 = {.weight_bits = 4, .input_bits = 16, .kv_elem_bits = 16,
                          .weight_bytes_permille = 562};
    const bt_price_step one = bt_price_decode_step(1, 1, 0);
    for (int i = 0; i < 2; i++) {
        const bt_price_model m = bt_price_model_of(bt_dims_find("llama-2-7b"), i ? &f16 : &q4);
        h.time.int4_bytes_per_us = 0;
        const uint64_t free = bt_price_step_of(&h, &m, &one).ns;
        h.time.int4_bytes_per_us = h.time.memory_bytes_per_us / 2;
        const uint64_t more = bt_price_step_of(&h, &m, &one).ns - free,
                       read = bt_time_of(m.weight_bytes, h.time.memory_bytes_per_us);
        assert_in_range(more, i ? 0 : read - 2, i ? 0 : read + 2);
    }
}

static void unpacking_bounds_four_bits_in_programs_too(void **state)
{
    (void)state;
    bt_profile h = profile("h100");
    const bt_time_matrix four = {.rows = 1, .inputs = 4096, .outputs = 4096, .weight_bits = 4,
                                 .input_bits = 16};
    bt_time_matrix eight = four;
    eight.weight_bits = 8;
    const uint64_t free = bt_time_of_matrix(&h, &four), wide = bt_time_of_matrix(&h, &eight);
    h.time.int4_bytes_per_us = h.time.memory_bytes_per_us / 2;
    assert_in_range(bt_time_of_matrix(&h, &four), 2 * free - 2, 2 * free + 2);
    assert_int_equal(bt_time_of_matrix(&h, &eight), wide);
}

static void fp8_and_nvfp4_have_rates_of_their_own_and_need_no_unpacking(void **state)
{
    (void)state;
    bt_profile h = sheet(1);
    const bt_dims *s = bt_dims_find("llama-3.1-8b");
    bt_price_step prompt = bt_price_prefill_step(0, 4096, 0), token = bt_price_decode_step(1, 1, 0);
    bt_fault f = {""};
    uint64_t ns[BT_PRICE_FORMS];
    prompt.logits = 0;
    h.time.fp8_permille = 2000;
    h.time.fp4_permille = 4000;
    h.time.int4_bytes_per_us = 1000000;
    for (size_t i = 0; i < BT_PRICE_FORMS; i++) {
        bt_price_model m = bt_price_model_of(s, &bt_price_form_at(i)->recipe);
        m.kv_bytes = m.norm_bytes = m.gate_bytes = m.heads = 0; /* products alone */
        ns[i] = bt_price_step_of(&h, &m, &prompt).ns;
        const uint64_t read = bt_time_of(m.weight_bytes, !strcmp(bt_price_form_at(i)->name, "fp4")
                                                             ? h.time.int4_bytes_per_us
                                                             : h.time.memory_bytes_per_us);
        assert_in_range(bt_price_step_of(&h, &m, &token).ns, read - 2, read + 2);
    }
    /* int8 and fp4 are made f16 before they are multiplied */
    assert_int_equal(ns[1], ns[0]);
    assert_int_equal(ns[2], ns[0]);
    assert_in_range(ns[3], ns[0] / 2 - 1, ns[0] / 2 + 1);
    assert_in_range(ns[4], ns[0] / 4 - 1, ns[0] / 4 + 1);
    for (size_t i = 0; i < BT_PRICE_FORMS; i++)
        assert_int_equal(
            bt_price_check_forms(&h, bt_price_form_at(i), bt_price_kv_at(i % BT_PRICE_KVS), NULL), BT_OK);
    h.time.fp4_permille = 0;
    assert_int_equal(bt_price_check_forms(&h, bt_price_form_find("nvfp4"), NULL, &f), BT_EARG);
    assert_string_equal(f.text, "'h100' does not compute in NVFP4: its profile has no 'fp4_permille'");
    h.time.fp8_permille = 0;
    assert_int_equal(bt_price_check_forms(&h, NULL, bt_price_kv_find("fp8"), &f), BT_EARG);
    assert_string_equal(f.text, "'h100' does not compute in FP8: its profile has no 'fp8_permille'");
    assert_int_equal(bt_price_check_forms(&h, bt_price_form_find("fp4"), bt_price_kv_find("int8"), &f),
                     BT_OK);
    assert_null(bt_price_form_find("fp16"));
    /* 32 layers of 8 KV heads: 2 bytes an element, a byte and a scale, a byte */
    assert_int_equal(bt_price_kv_bytes(bt_price_kv_at(0), s), 131072);
    assert_int_equal(bt_price_kv_bytes(bt_price_kv_at(1), s), 66560);
    assert_int_equal(bt_price_kv_bytes(bt_price_kv_at(2), s), 65536);
}

static void small_operators_of_a_gpu_take_a_launch_or_their_bytes(void **state)
{
    (void)state;
    bt_price_model m = heads_alone();
    bt_profile p = {.companion = true, .time = {.f16_ops_per_us = 1000, .memory_bytes_per_us = 1000,
                                                .activation_bytes_per_us = 100}};
    bt_price_step s = {.rows = 5};
    const uint64_t without = bt_price_step_of(&p, &m, &s).ns;
    m.norm_bytes = 40;
    m.gate_bytes = 60;
    assert_int_equal(bt_price_step_of(&p, &m, &s).ns, without + 5 * 100 * 10);
    p.time.small_launch_ns = 3000; /* of each of two layers */
    assert_int_equal(bt_price_step_of(&p, &m, &s).ns, without + 6000);
    p.companion = false; /* a device with programs has them in decode_op_ns */
    assert_int_equal(bt_price_step_of(&p, &m, &s).ns, without);
}

static void a_step_costs_its_stack_for_each_sequence(void **state)
{
    (void)state;
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.2-1b"), &f16);
    bt_profile p = profile("h100");
    const bt_price_step decode = bt_price_decode_step(7, 1000, 0), piece = bt_price_prefill_step(0, 300, 0);
    bt_price_step mixed = decode;
    bt_price_step_add(&mixed, &piece);
    p.time.sequence_ns = 0;
    const uint64_t decode_ns = bt_price_step_of(&p, &m, &decode).ns,
                   mixed_ns = bt_price_step_of(&p, &m, &mixed).ns;
    p.time.sequence_ns = 1000;
    const bt_price_sum s = bt_price_step_of(&p, &m, &decode);
    assert_int_equal(s.ns, decode_ns + 7000);
    assert_int_equal(bt_price_step_of(&p, &m, &mixed).ns, mixed_ns + 8000);
    p.time.sequence_ns = 0;
    assert_int_equal(s.term_ns[BT_TERM_FIXED],
                     bt_price_step_of(&p, &m, &decode).term_ns[BT_TERM_FIXED] + 7000);
}

static void a_step_pads_its_prompts_and_not_its_decode_rows(void **state)
{
    (void)state;
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.2-1b"), &f16);
    bt_profile p = profile("h100");
    const bt_price_step short_one = bt_price_prefill_step(0, 140, 0),
                        decode = bt_price_decode_step(3, 1000, 0);
    bt_price_step mixed = short_one, full = bt_price_prefill_step(0, 256, 0);
    full.all = short_one.all; /* attention has no row to compute
                                                                           there */
    bt_price_step mixed_full = full;
    bt_price_step_add(&mixed, &decode);
    bt_price_step_add(&mixed_full, &decode);
    p.time.memory_bytes_per_us = 1000000000; /* nothing waits for memory */
    p.time.decode_bytes_per_us = p.time.activation_bytes_per_us = 0;
    const uint64_t want = bt_price_step_of(&p, &m, &full).ns,
                   want_mixed = bt_price_step_of(&p, &m, &mixed_full).ns,
                   alone = bt_price_step_of(&p, &m, &decode).ns;
    p.time.programs = 2, p.time.program_rows[0] = 64, p.time.program_rows[1] = 256;
    assert_in_range(bt_price_step_of(&p, &m, &short_one).ns, want - want / 100, want);
    assert_in_range(bt_price_step_of(&p, &m, &mixed).ns, want_mixed - want_mixed / 100, want_mixed);
    assert_int_equal(bt_price_step_of(&p, &m, &decode).ns, alone);
}

static void what_cannot_be_priced_is_refused(void **state)
{
    (void)state;
    bt_price p;
    bt_fault f = {""};
    const bt_profile host = profile("host"), h = profile("hexagon-v75");
    static const uint32_t rows[] = {64, 64};
    assert_int_equal(bt_price_begin(&p, &host, &f), BT_EARG);
    assert_non_null(strstr(f.text, "'host' has no time"));
    assert_int_equal(bt_price_of_dims(&p, &h, bt_dims_find("gemma-2b"), &w8, rows, 2, &f), BT_EARG);
    assert_non_null(strstr(f.text, "64 rows"));
    assert_null(bt_dims_find("no-such-model"));
}

static void weights_beyond_the_memory_of_a_device_or_its_group_are_refused(void **state)
{
    (void)state;
    bt_profile p = {.name = "board", .memory_bytes = 1000};
    const bt_price_model fits = {.weight_bytes = 1000}, large = {.weight_bytes = 1001};
    bt_fault f = {""};
    assert_int_equal(bt_price_check_memory(&p, &fits, "m", &f), BT_OK);
    assert_int_equal(bt_price_check_memory(&p, &large, "m", &f), BT_ELIMIT);
    assert_string_equal(
        f.text, "'board' has 1000 bytes of memory, and the weights of 'm' are 1001; a smaller form of "
                "weights or a larger device would do");
    p.time.devices = 4;
    assert_int_equal(bt_price_check_memory(&p, &large, "m", &f), BT_OK);
    p = (bt_profile){.memory_bytes = 0}; /* not known */
    assert_int_equal(bt_price_check_memory(&p, &large, NULL, &f), BT_OK);
}

/* 94.6 % of a line of 20 Mbit/s are 18.92 Mbit/s. */
static void a_link_is_its_goodput_or_its_line_rate(void **state)
{
    (void)state;
    enum { BYTES = 1000000 };
    static const char *const bad[] = {
        "20mbit,0.4", "20mbit,1.1", "20mbit,0.946,50us", "20mbit,0.946,0.9", "20mbit,50us,50us",
        "0.5mbit",    "2.5mbit",    "10001mbit",         "20mbit,50us,",     "20mbit,50us,0.9us"};
    char text[BT_LINK_MAX_TEXT];
    bt_link line, good;
    bt_fault f = {""};
    assert_int_equal(bt_link_parse(&line, "20mbit,50us,0.946", &f), BT_OK);
    assert_int_equal(bt_link_parse(&good, "0.02,50us", &f), BT_OK);
    assert_int_equal(bt_link_ns(&good, BYTES), 400000000 + 50000);
    assert_int_equal(bt_link_ns(&line, BYTES), UINT64_C(8000000000000) / 18920 + 1 + 50000);
    bt_link_text(text, &line);
    assert_string_equal(text, "20 Mbit/s line rate (18.92 goodput), 50 us");
    bt_link_text(text, &good);
    assert_string_equal(text, "20 Mbit/s, 50 us");
    assert_int_equal(bt_link_parse(&line, "2.5gbe,1", &f), BT_OK); /* all of it */
    assert_int_equal(bt_link_parse(&good, "2.5", &f), BT_OK);
    assert_int_equal(bt_link_ns(&line, BYTES), bt_link_ns(&good, BYTES));
    bt_link_text(text, &good);
    assert_string_equal(text, "2.5 Gbit/s");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bt_link_parse(&line, bad[i], &f) != BT_EARG) fail_msg("%s", bad[i]);
}

static void a_link_hides_what_is_sent_while_later_layers_compute(void **state)
{
    (void)state;
    bt_link l;
    bt_fault f = {""};
    assert_int_equal(bt_link_parse(&l, "10", &f), BT_OK);
    assert_int_equal(l.bits_per_us, 10000);
    /* Llama-2-7B, 1,024 tokens, 512 MiB: 429.5 ms */
    assert_int_equal(bt_link_ns(&l, UINT64_C(536870912)), 429496730);
    assert_int_equal(bt_link_parse(&l, "2.5gbe,50us", &f), BT_OK);
    assert_int_equal(l.bits_per_us, 2500);
    assert_int_equal(l.latency_ns, 50000);
    static const char *const bad[] = {"",       "0",     "x",      "10gb", "10,",
                                      "10,5ms", "10001", "1.2345", "-1",   "10,0us"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bt_link_parse(&l, bad[i], &f), BT_EARG);
    /* 4 layers of 1000 bytes at 8 bits/us: 1 ms each. Computed in 8 ms: one message is left. In 2 ms: nearly
     * all. */
    l = (bt_link){.bits_per_us = 8};
    const bt_link_kv kv = {.layers = 4, .layer_bytes = 1000};
    const bt_link_rows one = {1, 1};
    bt_link_queue q = {0};
    assert_int_equal(bt_link_chunk(&q, &l, &kv, 0, 8000000, one), 4000000);
    assert_int_equal(bt_link_exposed_ns(&q, 8000000), 1000000);
    q = (bt_link_queue){0};
    (void)bt_link_chunk(&q, &l, &kv, 0, 2000000, one);
    assert_int_equal(bt_link_exposed_ns(&q, 2000000), 2500000);
    /* the wire is still busy when the next chunk's layers come */
    (void)bt_link_chunk(&q, &l, &kv, 2000000, 2000000, one);
    assert_int_equal(q.free_ns, 8500000);
}

static uint64_t ns_since(uint64_t from)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - from;
}

/* The best of many rounds, as others use the machine. */
static void pricing_a_chunk_and_a_step_takes_well_under_a_microsecond(void **state)
{
    (void)state;
    enum { ROUNDS = 200, N = 1000 };
    const bt_price p = price("hexagon-v75", "llama-3.1-8b", &w8);
    const bt_profile a = profile("a100"), h = profile("h100x4");
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16);
    const bt_price_steps one = bt_price_steps_of(&a, &m), four = bt_price_steps_of(&h, &m);
    uint64_t best[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    volatile uint64_t sum = 0;
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 3; k++) {
            const uint64_t from = ns_since(0);
            for (uint64_t i = round; i < round + N; i++) {
                const bt_price_step s = bt_price_decode_step(1 + (i & 63), i * 64, 0);
                sum += !k ? bt_price_chunk_ns(&p, i & 3, i * 64)
                          : bt_price_step_at(k == 1 ? &one : &four, &s).ns;
            }
            const uint64_t took = ns_since(from);
            if (took < best[k]) best[k] = took;
        }
    print_message("a chunk %.0f ns, a step %.0f ns, of four devices %.0f ns\n", (double)best[0] / N,
                  (double)best[1] / N, (double)best[2] / N);
    /* a busy machine under a sanitizer is no reason to fail */
    assert_true(sum && best[0] / N < 20000 && best[1] / N < 20000 && best[2] / N < 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_from_the_table_is_within_a_thousandth_of_its_operators),
        cmocka_unit_test(programs_with_scales_for_each_32_inputs_are_eight_to_eleven_times_slower),
        cmocka_unit_test(a_prompt_is_full_chunks_and_the_shortest_tail),
        cmocka_unit_test(a_million_tokens_on_the_slowest_device_have_a_time),
        cmocka_unit_test(decode_is_bytes_over_bandwidth_until_the_batch_is_large),
        cmocka_unit_test(a_mixed_step_is_one_pass_over_the_weights),
        cmocka_unit_test(a_piece_of_a_prompt_beside_decode_rows_takes_its_own_products),
        cmocka_unit_test(only_rows_that_want_logits_read_the_output_matrix),
        cmocka_unit_test(four_devices_are_faster_than_one_by_less_than_four),
        cmocka_unit_test(devices_beyond_the_kv_heads_read_a_head_that_others_read),
        cmocka_unit_test(attention_has_launches_and_rates_of_its_own_that_saturate),
        cmocka_unit_test(sequences_of_one_row_have_a_launch_and_a_least_length),
        cmocka_unit_test(few_heads_take_what_the_longest_sequence_takes),
        cmocka_unit_test(matrices_that_are_one_are_launched_once_and_inputs_of_8_bits_are_made_first),
        cmocka_unit_test(a_matrix_takes_something_for_each_of_its_inputs_which_a_group_divides),
        cmocka_unit_test(the_longer_of_computing_and_reading_hides_a_part_of_the_other),
        cmocka_unit_test(softmax_of_a_gpu_takes_its_scores),
        cmocka_unit_test(rows_read_experts_of_their_own_until_all_are_read),
        cmocka_unit_test(unpacking_bounds_weights_of_four_bits_alone),
        cmocka_unit_test(unpacking_bounds_four_bits_in_programs_too),
        cmocka_unit_test(fp8_and_nvfp4_have_rates_of_their_own_and_need_no_unpacking),
        cmocka_unit_test(small_operators_of_a_gpu_take_a_launch_or_their_bytes),
        cmocka_unit_test(a_step_costs_its_stack_for_each_sequence),
        cmocka_unit_test(a_step_pads_its_prompts_and_not_its_decode_rows),
        cmocka_unit_test(what_cannot_be_priced_is_refused),
        cmocka_unit_test(weights_beyond_the_memory_of_a_device_or_its_group_are_refused),
        cmocka_unit_test(a_link_is_its_goodput_or_its_line_rate),
        cmocka_unit_test(a_link_hides_what_is_sent_while_later_layers_compute),
        cmocka_unit_test(pricing_a_chunk_and_a_step_takes_well_under_a_microsecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
