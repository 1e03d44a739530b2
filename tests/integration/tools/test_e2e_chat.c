/* `baton chat` at a terminal: what is typed and pasted, what Ctrl-C does, what is kept, and a terminal that
 * can do little. The chat is read from the file that /save writes. */
#include "base/buf.h"
#include "base/file.h"
#include "tests/helpers/cluster/cluster.h"
#include "text/utf8.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 60000, MAX_ARGS = 24 };
#define PASTE(text) "\033[200~" text "\033[201~"

static cluster up;
static spawn *chat;
static size_t seen; /* of its output: what a test has looked at */

static int begin(void **state)
{
    if (cluster_group_begin(state)) return -1;
    return setenv("XDG_STATE_HOME", spawn_path("state"), 1) || setenv("HOME", spawn_path("home"), 1) ||
           setenv("LC_ALL", "C", 1);
}

static int end_of_test(void **state)
{
    (void)unlink(spawn_path("state/baton/chat_history"));
    (void)rmdir(spawn_path("state/baton"));
    return cluster_teardown(state);
}

/* ---- at the terminal ---- */

static void type(const char *text) { spawn_type(chat, text, strlen(text)); }

/* Waits for the text behind all that was looked at before. */
static void expect(const char *text)
{
    const char *at = NULL;
    for (const int64_t limit = spawn_now_ms() + spawn_patience(WAIT_MS);
         !(at = strstr(spawn_out(chat) + seen, text)) && spawn_before(limit);) {}
    if (!at) fail_msg("'%s' did not come; since then: %s", text, spawn_out(chat) + seen);
    seen = (size_t)(at - spawn_out(chat)) + strlen(text);
}

/* The prompt is there and keys are read. */
static void expect_prompt(void) { expect("> "); }

static void start_chat_as(const char *term, const char *const *more)
{
    const char *argv[MAX_ARGS] = {"baton", "chat", "--url", up.url, "-n", "24", "--temp", "0"};
    size_t n = 8;
    while (*more && n + 1 < MAX_ARGS) argv[n++] = *more++;
    chat = spawn_in_terminal(term, argv);
    seen = 0;
    expect_prompt();
}
#define START_CHAT(...) start_chat_as("xterm", (const char *const[]){__VA_ARGS__})

static void start(const char *model)
{
    if (!CLUSTER(&up, model, "--engine", "host", "--threads", "1")) fail_msg("no cluster");
}

static void leave(const char *how, int code)
{
    type(how);
    const int rc = spawn_wait(chat, spawn_patience(20000));
    if (rc != code) fail_msg("exit %d: %s", rc, spawn_out(chat));
    assert_true(spawn_terminal_is_cooked(chat));
}

static void finish(void)
{
    leave("/exit\r", 0);
    assert_true(cluster_stop(&up));
}

/* The conversation as /save writes it; the caller frees it. */
static char *saved(void)
{
    static int counter;
    char name[64], command[600];
    bt_buf text;
    snprintf(name, sizeof name, "saved-%d.md", counter++);
    const char *path = spawn_path(name);
    snprintf(command, sizeof command, "/save %s\r", path);
    type(command);
    expect("saved\r\n");
    expect_prompt();
    bt_buf_init(&text, 4 << 20);
    assert_int_equal(bt_file_read(&text, path, NULL), BT_OK);
    return (char *)text.data;
}

static void expect_saved(const char *text)
{
    char *got = saved();
    if (!strstr(got, text)) fail_msg("not in the conversation: %s\nbut: %s", text, got);
    free(got);
}

static void ask(const char *question)
{
    type(question);
    type("\r");
    expect("hand-off");
    expect_prompt();
}

/* ---- the tests ---- */

static void the_banner_names_the_model_and_how_to_leave(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    assert_non_null(strstr(spawn_out(chat), "Talking to tiny-1-1024."));
    assert_non_null(strstr(spawn_out(chat), "Ctrl-D or /exit leaves"));
    leave("\004", 0);
    START_CHAT("-q", NULL);
    assert_null(strstr(spawn_out(chat), "Talking"));
    finish();
}

static void a_paste_is_one_message_of_any_length_and_any_lines(void **state)
{
    enum { WORDS = 1500 };
    bt_buf text;
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    ask(PASTE("one two\rthree\r\rfour"));
    expect_saved("## user\n\none two\nthree\n\nfour\n\n## assistant\n");
    bt_buf_init(&text, 1 << 20);
    (void)bt_buf_str(&text, "\033[200~/system ");
    for (int i = 0; i < WORDS; i++) (void)bt_buf_fmt(&text, "word%d%c", i, i % 100 ? ' ' : '\r');
    (void)bt_buf_str(&text, "end\033[201~");
    assert_true(text.len > 2 * 4096);
    type(bt_buf_text(&text));
    type(" and on\r");
    expect_prompt();
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\r') text.data[i] = '\n';
    char *got = saved();
    const char *words = bt_buf_text(&text) + strlen("\033[200~/system ");
    const size_t len = text.len - (size_t)(words - bt_buf_text(&text)) - strlen("\033[201~");
    assert_memory_equal(got + strlen("## system\n\n"), words, len);
    assert_memory_equal(got + strlen("## system\n\n") + len, " and on\n\n## user", 16);
    free(got);
    bt_buf_done(&text);
    finish();
}

static void a_message_that_fails_is_taken_back_and_the_chat_goes_on(void **state)
{
    char words[3001];
    (void)state;
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    start(spawn_tiny_model(1)); /* a context of 1024 */
    START_CHAT(NULL);
    type(words);
    type("\r");
    expect("baton chat: ");
    expect("1024");
    expect("(the message is taken back; /clear");
    expect_prompt();
    ask("short");
    char *got = saved();
    assert_memory_equal(got, "## user\n\nshort\n", 15);
    free(got);
    finish();
}

static void a_paste_over_the_limit_is_refused_and_the_chat_goes_on(void **state)
{
    enum { TOO_LONG = (1 << 20) + 1 };
    (void)state;
    char *text = malloc(TOO_LONG + 1);
    assert_non_null(text);
    memset(text, 'x', TOO_LONG);
    text[TOO_LONG] = '\0';
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    type("\033[200~");
    type(text);
    type("\033[201~");
    expect("a message has at most 1048576 bytes");
    type("/system short\r");
    expect_prompt();
    expect_saved("## system\n\nshort\n");
    free(text);
    finish();
}

static void lines_are_edited_and_go_on_after_a_backslash_or_alt_enter(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    type("/system on\033[D\033[Dsec\033[C\033[C\033[C\177d, "); /* arrows, backspace */
    type("h\xC3\xA9\xE4\xBD\xA0");
    expect("h\xC3\xA9\xE4\xBD\xA0"); /* whatever the locale */
    type("\177\033\rline\\\r\r");
    expect_prompt();
    expect_saved("## system\n\nsecod, h\xC3\xA9\nline\n");
    finish();
}

static void marks_at_both_ends_make_a_message_of_several_lines(void **state)
{
    static const char *const terms[] = {"xterm", "dumb"};
    (void)state;
    start(spawn_tiny_model(1));
    for (size_t i = 0; i < 2; i++) {
        start_chat_as(terms[i], (const char *const[]){NULL});
        type("\"\"\"\r/clear\r say \"\"\" it\\\r\rthree\r");
        type("\"\"\"\r");
        expect("hand-off");
        expect_prompt();
        expect_saved("## user\n\n/clear\n say \"\"\" it\\\n\nthree\n\n## assistant");
        type("/clear\r");
        expect("forgotten");
        expect_prompt();
        type("\"\"\"one line\"\"\"\r");
        expect("hand-off");
        expect_prompt();
        expect_saved("## user\n\none line\n\n## assistant");
        type("\"\"\"\"\"\"\r"); /* nothing to send */
        expect_prompt();
        type("\"\"\"not\rthis\003");
        expect("(Ctrl-C again");
        expect_prompt();
        leave("/exit\r", 0);
    }
    assert_true(cluster_stop(&up));
}

static size_t count_of(const char *text, const char *words)
{
    size_t n = 0;
    for (; (text = strstr(text, words)); text += strlen(words)) n++;
    return n;
}

static void a_regenerated_answer_takes_the_old_ones_place(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT("--temp", "1", NULL);
    type("/regenerate\r");
    expect("there is no answer yet");
    expect_prompt();
    ask("first");
    ask("second");
    char *before = saved();
    type("/regenerate\r");
    expect("hand-off");
    expect_prompt();
    char *after = saved();
    assert_string_not_equal(before, after);
    const char *at = strstr(before, "## user\n\nsecond\n\n## assistant");
    assert_non_null(at);
    assert_memory_equal(before, after, (size_t)(at - before)); /* all that came before stays */
    assert_int_equal(count_of(after, "## assistant"), 2);
    assert_int_equal(count_of(after, "## user"), 2);
    free(before);
    free(after);
    finish();
}

static void an_answer_that_cannot_be_made_again_stays(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    ask("first");
    char *before = saved();
    assert_true(cluster_end(up.up, spawn_patience(20000)));
    type("/regenerate\r");
    expect("no answer from");
    expect_prompt();
    char *after = saved();
    assert_string_equal(before, after);
    free(before);
    free(after);
    leave("/exit\r", 0);
}

static void another_name_of_the_model_is_taken_and_an_unknown_one_refused(void **state)
{
    (void)state;
    if (!CLUSTER(&up, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--alias", "mine"))
        fail_msg("no cluster");
    START_CHAT(NULL);
    assert_non_null(strstr(spawn_out(chat), "Talking to mine."));
    type("/model\r");
    expect("* mine");
    expect("  tiny-1-1024");
    expect_prompt();
    type("/model tiny-1-1024\r");
    expect_prompt();
    type("/model\r");
    expect("  mine");
    expect("* tiny-1-1024");
    expect_prompt();
    ask("first");
    type("/model other\r");
    expect("there is no model 'other' here, but 'mine', 'tiny-1-1024'");
    expect_prompt();
    ask("second"); /* by the one that was set before */
    finish();
}

static void what_is_typed_during_an_answer_waits_uncut(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT("-n", "300", "--frequency-penalty", "-2", NULL);
    char words[6001];
    for (size_t i = 0; i < 6000; i += 5) memcpy(words + i, i % 100 ? "ahead" : "line\r", 5);
    words[6000] = '\0';
    type("hello\r");
    expect("hello\r\n");
    type("\033[200~/system ");
    type(words);
    type("\033[201~\r");
    expect("hand-off");
    expect_prompt();
    expect_prompt();
    assert_non_null(strstr(spawn_out(chat), "\033[?2004h"));
    assert_null(strstr(spawn_out(chat), "\033[?2004l")); /* pastes are marked all the time */
    for (size_t i = 0; i < 6000; i++)
        if (words[i] == '\r') words[i] = '\n';
    char *got = saved();
    assert_memory_equal(got + strlen("## system\n\n"), words, 6000);
    free(got);
    finish();
}

static void ctrl_c_stops_an_answer_and_keeps_the_chat(void **state)
{
    (void)state;
    start(spawn_long_model());
    /* A token that came once comes ever likelier: an answer that does not end. */
    START_CHAT("-n", "16000", "--frequency-penalty", "-2", NULL);
    type("tell me of the small things\r");
    expect("things\r\n");
    for (const int64_t limit = spawn_now_ms() + spawn_patience(WAIT_MS);
         strlen(spawn_out(chat)) < seen + 100 && spawn_before(limit);) {}
    type("\003");
    expect("interrupted after");
    expect("(stopped)");
    expect_prompt();
    expect_saved("## user\n\ntell me of the small things\n\n## assistant\n\n");
    assert_true(cluster_wait_idle(up.url, spawn_patience(20000))); /* the nodes have stopped, too */
    type("/clear\r");
    expect_prompt();
    finish();
}

static void ctrl_c_before_the_first_token_takes_the_question_back(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    const pid_t node = cluster_pid(up.url, "decode-0");
    assert_true(node > 0 && kill(node, SIGSTOP) == 0);
    type("is anybody there?\r");
    expect("there?\r\n");
    type("\003");
    expect("interrupted before the first token");
    expect("(stopped; the question is taken back)");
    expect_prompt();
    assert_int_equal(kill(node, SIGCONT), 0);
    char *got = saved();
    assert_string_equal(got ? got : "", "");
    free(got);
    finish();
}

static void ctrl_c_at_the_prompt_clears_the_line_and_twice_leaves(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    for (int i = 0; i < 3; i++) { /* with something typed between they do not count together */
        type("not this");
        expect("not this"); /* Ctrl-C drops what was not read yet */
        type("\003");
        expect("(Ctrl-C again or Ctrl-D leaves)");
        expect_prompt();
    }
    type("/system this\r");
    expect_prompt();
    expect_saved("## system\n\nthis\n");
    type("\003");
    expect("(Ctrl-C again");
    expect_prompt();
    leave("\003", 130);
    START_CHAT(NULL);
    spawn_signal(chat, SIGTERM);
    leave("", 130);
    assert_true(cluster_stop(&up));
}

/* A shell of ours at the terminal: $0 is the program, $1 the gateway; the rest of the script runs once the
 * chat has ended or was stopped. */
static void start_chat_in_shell(const char *script)
{
    char program[600], text[400];
    const char *bin = getenv("BATON_BIN");
    snprintf(program, sizeof program, "%s/baton", bin && *bin ? bin : "bin");
    snprintf(text, sizeof text,
             "set -m; \"$0\" chat -n 16000 --temp 0 --frequency-penalty -2 --url \"$1\"; %s", script);
    chat = spawn_in_terminal("xterm", (const char *const[]){"/bin/bash", "-c", text, program, up.url, NULL});
    seen = 0;
    expect_prompt();
}

static void a_chat_that_was_stopped_goes_on_in_the_foreground(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    start_chat_in_shell("stty -a; echo stopped; fg; echo left $?");
    type("/system dra");
    expect("dra"); /* Ctrl-Z drops what was not read yet */
    type("\032");
    expect("\033[?2004l");
    expect(" icanon ");
    expect("stopped\r\n");
    expect("\033[?2004h");
    type("ft\r");
    expect_prompt();
    expect_saved("## system\n\ndraft\n");
    type("/exit\r");
    expect("left 0\r\n");
    assert_int_equal(spawn_wait(chat, spawn_patience(20000)), 0);
    assert_true(cluster_stop(&up));
}

static void ctrl_z_during_an_answer_gives_the_terminal_back_meanwhile(void **state)
{
    (void)state;
    start(spawn_long_model());
    start_chat_in_shell("stty -a; echo stopped; fg; echo left $?");
    type("hello\r");
    expect("hello\r\n");
    for (const int64_t limit = spawn_now_ms() + spawn_patience(WAIT_MS);
         strlen(spawn_out(chat)) < seen + 100 && spawn_before(limit);) {}
    type("\032");
    expect("\033[?2004l");
    expect(" icanon ");
    expect(" echo ");
    expect("stopped\r\n");
    expect("\033[?2004h");
    type("\003");
    expect("(stopped)");
    expect_prompt();
    type("/exit\r");
    expect("left 0\r\n");
    assert_int_equal(spawn_wait(chat, spawn_patience(20000)), 0);
    assert_true(cluster_stop(&up));
}

static void no_end_leaves_the_terminal_as_an_editor_wants_it(void **state)
{
    static const int signals[] = {SIGQUIT, SIGHUP};
    (void)state;
    start(spawn_long_model());
    for (size_t i = 0; i < 4; i++) {
        START_CHAT("-n", "16000", "--frequency-penalty", "-2", NULL);
        if (i % 2) { /* during an answer */
            type("hello\r");
            expect("hello\r\n");
            for (const int64_t limit = spawn_now_ms() + spawn_patience(WAIT_MS);
                 strlen(spawn_out(chat)) < seen + 100 && spawn_before(limit);) {}
        }
        spawn_signal(chat, signals[i / 2]);
        expect("\033[?2004l");
        leave("", 130);
    }
    assert_true(cluster_stop(&up));
}

static void bad_utf8_and_unknown_commands_are_told_and_not_sent(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    type("caf\xE9 here\r");
    expect("not sent: that is not valid UTF-8");
    expect_prompt();
    type("/sytem x\r");
    expect("there is no command /sytem; did you mean /system");
    expect_prompt();
    char *got = saved();
    assert_string_equal(got ? got : "", "");
    free(got);
    finish();
}

static void the_history_outlives_the_chat_for_its_user_alone(void **state)
{
    struct stat st;
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT(NULL);
    type("/system first\r");
    expect_prompt();
    type(PASTE("/system two\rlines"));
    type("\r");
    expect_prompt();
    leave("/exit\r", 0);
    assert_int_equal(stat(spawn_path("state/baton/chat_history"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    START_CHAT("--system", "none", NULL);
    type("draft\033[A\033[A\033[A\r"); /* /exit, two lines, first */
    expect_prompt();
    expect_saved("## system\n\nfirst\n");
    type("/system dra\033[A\033[A\033[B\033[Bft\r"); /* up and down again: what was there before */
    expect_prompt();
    expect_saved("## system\n\ndraft\n");
    type("\022two\r\r"); /* Ctrl-R */
    expect_prompt();
    expect_saved("## system\n\ntwo\nlines\n");
    leave("/exit\r", 0);

    assert_int_equal(unlink(spawn_path("state/baton/chat_history")), 0);
    START_CHAT("--no-history", NULL);
    type("/system first\r");
    expect_prompt();
    finish();
    assert_int_not_equal(stat(spawn_path("state/baton/chat_history"), &st), 0);
}

static void a_terminal_that_can_do_little_gives_plain_lines_and_cuts_none(void **state)
{
    static const char *const terms[] = {"dumb", NULL, "no-such-terminal"};
    char words[4097];
    (void)state;
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    start(spawn_tiny_model(1));
    for (size_t i = 0; i < 3; i++) {
        start_chat_as(terms[i], (const char *const[]){NULL});
        assert_non_null(strstr(spawn_out(chat), "cannot edit lines"));
        assert_null(strchr(spawn_out(chat), '\033'));
        type("/system two\\\rlines\r");
        expect_prompt();
        expect_saved("## system\n\ntwo\nlines\n");
        type("/system ");
        type(words + 10); /* 8 + 4086 bytes: one below the limit */
        type("\r");
        expect_prompt();
        char *got = saved();
        assert_int_equal(strlen(got), strlen("## system\n\n") + 4086 + 1);
        free(got);
        type("/system ");
        type(words + 9);
        type("\r");
        expect("not sent: this terminal passes on 4095 bytes");
        expect_prompt();
        type("not this\003");
        expect("(Ctrl-C again");
        expect_prompt();
        leave(i ? "\004" : "/exit\r", 0);
    }
    assert_true(cluster_stop(&up));
}

/* With a penalty on what came before, the little model walks through its vocabulary, which has every byte. */
static void an_answer_cannot_steer_the_terminal(void **state)
{
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT("-n", "300", "--frequency-penalty", "2", NULL);
    type("x\r");
    expect("x\r\n"); /* the last that the editor writes */
    const size_t from = seen;
    expect("\r\nprompt  ");
    const char *out = spawn_out(chat);
    for (size_t i = from; i < seen; i++) {
        const unsigned char c = (unsigned char)out[i];
        if ((c < ' ' && !strchr("\r\n\t", c)) || c == 0x7F) fail_msg("byte %02x in: %s", c, out + from);
    }
    assert_true(bt_utf8_valid(out + from, seen - from, NULL));
    static const char *const shown[] = {"\\x00", "\\x0c", "\\x13"};
    for (size_t i = 0; i < 3; i++)
        if (!strstr(out + from, shown[i])) fail_msg("%s is not in: %s", shown[i], out + from);
    expect_prompt();
    type("again\r");
    expect("hand-off"); /* the gateway takes what the model wrote back */
    expect_prompt();
    finish();
}

/* "prompt N tokens ... kept from before" of the next figures; *ret_kept is 0 where nothing is said of it. */
static int prompt_figure(int *ret_kept)
{
    expect("\r\nprompt ");
    const size_t at = seen;
    expect("generated ");
    const char *line = spawn_out(chat) + at, *more = strstr(line, "ms; ");
    *ret_kept = more && more < strchr(line, '\n') ? atoi(more + 4) : 0;
    return atoi(line);
}

static void the_figures_of_a_later_turn_count_what_was_computed(void **state)
{
    int kept;
    (void)state;
    start(spawn_tiny_model(1));
    START_CHAT("-n", "1", NULL);
    type("a question that is long enough to fill more than a page of sixty four tokens, letter by letter\r");
    const int first = prompt_figure(&kept);
    assert_true(first > 64);
    assert_int_equal(kept, 0);
    expect_prompt();
    type("more\r");
    const int second = prompt_figure(&kept);
    assert_true(kept >= 64 && kept % 64 == 0 && kept <= first);
    assert_true(second > 0 && second + kept > first && second + kept < first + 64); /* the whole conversation
                                                                                     */
    expect_prompt();
    finish();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, end_of_test)
    const struct CMUnitTest tests[] = {
        TEST(the_banner_names_the_model_and_how_to_leave),
        TEST(a_paste_is_one_message_of_any_length_and_any_lines),
        TEST(a_message_that_fails_is_taken_back_and_the_chat_goes_on),
        TEST(a_paste_over_the_limit_is_refused_and_the_chat_goes_on),
        TEST(lines_are_edited_and_go_on_after_a_backslash_or_alt_enter),
        TEST(marks_at_both_ends_make_a_message_of_several_lines),
        TEST(a_regenerated_answer_takes_the_old_ones_place),
        TEST(an_answer_that_cannot_be_made_again_stays),
        TEST(another_name_of_the_model_is_taken_and_an_unknown_one_refused),
        TEST(what_is_typed_during_an_answer_waits_uncut),
        TEST(ctrl_c_stops_an_answer_and_keeps_the_chat),
        TEST(ctrl_c_before_the_first_token_takes_the_question_back),
        TEST(ctrl_c_at_the_prompt_clears_the_line_and_twice_leaves),
        TEST(a_chat_that_was_stopped_goes_on_in_the_foreground),
        TEST(ctrl_z_during_an_answer_gives_the_terminal_back_meanwhile),
        TEST(no_end_leaves_the_terminal_as_an_editor_wants_it),
        TEST(bad_utf8_and_unknown_commands_are_told_and_not_sent),
        TEST(the_history_outlives_the_chat_for_its_user_alone),
        TEST(a_terminal_that_can_do_little_gives_plain_lines_and_cuts_none),
        TEST(an_answer_cannot_steer_the_terminal),
        TEST(the_figures_of_a_later_turn_count_what_was_computed),
    };
    return cmocka_run_group_tests_name("a chat at a terminal", tests, begin, cluster_group_end);
}
