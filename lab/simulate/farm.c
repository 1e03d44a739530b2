/* One pipe a process; a line that begins with '!' is why it failed. See farm.h. */
#include "lab/simulate/farm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 1024, MOST_JOBS = 256 };

typedef struct hand {
    pid_t pid; /* 0: none */
    int from;
    char text[LINE + 1];
    size_t len;
} hand;

bt_err tool_simulate_say(int to, const char *line, bt_fault *fault)
{
    for (size_t len = strlen(line); len > 0;) {
        const ssize_t n = write(to, line, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return bt_fail(fault, BT_EIO, "a pipe: %s", strerror(errno));
        line += n;
        len -= (size_t)n;
    }
    return BT_OK;
}

static bt_err hire(const tool_simulate_farm *f, hand *h, uint32_t piece, bt_fault *fault)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return bt_fail(fault, BT_EIO, "a pipe: %s", strerror(errno));
    (void)fflush(NULL); /* what is buffered is said once */
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return bt_fail(fault, BT_EIO, "a process: %s", strerror(errno));
    }
    if (pid == 0) {
        bt_fault why = {""};
        char line[sizeof why.text + 8];
        close(ends[0]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever ends the sweep ends its processes */
        if (getppid() != parent) _exit(1);
        const bt_err e = f->work(f->ud, piece, ends[1], &why);
        (void)snprintf(line, sizeof line, "!%s\n", why.text);
        if (e < 0) (void)tool_simulate_say(ends[1], line, NULL);
        _exit(e < 0);
    }
    close(ends[1]);
    *h = (hand){.pid = pid, .from = ends[0]};
    return BT_OK;
}

/* Whole lines out of what came. */
static bt_err hear(const tool_simulate_farm *f, hand *h, bt_fault *fault)
{
    char *end, line[LINE + 1];
    bt_err e = BT_OK;
    while (e == BT_OK && (end = memchr(h->text, '\n', h->len))) {
        const size_t len = (size_t)(end - h->text) + 1;
        memcpy(line, h->text, len);
        line[len] = 0;
        h->len -= len;
        memmove(h->text, h->text + len, h->len);
        if (line[0] == '!') {
            line[len - 1] = 0;
            return bt_fail(fault, BT_EIO, "%.300s", line + 1);
        }
        e = f->line(f->ud, line, fault);
    }
    if (e == BT_OK && h->len == LINE) e = bt_fail(fault, BT_EIO, "a line of more than %d bytes", LINE);
    return e;
}

/* Its process has ended. */
static bt_err dismiss(hand *h, bt_fault *fault)
{
    int status = 0;
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR) continue;
    close(h->from);
    h->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return BT_OK;
    return bt_fail(fault, BT_EIO, "a process of the sweep ended by %s %d",
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static bt_err read_some(const tool_simulate_farm *f, hand *h, bt_fault *fault)
{
    const ssize_t n = read(h->from, h->text + h->len, LINE - h->len);
    if (n < 0) return errno == EINTR ? BT_OK : bt_fail(fault, BT_EIO, "a pipe: %s", strerror(errno));
    if (n == 0) return dismiss(h, fault);
    h->len += (size_t)n;
    return hear(f, h, fault);
}

bt_err tool_simulate_farm_run(const tool_simulate_farm *f, const uint32_t *piece, size_t n, bt_fault *fault)
{
    const uint32_t jobs = f->jobs > MOST_JOBS ? MOST_JOBS : f->jobs;
    hand *h = calloc(jobs, sizeof *h);
    struct pollfd *fds = calloc(jobs, sizeof *fds);
    size_t next = 0;
    bool goes_on = true;
    bt_err e = h && fds ? BT_OK : bt_fail(fault, BT_ENOMEM, "a sweep");
    while (e == BT_OK && goes_on) {
        goes_on = next < n;
        for (uint32_t i = 0; e == BT_OK && i < jobs; i++) {
            if (!h[i].pid && next < n) e = hire(f, &h[i], piece[next++], fault);
            fds[i] = (struct pollfd){.fd = h[i].pid ? h[i].from : -1, .events = POLLIN};
            goes_on |= h[i].pid != 0;
        }
        if (e < 0 || !goes_on || poll(fds, jobs, -1) <= 0) continue;
        for (uint32_t i = 0; e == BT_OK && i < jobs; i++)
            if (fds[i].revents) e = read_some(f, &h[i], fault);
    }
    for (uint32_t i = 0; h && i < jobs; i++) {
        if (!h[i].pid) continue;
        (void)kill(h[i].pid, SIGTERM);
        (void)dismiss(&h[i], NULL);
    }
    free(h);
    free(fds);
    return e;
}
