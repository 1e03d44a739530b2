/* Hand-offs of unusual size through the real programs. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LAYERS = 250 };

static cluster sys;

static int start_system(void **state)
{
    (void)state;
    spawn_setup();
    client_setup();
    /* Large enough rows that the socket takes a block in the time that making the next one takes, so that
     * it never says "full". */
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.layers = LAYERS;
    spec.heads = spec.kv_heads = spawn_is_sanitized() ? 2 : 8; /* there, making a block is slow anyway */
    spec.head_dim = 64;
    spec.type = 8;
    const char *path = spawn_path("deep.gguf");
    tiny_gguf_write(&spec, path);
    return CLUSTER(&sys, path, "--threads", "1") ? 0 : -1;
}

static int stop_system(void **state)
{
    (void)state;
    const bool ok = cluster_stop(&sys);
    client_cleanup();
    spawn_cleanup();
    return ok ? 0 : -1;
}

/* A prompt that is sent in one piece makes one block a layer, all ready at the same moment. */
static void more_blocks_than_a_queue_has_places_leave_in_one_go(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        json_t *request = cluster_request(
            "the end of the day and the end of the way to the end of the day, the day of the end", 2);
        client *c = client_post(sys.url, "/v1/completions", request);
        json_decref(request);
        assert_true(client_wait(c, spawn_patience(20000)));
        if (client_status(c) != 200) fail_msg("%s", client_body(c));
        client_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(more_blocks_than_a_queue_has_places_leave_in_one_go, client_teardown),
    };
    return cmocka_run_group_tests(tests, start_system, stop_system);
}
