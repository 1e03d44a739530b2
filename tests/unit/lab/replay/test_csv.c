/* Names that a server gives itself stay in their column of --csv, and nothing of them is run. */
#include "lab/replay/print.h"
#include "base/buf.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_node_s_id_is_one_field(void **state)
{
    (void)state;
    tool_replay_result r;
    assert_int_equal(tool_replay_result_begin(&r, 1, NULL), BT_OK);
    const uint16_t node = (uint16_t)tool_replay_result_node(&r, "=1+1,\"x\"\nid", "decode");
    tool_replay_record one = {.node = node, .kind = tool_replay_result_kind(&r, "-ok"), .first_us = -1};
    tool_replay_result_add(&r, &one);
    const tool_replay_outcome o = {.result = &r};
    char path[] = "/tmp/baton-csv-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tool_replay_csv(path, &o, NULL), BT_OK);
    bt_buf b;
    bt_buf_init(&b, 1 << 16);
    assert_int_equal(bt_file_read(&b, path, NULL), BT_OK);
    (void)unlink(path);
    const char *row = strchr(bt_buf_text(&b), '\n') + 1;
    assert_int_equal(strncmp(row, "0,\"'-ok\",0,", 11), 0);
    const char *last = ",\"'=1+1,\"\"x\"\"\nid\"\n";
    assert_string_equal(row + strlen(row) - strlen(last), last);
    bt_buf_done(&b);
    tool_replay_result_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_s_id_is_one_field),
    };
    return cmocka_run_group_tests_name("CSV of a run", tests, NULL, NULL);
}
