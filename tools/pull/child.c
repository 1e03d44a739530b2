/* A program of the system that works for a command. */
#include "tools/pull/child.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PIECE = 1 << 16 };

/* The environment with one setting more, in front, where the first of two counts. NULL: out of memory. */
static const char **environment(const char *setting)
{
    size_t n = 0, at = 0;
    while (environ[n]) n++;
    const char **env = malloc((n + 2) * sizeof *env);
    if (!env) return NULL;
    const size_t name = setting ? strcspn(setting, "=") + 1 : 0;
    if (setting) env[at++] = setting;
    for (size_t i = 0; i < n; i++)
        if (!setting || strncmp(environ[i], setting, name) != 0) env[at++] = environ[i];
    env[at] = NULL;
    return env;
}

/* The child, up to its program. */
static _Noreturn void become(const char *const *argv, const char **env, int out, int err, pid_t parent)
{
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && none >= 0 && dup2(none, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0)
        execvpe(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
    _exit(TOOL_CHILD_NOT_FOUND);
}

typedef struct streams {
    struct pollfd fd[2]; /* stdout, stderr; -1: at its end */
    tool_child_fn *out;
    void *ud;
    bt_buf *said;
    uint8_t piece[PIECE];
} streams;

static bt_err take(streams *s, int i, bt_fault *fault)
{
    const ssize_t n = read(s->fd[i].fd, s->piece, sizeof s->piece);
    if (n < 0 && errno == EINTR) return BT_OK;
    if (n <= 0) {
        close(s->fd[i].fd);
        s->fd[i].fd = -1;
    } else if (i == 0 && s->out) {
        return s->out(s->ud, s->piece, (size_t)n, fault);
    } else {
        (void)bt_buf_add(s->said, s->piece, (size_t)n); /* for people: what does not fit is left out */
    }
    return BT_OK;
}

/* Until both streams are at their end. */
static bt_err listen_to(streams *s, const char *name, int64_t limit_ms, bt_fault *fault)
{
    const int64_t end_ms = bt_clock_ms() + limit_ms;
    bt_err e = BT_OK;
    while (e == BT_OK && (s->fd[0].fd >= 0 || s->fd[1].fd >= 0)) {
        const int64_t left_ms = end_ms - bt_clock_ms();
        if (left_ms <= 0)
            return bt_fail(fault, BT_ELIMIT, "%s took more than %lld s", name, (long long)(limit_ms / 1000));
        if (poll(s->fd, 2, left_ms < 1000 ? (int)left_ms : 1000) < 0 && errno != EINTR)
            return bt_fail(fault, BT_EIO, "cannot wait for %s: %s", name, strerror(errno));
        for (int i = 0; e == BT_OK && i < 2; i++)
            if (s->fd[i].fd >= 0 && s->fd[i].revents) e = take(s, i, fault);
    }
    return e;
}

static int status_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return TOOL_CHILD_NOT_FOUND;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bt_err tool_child_run(int *ret_status, const char *const *argv, const char *setting, tool_child_fn *out,
                      void *ud, bt_buf *said, int64_t limit_ms, bt_fault *fault)
{
    int to[2] = {-1, -1}, err[2] = {-1, -1};
    const pid_t parent = getpid();
    const char **env = environment(setting);
    streams *s = malloc(sizeof *s);
    bt_err e = BT_OK;
    pid_t pid = -1;
    if (!env || !s) e = bt_fail(fault, BT_ENOMEM, "out of memory starting %s", argv[0]);
    else if (pipe2(to, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        e = bt_fail(fault, BT_EIO, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) become(argv, env, to[1], err[1], parent);
    if (to[1] >= 0) close(to[1]);
    if (err[1] >= 0) close(err[1]);
    if (e == BT_OK) {
        *s = (streams){.fd = {{to[0], POLLIN, 0}, {err[0], POLLIN, 0}}, .out = out, .ud = ud, .said = said};
        e = listen_to(s, argv[0], limit_ms, fault);
        if (e < 0) (void)kill(pid, SIGKILL);
        *ret_status = status_of(pid);
        to[0] = s->fd[0].fd;
        err[0] = s->fd[1].fd;
    }
    if (to[0] >= 0) close(to[0]);
    if (err[0] >= 0) close(err[0]);
    free(s);
    free(env);
    return e;
}
