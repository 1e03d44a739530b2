#ifndef BT_TOOLS_TOOL_H
#define BT_TOOLS_TOOL_H
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/opt.h"
#include "text/tokenizer.h"

typedef struct bt_model bt_model; /* model/model.h */

/* The commands of `baton`, and what they share. Each command is one file with its option table, its program and its run
 * function, which returns an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. */
extern const bt_opt_commands tool_commands;

extern const bt_opt_program tool_bench_program, tool_cache_program, tool_calibrate_program, tool_chat_program,
    tool_compare_program, tool_compile_program, tool_inspect_program, tool_keygen_program, tool_list_program,
    tool_padding_program, tool_perplexity_program, tool_plan_program, tool_price_program, tool_profiles_program,
    tool_pull_program, tool_replay_program, tool_rm_program, tool_role_program, tool_roofline_program, tool_run_program,
    tool_simulate_program, tool_status_program, tool_timeline_program, tool_tokenize_program, tool_trace_program,
    tool_up_program;
int tool_bench_run(int argc, char **argv);
int tool_cache_run(int argc, char **argv);
int tool_calibrate_run(int argc, char **argv);
int tool_chat_run(int argc, char **argv);
int tool_compare_run(int argc, char **argv);
int tool_compile_run(int argc, char **argv);
int tool_inspect_run(int argc, char **argv);
int tool_keygen_run(int argc, char **argv);
int tool_list_run(int argc, char **argv);
int tool_padding_run(int argc, char **argv);
int tool_perplexity_run(int argc, char **argv);
int tool_plan_run(int argc, char **argv);
int tool_price_run(int argc, char **argv);
int tool_profiles_run(int argc, char **argv);
int tool_pull_run(int argc, char **argv);
int tool_replay_run(int argc, char **argv);
int tool_rm_run(int argc, char **argv);
int tool_role_run(int argc, char **argv);
int tool_roofline_run(int argc, char **argv);
int tool_run_run(int argc, char **argv);
int tool_simulate_run(int argc, char **argv);
int tool_status_run(int argc, char **argv);
int tool_timeline_run(int argc, char **argv);
int tool_tokenize_run(int argc, char **argv);
int tool_trace_run(int argc, char **argv);
int tool_up_run(int argc, char **argv);

enum { TOOL_INTERRUPTED = 130, TOOL_MAX_INPUT_BYTES = 64 << 20 };

/* "baton run: words" on stderr; returns 1, so that failing is one statement. */
int tool_fail(const char *command, const bt_fault *fault);
/* One JSON object and a newline on stdout; takes the reference. Returns 0, or 1 when memory is out, with words, or when
 * stdout cannot be written, which bt_opt_end says. */
int tool_print_json(const char *command, json_t *object);
/* The whole of a file, "-" for stdin, NUL-terminated, at most TOOL_MAX_INPUT_BYTES; the caller frees. */
bt_err tool_read_file(char **ret, size_t *ret_len, const char *path, bt_fault *fault);
/* An API key or token: the first word of a file; NULL path gives NULL. Wiped and freed by tool_free_key (NULL is fine).
 */
bt_err tool_read_key(char **ret, const char *path, bt_fault *fault);
void tool_free_key(char *key);
/* Opens a GGUF file by path or well-known name, with its tokenizer where ret_tok is not NULL. */
bt_err tool_open_model(bt_model **ret, bt_tokenizer **ret_tok, const char *name, bt_fault *fault);
/* On stderr, where there is something to tell of tok, which may be NULL: its remark, and "baton: 3 bytes of the text
 * are left out: ..." of the bytes so far. */
void tool_tell_tokens(const bt_tokenizer *tok);
/* 16 bytes as 32 hex digits and a NUL. */
void tool_hex16(char ret[33], const uint8_t bytes[16]);

/* base/wait.h says on stderr what a command waits for; after tool_quiet(true) it does not. */
void tool_quiet(bool is_quiet);
/* Takes the value of --cache-limit (BT_CACHE_LIMIT_OPT). Files that go for it are named on stderr, unless quiet. */
void tool_cache_setup(uint64_t limit_bytes, bool quiet);

/* SIGINT and SIGTERM set tool_stop to their number instead of ending the process (run, chat). */
extern volatile sig_atomic_t tool_stop;
void tool_catch_signals(void);
/* SIGINT and SIGTERM end the process at once, with this exit code: for the time while nothing is open but files that
 * are read or made. A file that is left half made is deleted by whoever makes it next. */
void tool_leave_on_signals(int rc);
#endif
