/* See background.h. The child prints its URL in the same line that people see: "ready http://HOST:PORT". */
#include "tools/cluster/background.h"
#include "base/exec.h"
#include "base/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_TIMEOUT_MS = 600 * 1000, STEP_MS = 100 };

static _Noreturn void become_up(const char *program, const tool_command *up, int out, pid_t parent)
{
    /* Meant for a gateway that other machines reach; this one serves its own command alone. */
    static const char *const others[] = {"BATON_TLS_CERT", "BATON_TLS_KEY"};
    const char *args[TOOL_COMMAND_MAX_ARGS + 3] = {"baton", "up"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) (void)unsetenv(others[i]);
    for (size_t i = 0; i < up->args; i++) args[i + 2] = up->arg[i];
    sigset_t none;
    sigemptyset(&none);
    (void)signal(SIGINT, SIG_DFL); /* before signals come through again: this process's handler would swallow
                                      one that is for `up` */
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0) _exit(1); /* the parent may be gone already */
    bt_exec(program, args);
    _exit(127);
}

/* Read the child's stdout until its ready line; the URL goes to b->url. */
static bt_err wait_ready(tool_background *b, int fd, const volatile sig_atomic_t *stop, bt_fault *fault)
{
    char line[512];
    size_t have = 0;
    for (int waited = 0; waited < START_TIMEOUT_MS; waited += STEP_MS) {
        if (stop && *stop) return bt_fail(fault, BT_ECANCEL, "interrupted");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, STEP_MS) <= 0) continue;
        const ssize_t n = read(fd, line + have, sizeof line - 1 - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return bt_fail(fault, BT_EIO, "the nodes did not start; what they wrote is above");
        have += (size_t)n;
        line[have] = '\0';
        char *nl = strchr(line, '\n');
        if (!nl && have < sizeof line - 1) continue;
        if (nl && sscanf(line, "ready %255s", b->url) == 1) return BT_OK;
        return bt_fail(fault, BT_EIO, "'baton up' wrote an unexpected line: '%.60s'", line);
    }
    return bt_fail(fault, BT_EIO, "the nodes were not ready within %d s", START_TIMEOUT_MS / 1000);
}

bt_err tool_background_start(tool_background *ret, const tool_command *up, const volatile sig_atomic_t *stop,
                             bt_fault *fault)
{
    char program[4096];
    int out[2];
    bt_err e = up->overflow
                   ? bt_fail(fault, BT_ELIMIT,
                             "the command of a process has too many options, or one longer than %d bytes",
                             TOOL_COMMAND_ARG_BYTES - 1)
                   : tool_program_dir(program, sizeof program - 8, fault);
    if (e < 0) return e;
    strcat(program, "/baton");
    if (pipe2(out, O_CLOEXEC) < 0) return bt_fail(fault, BT_EIO, "cannot make a pipe: %s", strerror(errno));
    const pid_t parent = getpid();
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, &before);
    tool_background b = {.pid = fork()};
    if (b.pid == 0) become_up(program, up, out[1], parent);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    close(out[1]);
    if (b.pid < 0) {
        close(out[0]);
        return bt_fail(fault, BT_EIO, "cannot start a process: %s", strerror(errno));
    }
    e = wait_ready(&b, out[0], stop, fault);
    close(out[0]);
    if (e < 0) tool_background_stop(&b);
    else *ret = b;
    return e;
}

void tool_background_stop(tool_background *b)
{
    if (b->pid <= 0) return;
    bt_wait_tell(NULL, "stopping the nodes", 0, 0);
    (void)kill(b->pid, SIGTERM);
    while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
        (void)kill(b->pid, SIGTERM); /* the second request: the gateway then drains no longer */
    bt_wait_end();
    b->pid = 0;
}
