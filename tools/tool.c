/* What the commands share: words on failure, JSON, files, progress, signals. */
#include "tools/tool.h"
#include "base/log.h"
#include "model/vocab.h"
#include "tools/show.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tool_stop;

int tool_fail(const char *command, const bt_fault *fault)
{
    fprintf(stderr, "baton %s: ", command);
    tool_show(stderr, fault->text, strlen(fault->text));
    fputc('\n', stderr);
    return 1;
}

int tool_print_json(const char *command, json_t *object)
{
    const int bad = !object || json_dumpf(object, stdout, JSON_REAL_PRECISION(9)) < 0 ||
                    putchar('\n') == EOF || fflush(stdout) != 0;
    json_decref(object);
    if (bad) fprintf(stderr, "baton %s: cannot write to stdout\n", command);
    return bad;
}

bt_err tool_read_file(char **ret, size_t *ret_len, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    char *text = NULL;
    size_t len = 0, cap = 0;
    const int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "open '%s': %s", path, strerror(errno));
    for (;;) {
        if (cap - len < 2) {
            cap = cap ? cap * 2 : 1 << 16;
            char *more = realloc(text, cap);
            if (!more) {
                e = bt_fail(fault, BT_ENOMEM, "reading '%s'", path);
                goto out;
            }
            text = more;
        }
        const ssize_t n = read(fd, text + len, cap - len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            e = bt_fail(fault, BT_EIO, "read '%s': %s", path, strerror(errno));
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

bt_err tool_open_model(bt_model **ret, bt_tokenizer **ret_tok, const char *name, bt_fault *fault)
{
    char path[4096];
    bt_model *m = NULL;
    bt_err e = bt_model_find(path, sizeof path, name, fault);
    if (e < 0 || (e = bt_model_open(&m, path, fault)) < 0) return e;
    if (ret_tok && (e = bt_vocab_load(ret_tok, m->file, fault)) < 0) {
        bt_model_close(m);
        return e;
    }
    *ret = m;
    return BT_OK;
}

void tool_hex16(char ret[33], const uint8_t bytes[16])
{
    for (size_t i = 0; i < 16; i++) snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

void tool_size_text(char *ret, size_t cap, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    if (u == 0) snprintf(ret, cap, "%" PRIu64 " B", bytes);
    else snprintf(ret, cap, "%.1f %s", v, unit[u]);
}

void tool_progress(bool quiet, const char *fmt, ...)
{
    if (quiet || !isatty(STDERR_FILENO)) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
}

void tool_progress_end(bool quiet)
{
    if (!quiet && isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

void tool_progress_compiling(void *ud, const char *stage, uint64_t done, uint64_t total)
{
    tool_compiling *c = ud;
    if (tool_stop) {
        tool_progress_end(c->quiet);
        exit(c->interrupted);
    }
    if (c->logs && !isatty(STDERR_FILENO)) {
        if (strncmp(c->stage, stage, sizeof c->stage - 1) == 0) return;
        snprintf(c->stage, sizeof c->stage, "%s", stage);
        bt_log(BT_LOG_INFO, "compiling the package of this model, once: %s", stage);
        return;
    }
    if (total > 1) tool_progress(c->quiet, "compiling: %s %" PRIu64 "/%" PRIu64, stage, done, total);
    else tool_progress(c->quiet, "compiling: %s", stage);
}

static void on_signal(int sig) { tool_stop = sig; }

void tool_catch_signals(void)
{
    const struct sigaction on = {.sa_handler = on_signal}; /* no SA_RESTART: a blocking read shall return */
    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
}
