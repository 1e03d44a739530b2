/* The reports of `baton compile`, `baton inspect` and an answer on a device that does not take everything, or
 * computes whole tiles, and that --require-npu refuses the first. */
#include "tests/helpers/cluster/spawn.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LAYERS = 2, ENDS_MS = 60000 };

static const char some[] =
    "{\"name\":\"part\",\"title\":\"Part of "
    "it\",\"operators\":{\"linear\":[\"int8\"],\"norm\":[\"int16\"],"
    "\"attention\":[\"int16\"],\"sum\":[\"int16\"],\"rotation\":[\"int16\"],\"activation\":[\"int16\"]}%s}";

#define LAUNCH \
    ",\"time\":{\"stack\":\"none\",\"f16_ops_per_us\":1000000,\"memory_bytes_per_us\":50000," \
    "\"op_launch_ns\":1000}"

/* The paths of spawn.h are few and used again. */
static const char *keep(char ret[1024], const char *path)
{
    assert_true((size_t)snprintf(ret, 1024, "%s", path) < 1024);
    return ret;
}

static const char *profile(const char *name, const char *more)
{
    const char *path = spawn_path(name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, some, more);
    assert_int_equal(fclose(f), 0);
    return path;
}

static spawn *compile(const char *profile, const char *package, const char *option)
{
    return SPAWN("baton", "compile", "-q", "-m", spawn_tiny_model(1), "--npu-ops", "all", "--profile",
                 profile, "-o", package, "--shape-policy", "chunk:64", option);
}

static json_t *inspect(const char *package)
{
    spawn *s = SPAWN("baton", "inspect", package, "--json");
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 0);
    json_t *j = json_loads(spawn_out(s), 0, NULL);
    assert_non_null(j);
    return j;
}

static json_int_t integer(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("%s is no integer", key);
    return json_integer_value(v);
}

static void require_npu_names_operator_layers_and_reason(void **state) /* AC-n2 */
{
    (void)state;
    char p[3][1024];
    const char *package = keep(p[0], spawn_path("part.npu")), *lacks = keep(p[2], profile("part.json", ""));
    spawn *s = compile(lacks, package, "--require-npu");
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "  rope 4 x in 2 layers (not in profile part)\n"));
    assert_int_not_equal(access(package, F_OK), 0);

    /* the head's cluster: its norm and its matrix of 64 x 384, one row */
    const char *wants = keep(p[1], profile("wants.json", LAUNCH ",\"min_cluster_macs\":24577"));
    s = compile(wants, package, "--require-npu");
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "  rope 4 x in 2 layers (not in profile part)\n"));
    assert_non_null(strstr(spawn_err(s),
                           "  linear 1 x outside layers (less work than a launch is worth: 24576 "
                           "MACs, wanted 24577)\n"));
    assert_non_null(strstr(spawn_err(s), "  rmsnorm 1 x outside layers (less work than"));

    s = compile(wants, package, "--json");
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 0);
    json_t *j = json_loads(spawn_out(s), 0, NULL);
    const json_t *list = json_object_get(j, "fallbacks");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "op")), "rope");
    assert_int_equal(integer(json_array_get(list, 0), "count"), 2 * LAYERS);
    assert_int_equal(integer(json_array_get(list, 0), "layers"), LAYERS);
    assert_int_equal(integer(json_array_get(list, 1), "layers"), 0);
    json_decref(j);
}

static void inspect_lists_the_clusters(void **state)
{
    (void)state;
    char p[1024];
    const char *package = keep(p, spawn_path("clusters.npu"));
    spawn *s = compile(profile("launch.json", LAUNCH), package, "--json");
    if (spawn_wait(s, spawn_patience(ENDS_MS)) != 0) fail_msg("%s", spawn_err(s));
    json_t *j = inspect(package);
    const json_t *list = json_object_get(j, "clusters");
    /* norm and q, k, v; then for each layer from attention to the next one's q, k, v; then the head */
    assert_int_equal(json_array_size(list), LAYERS + 2);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        assert_int_equal(integer(c, "id"), i + 1);
        assert_true(integer(c, "instructions") > 1 && integer(c, "macs") > 0);
        assert_true(integer(c, "in_bytes") > 0 && integer(c, "out_bytes") > 0);
    }
    const json_t *first = json_array_get(list, 0), *last = json_array_get(list, LAYERS + 1);
    assert_string_equal(json_string_value(json_object_get(first, "first")), "int_rmsnorm");
    assert_string_equal(json_string_value(json_object_get(first, "last")), "linear");
    assert_int_equal(integer(first, "in_bytes"), 64 * 64 * 4);              /* the residual stream */
    assert_int_equal(integer(first, "out_bytes"), 64 * (64 + 32 + 32) * 4); /* q, k and v to the companion */
    assert_true(json_is_null(json_object_get(last, "first_layer")));
    assert_int_equal(integer(last, "in_bytes"), 64 * 4);   /* a row */
    assert_int_equal(integer(last, "out_bytes"), 384 * 4); /* its logits */
    json_decref(j);
}

/* Tiles of 48 outputs x 64 inputs, a prompt in one chunk of 64 rows. A row costs in each layer (96 - 64) 64
 * of q, twice (48 - 32) 64 of k and v, (96 - 64) 64 of o, nothing of gate and up (96 x 64), and 96 x 128 - 64
 * x 96 of down; the head's 384 x 64 are whole tiles. */
static void an_answer_tells_what_whole_tiles_cost_its_prompt(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        json_int_t macs;
    } of[] = {{",\"tile_rows\":48,\"tile_cols\":64", 64 * LAYERS * (3 * 32 * 64 + 96 * 128 - 64 * 96)},
              {"", 0}};
    for (size_t i = 0; i < 2; i++) {
        char p[1024];
        const char *package = keep(p, spawn_path("tiles.npu"));
        spawn *s = compile(profile("tiles.json", of[i].fields), package, "--json");
        if (spawn_wait(s, spawn_patience(ENDS_MS)) != 0) fail_msg("%s", spawn_err(s));
        s = SPAWN("baton", "run", "--json", "-m", spawn_tiny_model(1), "-p", "the end of", "-n", "2",
                  "--threads", "1", "--package", package);
        if (spawn_wait(s, spawn_patience(ENDS_MS)) != 0) fail_msg("%s", spawn_err(s));
        json_t *j = json_loads(spawn_out(s), 0, NULL);
        assert_non_null(j);
        assert_int_equal(integer(j, "tile_padding_macs"), of[i].macs);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(require_npu_names_operator_layers_and_reason, spawn_teardown),
        cmocka_unit_test_teardown(inspect_lists_the_clusters, spawn_teardown),
        cmocka_unit_test_teardown(an_answer_tells_what_whole_tiles_cost_its_prompt, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, spawn_group_begin, spawn_group_end);
}
