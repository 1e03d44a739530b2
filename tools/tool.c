/* The functions that the commands share: words on failure, JSON, files, progress, signals. */
#include "tools/tool.h"
#include "base/cache_files.h"
#include "base/num.h"
#include "base/wait.h"
#include "model/model.h"
#include "model/vocab.h"
#include "tools/show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tool_stop;

int tool_fail(const char *command, const bt_fault *fault)
{
    bt_wait_end();
    fprintf(stderr, "baton %s: ", command);
    tool_show(stderr, fault->text, strlen(fault->text));
    fputc('\n', stderr);
    return 1;
}

int tool_print_json(const char *command, json_t *object)
{
    const int bad = !object || json_dumpf(object, stdout, JSON_REAL_PRECISION(9)) < 0 ||
                    putchar('\n') == EOF || bt_opt_flush() != 0;
    json_decref(object);
    if (bad && !ferror(stdout)) fprintf(stderr, "baton %s: out of memory\n", command);
    return bad;
}

bt_err tool_read_file(char **ret, size_t *ret_len, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    char *text = NULL;
    size_t len = 0, cap = 0;
    const int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
    for (;;) {
        if (cap - len < 2) {
            cap = cap ? cap * 2 : 1 << 16;
            char *more = realloc(text, cap);
            if (!more) {
                e = bt_fail(fault, BT_ENOMEM, "out of memory reading '%s'", path);
                goto out;
            }
            text = more;
        }
        const ssize_t n = read(fd, text + len, cap - len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            e = bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
            goto out;
        }
        if (n == 0) break;
        len += (size_t)n;
        if (len > TOOL_MAX_INPUT_BYTES) {
            e = bt_fail(fault, BT_ELIMIT, "'%s' is longer than the limit of %d bytes", path,
                        TOOL_MAX_INPUT_BYTES);
            goto out;
        }
    }
    text[len] = '\0';
    *ret = text;
    *ret_len = len;
    text = NULL;
out:
    free(text);
    if (fd != STDIN_FILENO) close(fd);
    return e;
}

bt_err tool_read_key(char **ret, const char *path, bt_fault *fault)
{
    size_t len;
    if (!path) {
        *ret = NULL;
        return BT_OK;
    }
    const bt_err e = tool_read_file(ret, &len, path, fault);
    if (e == BT_OK) (*ret)[strcspn(*ret, " \t\r\n")] = '\0'; /* a gateway's file has fields behind the key */
    return e;
}

void tool_free_key(char *key)
{
    if (key) explicit_bzero(key, strlen(key));
    free(key);
}

bt_err tool_open_model(bt_model **ret, bt_tokenizer **ret_tok, const char *name, bt_fault *fault)
{
    char path[4096];
    bt_model *m = NULL;
    bt_err e = bt_model_find(path, sizeof path, name, fault);
    if (e < 0) return e;
    bt_wait_tell(NULL, BT_MODEL_OPENING, 0, 0);
    e = bt_model_open(&m, path, fault);
    if (e == BT_OK && ret_tok) e = bt_vocab_load(ret_tok, m->file, fault);
    bt_wait_end();
    if (e < 0) bt_model_close(m);
    else *ret = m;
    return e;
}

void tool_tell_tokens(const bt_tokenizer *tok)
{
    const char *remark = tok ? bt_tokenizer_remark(tok) : NULL;
    const uint64_t n = tok ? bt_tokenizer_left_out_bytes(tok) : 0;
    if (remark || n > 0) bt_wait_end();
    if (remark) fprintf(stderr, "baton: model file: %s\n", remark);
    if (n == 0) return;
    fprintf(stderr, "baton: %llu byte%s of the text %s left out: the vocabulary has no token for %s\n",
            (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are", n == 1 ? "it" : "them");
}

void tool_hex16(char ret[33], const uint8_t bytes[16])
{
    for (size_t i = 0; i < 16; i++) snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

void tool_quiet(bool is_quiet)
{
    if (is_quiet) bt_wait_setup(BT_WAIT_SILENT);
}

/* Says which files went to make room; half-made ones that are deleted are not worth a line. */
static void say_gone(void *ud, const char *text)
{
    (void)ud;
    bt_wait_end();
    fprintf(stderr, "%s\n", text);
}

void tool_cache_setup(uint64_t limit_bytes, bool quiet)
{
    bt_cache_files_setup(limit_bytes, quiet ? NULL : say_gone, NULL);
}

static volatile sig_atomic_t leave_rc, is_seen; /* is_seen: stderr is a terminal, whose line has begun */

static void note(int sig) { tool_stop = sig; }

static void leave(int sig)
{
    (void)sig;
    if (is_seen) (void)!write(STDERR_FILENO, "\n", 1);
    _exit(leave_rc);
}

static void on_signals(void (*fn)(int))
{
    const struct sigaction on = {.sa_handler = fn}; /* no SA_RESTART: a blocking read shall return */
    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
}

void tool_catch_signals(void) { on_signals(note); }

void tool_leave_on_signals(int rc)
{
    leave_rc = rc;
    is_seen = isatty(STDERR_FILENO);
    on_signals(leave);
    if (tool_stop) leave(tool_stop); /* the signal came before */
}
