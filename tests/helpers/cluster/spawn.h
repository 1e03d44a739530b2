#ifndef TESTS_SPAWN_H
#define TESTS_SPAWN_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The real programs as child processes of a test. Their stdout and stderr go to files in a private directory, which is
 * also their TMPDIR. A child dies with the test program, whatever happens to it; grandchildren whose parent has died
 * become ours, so that a test can see whether anything is left running. Failures of the helper itself abort the test
 * program. */
typedef struct spawn spawn;

/* Before the first test and after the last: the directory, the environment, and who gets orphans. */
void spawn_setup(void);
void spawn_cleanup(void);
/* Both as fixtures of a group of tests. */
int spawn_group_begin(void **state);
int spawn_group_end(void **state);
/* A test's teardown: kills and forgets every child; fails when one was not clean. */
int spawn_teardown(void **state);

/* dir/name, in one of a few static buffers. */
const char *spawn_path(const char *name);
/* Writes the text into that file, and returns the path. */
const char *spawn_write(const char *path, const char *text);
/* A little model (tiny_gguf.h) in that directory, made once for each seed: 2 layers, context of 1024, chat template. */
const char *spawn_tiny_model(uint64_t seed);
/* The same, whose numbers overflow f16 KV at the character '|', its token 127. */
enum { SPAWN_HOT_TOKEN = 127 };
const char *spawn_hot_model(void);
/* The same with a context of 16384: time enough for something to happen during an answer. */
const char *spawn_long_model(void);
/* The same by this architecture, which has windows or may have them, gpt-oss with weights in MXFP4: 7 layers with a
 * window of SPAWN_WINDOW tokens, but those that see all; of gemma3 one, the sixth. */
enum { SPAWN_WINDOW = 64, SPAWN_WINDOW_LAYERS = 6 };
const char *spawn_window_model(const char *arch);
/* Entries of the directory that begin with "baton-": private directories of `baton up`. */
size_t spawn_count_leftovers(void);

/* argv[0] is one of our programs, looked for in $BATON_BIN, or a whole path. NULL ends the list. */
spawn *spawn_start(const char *const *argv);
#define SPAWN(...) spawn_start((const char *const[]){__VA_ARGS__, NULL})

/* The same at a terminal of its own, 80 columns by 24 rows: its stdin, stdout and stderr. The text that it writes, with
 * the terminal's echo, is its spawn_out and its spawn_err. term: the value of TERM; NULL: not set. */
spawn *spawn_in_terminal(const char *term, const char *const *argv);
/* Types n bytes at its terminal. */
void spawn_type(spawn *s, const char *bytes, size_t n);
/* The terminal echoes and gives lines, as a shell wants to find it. */
bool spawn_terminal_is_cooked(const spawn *s);

pid_t spawn_pid(const spawn *s);
void spawn_signal(const spawn *s, int signo);
/* The exit code, or 128 + signal; -1 when it has not ended within ms. */
int spawn_wait(spawn *s, int64_t ms);
/* The JSON that it wrote when it ended well within two minutes, the caller's; anything else aborts, with its words. */
json_t *spawn_json(spawn *s);
/* The text that it has written so far, NUL-terminated; valid until the next call for the same stream. */
const char *spawn_out(spawn *s);
const char *spawn_err(spawn *s);
/* No sanitizer has found anything in it or in the programs that it started; false with their words on stdout. The
 * teardown looks too. */
bool spawn_is_clean(spawn *s);
/* Wait until the stream contains the text; false when that has not come, or the program has ended without it, within
 * ms. */
bool spawn_wait_out(spawn *s, const char *text, int64_t ms);
bool spawn_wait_err(spawn *s, const char *text, int64_t ms);
/* Wait until no process is left below us (all children ended and reaped). */
bool spawn_wait_all_gone(int64_t ms);

int64_t spawn_now_ms(void);
void spawn_nap(void); /* a few milliseconds between two looks at something that is to become true */
/* ms, or as many times more as a sanitizer makes programs slower. */
int64_t spawn_patience(int64_t ms);
bool spawn_is_sanitized(void);
/* True until cond or the deadline: for (int64_t end = ...; !(cond) && spawn_before(end);) */
bool spawn_before(int64_t end_ms);
#endif
