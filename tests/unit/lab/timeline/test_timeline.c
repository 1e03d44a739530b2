/* A timeline as its readers see it: JSON that parses, and no text that ends a script. */
#include "lab/timeline/timeline.h"
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

static const char *const track[] = {"NPU", "link </script><b><!--<script>"}, *const kind[] = {"matmul",
                                                                                              "\"quoted\""};
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
    assert_null(strstr(text, "<!--"));
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

/* Many spans by the rules of the Trace Event format: every event has a name, a phase and whose it is;
 * metadata names each thread before its events; complete events have a time and a length, and those of a
 * thread nest. */
static void every_event_keeps_the_rules_of_the_format(void **state)
{
    (void)state;
    enum { SPANS = 500 };
    static tool_timeline_span many[SPANS];
    uint64_t end[2] = {0, 0};
    for (uint32_t i = 0; i < SPANS; i++) {
        const uint32_t on = i * 7 % 3 == 0;
        many[i] = (tool_timeline_span){
            on, i % 2,           (int32_t)(i % 5) - 1,
            -1, end[on] + i % 3, end[on] + i % 3 + i * 977 + UINT64_C(1000000001) * (i % 50 == 7)};
        end[on] = many[i].end_ns;
    }
    tool_timeline t = sample;
    char path[64];
    bt_buf buf;
    bool is_named[3] = {false};
    uint64_t last[3] = {0};
    size_t complete = 0, at;
    json_t *event;
    t.span = many;
    t.spans = SPANS;
    snprintf(path, sizeof path, "/tmp/baton_timeline_rules_%d.json", (int)getpid());
    assert_int_equal(tool_timeline_write(path, &t, NULL), BT_OK);
    bt_buf_init(&buf, 1 << 20);
    assert_int_equal(bt_file_read(&buf, path, NULL), BT_OK);
    unlink(path);
    json_t *root = json_loads(bt_buf_text(&buf), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), at, event) {
        const char *ph = json_string_value(json_object_get(event, "ph"));
        const json_int_t tid = json_integer_value(json_object_get(event, "tid"));
        assert_true(ph && json_is_string(json_object_get(event, "name")) &&
                    json_is_integer(json_object_get(event, "pid")) &&
                    json_is_object(json_object_get(event, "args")));
        assert_true(tid >= 0 && tid < 3);
        if (*ph == 'M') {
            assert_true(json_is_string(json_object_get(json_object_get(event, "args"), "name")));
            is_named[tid] = true;
            continue;
        }
        assert_string_equal(ph, "X");
        assert_true(is_named[tid] && tid > 0);
        const double ts = json_number_value(json_object_get(event, "ts")),
                     dur = json_number_value(json_object_get(event, "dur"));
        const uint64_t begin = (uint64_t)(1000 * ts + .5);
        assert_true(json_is_number(json_object_get(event, "dur")) && ts >= 0 && dur >= 0 &&
                    begin >= last[tid]);
        last[tid] = begin + (uint64_t)(1000 * dur + .5);
        complete++;
    }
    assert_int_equal(complete, SPANS);
    assert_int_equal(last[1], end[0]);
    assert_int_equal(last[2], end[1]);
    json_decref(root);
    bt_buf_done(&buf);
}

/* A process, a thread, and a span of it, as Perfetto's own bindings for Python serialise the same packets. */
static void a_trace_of_perfetto_has_the_bytes_that_its_bindings_make(void **state)
{
    (void)state;
    static const uint8_t want[] = {
        0x0a, 0x10, 0x50, 0x01, 0x68, 0x01, 0xe2, 0x03, 0x09, 0x08, 0x01, 0x1a, 0x05, 0x08, 0x01, 0x32, 0x01,
        0x54, 0x0a, 0x12, 0x50, 0x01, 0xe2, 0x03, 0x0d, 0x08, 0x02, 0x22, 0x07, 0x08, 0x01, 0x10, 0x02, 0x2a,
        0x01, 0x4e, 0x28, 0x01, 0x0a, 0x1e, 0x40, 0xac, 0x02, 0x50, 0x01, 0x5a, 0x17, 0x22, 0x05, 0x20, 0x03,
        0x52, 0x01, 0x63, 0x48, 0x01, 0x58, 0x02, 0xb2, 0x01, 0x05, 0x62, 0x61, 0x74, 0x6f, 0x6e, 0xba, 0x01,
        0x01, 0x6d, 0x0a, 0x0b, 0x40, 0xe8, 0x07, 0x50, 0x01, 0x5a, 0x04, 0x48, 0x02, 0x58, 0x02};
    static const char *const tracks[] = {"N"}, *const kinds[] = {"m"};
    static const tool_timeline_span one = {0, 0, 3, -1, 300, 1000};
    const tool_timeline t = {.title = "T", .subtitle = "", .unit = "c",  .track = tracks, .kind = kinds,
                             .tracks = 1,  .kinds = 1,     .span = &one, .spans = 1};
    char path[64];
    bt_buf buf;
    snprintf(path, sizeof path, "/tmp/baton_timeline_%d.pftrace", (int)getpid());
    assert_int_equal(tool_timeline_write(path, &t, NULL), BT_OK);
    bt_buf_init(&buf, 1 << 20);
    assert_int_equal(bt_file_read(&buf, path, NULL), BT_OK);
    unlink(path);
    assert_int_equal(buf.len, sizeof want);
    assert_memory_equal(buf.data, want, sizeof want);
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
        cmocka_unit_test(every_event_keeps_the_rules_of_the_format),
        cmocka_unit_test(a_trace_of_perfetto_has_the_bytes_that_its_bindings_make),
        cmocka_unit_test(refuses_what_it_cannot_write_and_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
