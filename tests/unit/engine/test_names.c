/* The list of engines as everybody else sees it: names, what "auto" means, and facts that agree with the
 * functions of the tables. */
#include "engine/decode_backend.h"
#include "engine/prefill_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void lists(const char *const *names, const char *const *want)
{
    size_t i = 0;
    for (; want[i]; i++) assert_string_equal(names[i], want[i]);
    assert_null(names[i]);
}

static void options_offer_the_engines_of_their_door(void **state)
{
    (void)state;
    const char *const all[] = {"npu", "host", "reference", NULL},
                      *const beside[] = {"auto", "npu", "host", "reference", NULL},
                      *const local[] = {"off", "npu", "host", NULL}, *const doors[] = {"none",
                                                                                       "npu",
                                                                                       "host",
                                                                                       "reference",
                                                                                       "decode",
                                                                                       "decode-npu",
                                                                                       "decode-reference",
                                                                                       NULL};
    lists(bt_engine_prefill_names, all);
    lists(bt_engine_decode_names, all);
    lists(bt_engine_prefill_auto_names, beside);
    lists(bt_engine_decode_auto_names, beside);
    lists(bt_engine_chunked_names, local);
    lists(bt_engine_door_names, doors);
}

static void a_name_finds_its_table_and_none_the_default(void **state)
{
    (void)state;
    bt_fault fault = {""};
    assert_ptr_equal(bt_engine_prefill(NULL), &bt_prefill_npu.facts);
    assert_ptr_equal(bt_engine_decode(NULL), &bt_decode_host.facts);
    assert_ptr_equal(bt_engine_prefill(BT_ENGINE_DEFAULT_FLOAT), &bt_prefill_host.facts);
    assert_ptr_equal(bt_engine_decode("reference"), &bt_decode_reference.facts);
    assert_null(bt_engine_prefill("decode"));
    assert_null(bt_engine_decode(""));
    assert_ptr_equal(bt_engine_door_decode("decode"), &bt_decode_host.facts);
    assert_ptr_equal(bt_engine_door_decode("decode-npu"), &bt_decode_npu.facts);
    assert_null(bt_engine_door_decode("npu"));
    assert_null(bt_engine_door_decode("decode-"));
    assert_int_equal(bt_engine_unknown("hots", bt_engine_decode_names, &fault), BT_EARG);
    assert_string_equal(fault.text, "engine 'hots' is not one of npu, host or reference");
}

/* By index: npu, host, reference. */
static void auto_is_the_default_or_who_reads_the_same_kv(void **state)
{
    (void)state;
    static const int decodes[] = {1, 1, 2}, prefills[] = {0, 0, 2};
    for (int other = 0; other < 3; other++) {
        assert_int_equal(bt_engine_decode_beside(0, other), decodes[other]);
        assert_int_equal(bt_engine_prefill_beside(0, other), prefills[other]);
        for (int i = 1; i < 4; i++) {
            assert_int_equal(bt_engine_decode_beside(i, other), i - 1);
            assert_int_equal(bt_engine_prefill_beside(i, other), i - 1);
        }
    }
}

static void an_engine_has_the_kv_that_is_wanted_or_its_own(void **state)
{
    (void)state;
    const bt_engine_facts *npu = bt_engine_prefill("npu"), *reference = bt_engine_prefill("reference");
    assert_int_equal(bt_engine_kv(npu, 0), 2);
    assert_int_equal(bt_engine_kv(npu, 1), 1);
    assert_int_equal(bt_engine_kv(npu, 4), 2);
    assert_int_equal(bt_engine_kv(reference, 0), 4);
    assert_int_equal(bt_engine_kv(reference, 1), 4);
    assert_true(bt_engine_shares_kv(npu, bt_engine_decode("host")));
    assert_false(bt_engine_shares_kv(npu, reference));
    assert_true(bt_engine_shares_kv(reference, bt_engine_decode("reference")));
}

static void facts_and_functions_of_a_table_agree(void **state)
{
    (void)state;
    for (size_t i = 0; bt_prefill_rows[i]; i++) {
        const bt_prefill_backend *b = bt_prefill_rows[i];
        assert_true(b->facts.kv_elem_bytes[0] > 0);
        assert_int_equal(b->facts.has_package, b->pkg != NULL);
        assert_int_equal(b->run_batch != NULL, b->batch_max != NULL);
        assert_true(b->facts.has_chunks || !b->facts.has_schedules);
        assert_true(b->needs || !(b->facts.has_package || b->facts.has_weights));
        assert_int_equal(b->facts.mixes, 0);
    }
    for (size_t i = 0; bt_decode_rows[i]; i++) {
        const bt_decode_backend *b = bt_decode_rows[i];
        assert_true(b->facts.kv_elem_bytes[0] > 0);
        assert_int_equal(b->facts.has_package, b->shared_package != NULL);
        assert_int_equal(b->facts.has_weights, b->shared_weights != NULL);
        assert_true(b->needs || !(b->facts.has_package || b->facts.has_weights));
        assert_false(b->facts.has_chunks || b->facts.has_schedules || b->facts.is_sparse);
        if (b->facts.mixes) assert_non_null(bt_prefill_backend_of(b->facts.name)->packed_rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_offer_the_engines_of_their_door),
        cmocka_unit_test(a_name_finds_its_table_and_none_the_default),
        cmocka_unit_test(auto_is_the_default_or_who_reads_the_same_kv),
        cmocka_unit_test(an_engine_has_the_kv_that_is_wanted_or_its_own),
        cmocka_unit_test(facts_and_functions_of_a_table_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
