/* The dialect of each path, the error where there is nothing, and the list of models. */
#include "gateway/api/endpoints.h"
#include "gateway/api/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_path_has_the_dialect_of_its_clients(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const gw_dialect *dialect;
    } c[] = {{"/v1/chat/completions", &gw_dialect_chat},
             {"/v1/messages", &gw_dialect_messages},
             {"/v1/messages/count_tokens", &gw_dialect_count},
             {"/api/tags", &gw_dialect_ollama_chat},
             {"/api/generate", &gw_dialect_ollama_text},
             {"/v1/responses", &gw_dialect_responses},
             {"/completion", &gw_dialect_llama},
             {"/v1/models/a/b", &gw_dialect_chat},
             {"/", &gw_dialect_chat},
             {"/v1/messages/batches", &gw_dialect_messages},
             {"/api/embed", &gw_dialect_ollama_chat},
             {"/v1/messagesx", &gw_dialect_chat},
             {"/apix", &gw_dialect_chat}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        assert_ptr_equal(gw_endpoints_dialect(c[i].path), c[i].dialect);
    assert_int_equal(gw_endpoints_find("/v1/models/"), gw_endpoints_len);
}

static void where_there_is_nothing_all_paths_are_told_whole(void **state)
{
    (void)state;
    gw_error err;
    char long_path[400];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    gw_endpoints_tell(&err, long_path);
    assert_int_equal(err.status, 404);
    for (size_t i = 0; i < gw_endpoints_len; i++) assert_non_null(strstr(err.message, gw_endpoints[i].path));
    assert_int_equal(err.message[strlen(err.message) - 1], '.');
}

static void a_path_that_is_not_ascii_leaves_the_list_whole(void **state)
{
    (void)state;
    gw_error err;
    char cut[128] = "/";
    memset(cut + 1, 'a', 98);
    (void)strcpy(cut + 99, "\xC3\xA9\xC3\xA9"); /* the 100th byte is half a character */
    static const char bad[] = "/\xFF";
    const char *const paths[] = {cut, bad};
    for (size_t i = 0; i < 2; i++) {
        gw_endpoints_tell(&err, paths[i]);
        for (size_t k = 0; k < gw_endpoints_len; k++)
            assert_non_null(strstr(err.message, gw_endpoints[k].path));
        assert_int_equal(err.message[strlen(err.message) - 1], '.');
    }
    assert_non_null(strstr(err.message, "nothing at /?. There"));
    (void)gw_error_say(&err, 400, NULL, NULL, "%.1022s\xC3\xA9", ""); /* whole characters stay */
    assert_string_equal(err.message, "\xC3\xA9");
}

static void a_model_is_listed_once_with_its_context_in_three_ways(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny", "alias"};
    const gw_model_facts m = {.names = names, .names_len = 2, .parameters = 9,    .bytes = 7,
                              .vocab = 512,   .dim = 64,      .ctx_tokens = 4096, .created_s = 5};
#define REST \
    "\"object\":\"model\",\"created\":5,\"owned_by\":\"baton\",\"aliases\":[\"tiny\",\"alias\"],\"max_" \
    "model_len\":2048," \
    "\"context_length\":2048,\"meta\":{\"n_ctx\":2048,\"n_ctx_train\":4096,\"n_vocab\":512,\"n_embd\":64," \
    "\"n_params\":9," \
    "\"size\":7}}"
    bt_buf b;
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(gw_models_list(&b, &m, 2048), BT_OK);
    assert_string_equal(bt_buf_text(&b), "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\"," REST "]}");
    bt_buf_clear(&b);
    assert_int_equal(gw_models_one(&b, &m, "alias", 2048), BT_OK);
    assert_string_equal(bt_buf_text(&b), "{\"id\":\"alias\"," REST);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_has_the_dialect_of_its_clients),
        cmocka_unit_test(a_path_that_is_not_ascii_leaves_the_list_whole),
        cmocka_unit_test(where_there_is_nothing_all_paths_are_told_whole),
        cmocka_unit_test(a_model_is_listed_once_with_its_context_in_three_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
