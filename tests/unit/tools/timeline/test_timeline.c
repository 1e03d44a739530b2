/* What a timeline looks like to those who read it: JSON that parses, and no text that ends a script. */
#include "tools/timeline/timeline.h"
#include "base/buf.h"
#include "base/file.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const track[] = {"NPU", "link </script><b>"}, *const kind[] = {"matmul", "\"quoted\""};
static const tool_timeline_span span[] = {{0, 0, 3, 7, 1000, 2500},
                                          {1, 1, -1, -1, 2500, UINT64_C(9000000000001)}};
static const tool_timeline_fact fact[] = {{"TTFT", "12.5 ms"}};
static const tool_timeline sample = {.title = "a </script> \xc3\xa9",
                                     .subtitle = "modelled",
                                     .unit = "chunk",
                                     .track = track,
                                     .kind = kind,
                                     .tracks = 2,
                                     .kinds = 2,
                                     .fact = fact,
                                     .facts = 1,
                                     .span = span,
                                     .spans = 2};

static char *written(char path[64], const char *ending, bt_buf *buf)
{
    snprintf(path, 64, "/tmp/baton_timeline_%d%s", (int)getpid(), ending);
    bt_fault fault = {""};
    if (tool_timeline_write(path, &sample, &fault) != BT_OK) fail_msg("%s", fault.text);
    bt_buf_init(buf, 1 << 20);
    assert_int_equal(bt_file_read(buf, path, NULL), BT_OK);
    unlink(path);
    return (char *)(uintptr_t)bt_buf_text(buf);
}

static void a_trace_is_events_in_microseconds_on_named_threads(void **state)
{
    (void)state;
    char path[64];
    bt_buf buf;
    json_t *root = json_loads(written(path, ".json", &buf), 0, NULL);
    assert_non_null(root);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 1 + 2 + 2);
    const char *names[] = {"process_name", "thread_name", "thread_name", "matmul", "\"quoted\""};
    for (size_t i = 0; i < 5; i++) {
        const json_t *event = json_array_get(events, i);
        assert_string_equal(json_string_value(json_object_get(event, "name")), names[i]);
        assert_string_equal(json_string_value(json_object_get(event, "ph")), i < 3 ? "M" : "X");
        assert_int_equal(json_integer_value(json_object_get(event, "pid")), 1);
    }
    const json_t *first = json_array_get(events, 3), *second = json_array_get(events, 4);
    assert_true(json_real_value(json_object_get(first, "ts")) == 1.0);
    assert_true(json_real_value(json_object_get(first, "dur")) == 1.5);
    assert_int_equal(json_integer_value(json_object_get(first, "tid")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "args"), "chunk")), 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "args"), "layer")), 7);
    assert_true(json_real_value(json_object_get(second, "dur")) == 8999999997.501);
    assert_int_equal(json_object_size(json_object_get(second, "args")), 0);
    json_decref(root);
    bt_buf_done(&buf);
}

static void a_page_holds_its_data_and_nothing_in_it_ends_the_script(void **state)
{
    (void)state;
    char path[64];
    bt_buf buf;
    char *text = written(path, ".html", &buf);
    char *data = strstr(text, "type=\"application/json\">\n");
    assert_non_null(data);
    data += strlen("type=\"application/json\">\n");
    char *end = strstr(data, "</script>");
    assert_non_null(end);
    json_t *root = json_loadb(data, (size_t)(end - data), 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "title")), sample.title);
    assert_string_equal(json_string_value(json_array_get(json_object_get(root, "tracks"), 1)), track[1]);
    const json_t *s = json_array_get(json_object_get(root, "spans"), 1);
    assert_int_equal(json_integer_value(json_array_get(s, 3)), INT64_C(8999999997501));
    assert_int_equal(json_integer_value(json_array_get(s, 4)), -1);
    assert_null(strstr(text, "@DATA@"));
    assert_null(strstr(text, "src=")); /* readable offline: nothing is fetched */
    assert_null(strstr(text, "http"));
    assert_non_null(strstr(end, "</html>"));
    json_decref(root);
    bt_buf_done(&buf);
}

static void refuses_what_it_cannot_write_and_says_what_to_do(void **state)
{
    (void)state;
    bt_fault fault;
    assert_int_equal(tool_timeline_write("x.svg", &sample, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, ".html"));
    assert_int_equal(tool_timeline_write("/nowhere/x.html", &sample, &fault), BT_EIO);
    tool_timeline large = sample;
    large.spans = TOOL_TIMELINE_MAX_SPANS + 1;
    assert_int_equal(tool_timeline_write("x.html", &large, &fault), BT_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_events_in_microseconds_on_named_threads),
        cmocka_unit_test(a_page_holds_its_data_and_nothing_in_it_ends_the_script),
        cmocka_unit_test(refuses_what_it_cannot_write_and_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
