/* Commands of a chat: what is one, what is sent, and what each does to the conversation. */
#include "tools/chat/words.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static tool_talk *talk;
static json_t *wishes;
static char *said;
static size_t said_len;
static FILE *out;
static bt_fault fault;

static int begin(void **state)
{
    (void)state;
    wishes = json_object();
    const tool_talk_with with = {.url = "http://127.0.0.1:1", .wishes = wishes, .system = "Be brief."};
    out = open_memstream(&said, &said_len);
    fault.text[0] = 0;
    return out ? tool_talk_open(&talk, &with, &fault) : -1;
}

static int end(void **state)
{
    (void)state;
    tool_talk_close(talk);
    json_decref(wishes);
    fclose(out);
    free(said);
    return 0;
}

static bt_err type(const char *text, tool_words_next *ret, const char **ret_text)
{
    const bt_err e = tool_words_do(ret, ret_text, talk, text, true, out, &fault);
    fflush(out);
    return e;
}

static void expect_sent(const char *text, const char *message)
{
    tool_words_next next;
    const char *sent = NULL;
    assert_int_equal(type(text, &next, &sent), BT_OK);
    assert_int_equal(next, TOOL_WORDS_SEND);
    assert_string_equal(sent, message);
}

static void expect_done(const char *text, tool_words_next want)
{
    tool_words_next next;
    const char *sent = NULL;
    if (type(text, &next, &sent) < 0) fail_msg("%s: %s", text, fault.text);
    assert_int_equal(next, want);
}

static void expect_refused(const char *text, const char *words)
{
    tool_words_next next;
    const char *sent = NULL;
    assert_int_equal(type(text, &next, &sent), BT_EARG);
    if (!strstr(fault.text, words)) fail_msg("%s: %s", text, fault.text);
}

static void only_a_slash_at_the_beginning_makes_a_command(void **state)
{
    (void)state;
    expect_sent("hello /help", "hello /help");
    expect_sent(" /help", " /help");
    expect_sent("//help", "/help");
    expect_sent("//", "/");
    expect_sent("///x", "//x");
}

static void what_is_no_command_is_not_sent(void **state)
{
    (void)state;
    expect_refused("/etc/passwd is a file", "there is no command /etc/passwd (/help");
    expect_refused("/", "there is no command / ");
    expect_refused("/helpx", "did you mean /help (");
    expect_refused("/Help", "no command /Help");
    expect_refused("/clear all", "/clear takes no words");
    expect_refused("/save", "/save needs FILE");
    expect_refused("/save  \n", "/save needs FILE");
}

static void help_names_every_command_and_how_to_leave(void **state)
{
    (void)state;
    expect_done("/help", TOOL_WORDS_DONE);
    static const char *const named[] = {
        "/help", "/clear", "/system [TEXT]", "/model [NAME]", "/regenerate", "\"\"\"",   "/save FILE",
        "/exit", "//text", "Ctrl-C",         "Ctrl-D",        "backslash",   "Alt-Enter"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strstr(said, named[i])) fail_msg("%s is not in: %s", named[i], said);
    expect_done("/regenerate", TOOL_WORDS_AGAIN);
    expect_refused("/regenerate it", "/regenerate takes no words");
    expect_done("/exit", TOOL_WORDS_LEAVE);
    expect_done("/exit\r", TOOL_WORDS_LEAVE);
    expect_done("/exit  ", TOOL_WORDS_LEAVE);
}

static void the_system_message_is_shown_set_and_taken_away(void **state)
{
    (void)state;
    expect_done("/system", TOOL_WORDS_DONE);
    assert_string_equal(said, "Be brief.\n");
    expect_done("/system  Answer\nin verse. ", TOOL_WORDS_DONE);
    assert_string_equal(tool_talk_system(talk), "Answer\nin verse.");
    expect_done("/clear", TOOL_WORDS_DONE);
    assert_string_equal(tool_talk_system(talk), "Answer\nin verse.");
    expect_done("/system -", TOOL_WORDS_DONE);
    assert_null(tool_talk_system(talk));
    expect_done("/clear", TOOL_WORDS_DONE);
}

static void a_conversation_is_saved_once_and_for_the_user_alone(void **state)
{
    char dir[TEMP_FOLDER_BYTES], command[400], path[300], text[100] = "";
    struct stat st;
    (void)state;
    assert_true(temp_folder_new(dir));
    snprintf(path, sizeof path, "%s/a chat.md", dir);
    snprintf(command, sizeof command, "/save %s ", path);
    expect_done(command, TOOL_WORDS_DONE);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "## system\n\nBe brief.\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    tool_words_next next;
    const char *sent;
    assert_int_equal(type(command, &next, &sent), BT_EIO);
    assert_non_null(strstr(fault.text, "exists"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    expect_refused("/save", "needs");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(only_a_slash_at_the_beginning_makes_a_command),
        TEST(what_is_no_command_is_not_sent),
        TEST(help_names_every_command_and_how_to_leave),
        TEST(the_system_message_is_shown_set_and_taken_away),
        TEST(a_conversation_is_saved_once_and_for_the_user_alone),
    };
    return cmocka_run_group_tests_name("commands of a chat", tests, NULL, NULL);
}
