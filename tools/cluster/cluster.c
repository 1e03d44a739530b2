/* See cluster.h. One thread: the event loop watches a descriptor for each child's end, one for readiness,
 * and signals. */
#include "tools/cluster/cluster.h"
#include "base/clock.h"
#include "base/exec.h"
#include "base/log.h"
#include "rt/loop.h"
#include "rt/notify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_MS = 5000, PATH_BYTES = 4096, URL_BYTES = 256, LONGEST_WAIT_MS = 3600 * 1000 };

typedef struct cluster cluster;
typedef struct child {
    cluster *owner;
    size_t index;
    pid_t pid;
    int pidfd;
    uint64_t watch;
} child;

struct cluster {
    const tool_cluster_config *config;
    tool_supervise plan;
    bt_loop *loop;
    uint64_t timer;
    int notify_fd;
    char notify_path[PATH_BYTES], program_dir[PATH_BYTES], url[URL_BYTES];
    child child[TOOL_SUPERVISE_MAX];
    bool over;
};

bt_err tool_cluster_make_dir(char *ret, size_t cap, bt_fault *fault)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!base || !*base || access(base, W_OK) != 0) base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    const int n = snprintf(ret, cap, "%s/baton-XXXXXX", base);
    if (n < 0 || (size_t)n >= cap || n > 80) /* a unix socket's path has 107 bytes at most */
        return bt_fail(fault, BT_ELIMIT, "the path '%s' is too long for sockets; set TMPDIR to a shorter one",
                       base);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    if (!mkdtemp(ret))
        return bt_fail(fault, BT_EIO, "cannot make a private folder under '%s': %s", base, strerror(errno));
    return BT_OK;
}

void tool_cluster_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    (void)rmdir(dir);
}

static _Noreturn void become(const cluster *c, const tool_command *command, pid_t parent)
{
    char program[PATH_BYTES + 64];
    const char *argv[TOOL_COMMAND_MAX_ARGS + 2] = {command->program};
    for (size_t i = 0; i < command->args; i++) argv[i + 1] = command->arg[i];
    snprintf(program, sizeof program, "%s/%s", c->program_dir, command->program);
    sigset_t none;
    sigemptyset(&none);
    (void)signal(SIGINT, SIG_DFL); /* before signals come through again: a handler of `up` would swallow one
                                      that is for the child */
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0); /* `up` passes Ctrl-C on */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    (void)setenv("NOTIFY_SOCKET", c->notify_path, 1);
    bt_exec(program, argv);
    fprintf(stderr, "baton up: cannot start %s: %s\n", program, strerror(errno));
    _exit(1);
}

static void advance(cluster *c);

static void on_child_end(void *ud, unsigned events)
{
    child *k = ud;
    cluster *c = k->owner;
    int status = 0;
    (void)events;
    if (waitpid(k->pid, &status, WNOHANG) != k->pid) return;
    bt_loop_remove(c->loop, k->watch);
    close(k->pidfd);
    k->pid = 0;
    if (!c->plan.stopping) {
        if (WIFSIGNALED(status))
            bt_log(BT_LOG_WARN, "%s was killed by signal %d", c->config->commands[k->index].program,
                   WTERMSIG(status));
        else
            bt_log(BT_LOG_WARN, "%s ended with status %d", c->config->commands[k->index].program,
                   WEXITSTATUS(status));
    }
    tool_supervise_ended(&c->plan, k->index, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
                         bt_clock_ms());
    advance(c);
}

static void start(cluster *c, size_t index)
{
    child *k = &c->child[index];
    const pid_t parent = getpid();
    *k = (child){.owner = c, .index = index, .pidfd = -1};
    k->pid = fork();
    if (k->pid == 0) become(c, &c->config->commands[index], parent);
    if (k->pid > 0) k->pidfd = (int)syscall(SYS_pidfd_open, k->pid, 0);
    if (k->pidfd >= 0 && bt_loop_add_fd(&k->watch, c->loop, k->pidfd, BT_LOOP_IN, on_child_end, k) == BT_OK)
        return;
    bt_log(BT_LOG_ERROR, "cannot start %s: %s", c->config->commands[index].program, strerror(errno));
    if (k->pid > 0) {
        (void)kill(k->pid, SIGKILL);
        (void)waitpid(k->pid, NULL, 0);
    }
    if (k->pidfd >= 0) close(k->pidfd);
    k->pid = 0;
    tool_supervise_ended(&c->plan, index, -SIGKILL, bt_clock_ms());
}

/* Carry out everything that is to be done now, then sleep until the next due time. */
static void advance(cluster *c)
{
    tool_action a;
    while (tool_supervise_next(&a, &c->plan, bt_clock_ms())) {
        if (a.act == TOOL_ACT_START) start(c, a.child);
        else if (c->child[a.child].pid > 0)
            (void)kill(c->child[a.child].pid, a.act == TOOL_ACT_TERM ? SIGTERM : SIGKILL);
    }
    c->over = tool_supervise_over(&c->plan);
    const int64_t due_ms = tool_supervise_due_ms(&c->plan), wait_ms = due_ms - bt_clock_ms();
    bt_loop_set_timer(c->loop, c->timer, due_ms < 0 ? LONGEST_WAIT_MS : wait_ms > 0 ? wait_ms : 0);
}

static void on_timer(void *ud, unsigned events)
{
    (void)events;
    advance(ud);
}

static void on_signal(void *ud, int signo)
{
    cluster *c = ud;
    if (signo == SIGHUP) /* nodes and gateway read the allow list again */
        for (size_t i = 0; i < c->config->count; i++)
            if (c->child[i].pid > 0) (void)kill(c->child[i].pid, SIGHUP);
    if (signo != SIGINT && signo != SIGTERM) return;
    if (c->plan.stopping) bt_log(BT_LOG_WARN, "second signal: leaving at once");
    else
        bt_log(BT_LOG_WARN,
               "stopping: requests have %g s to end; a second Ctrl-C (or SIGTERM) leaves at once",
               (double)c->config->drain_ms / 1e3);
    tool_supervise_stop(&c->plan, bt_clock_ms());
    advance(c);
}

/* A gateway that was restarted on a port of the system's choice takes the same port again. */
static void keep_port(cluster *c)
{
    tool_command *g = &c->config->commands[0];
    const char *colon = strrchr(c->url, ':');
    for (size_t i = 0; colon && i + 1 < g->args; i++)
        if (strcmp(g->arg[i], "--port") == 0) snprintf(g->arg[i + 1], sizeof g->arg[i + 1], "%s", colon + 1);
}

static void on_notify(void *ud, unsigned events)
{
    cluster *c = ud;
    bt_notify_msg msg;
    char value[8];
    (void)events;
    for (int budget = 64; budget > 0; budget--) {
        const bt_err e = bt_notify_recv(&msg, c->notify_fd);
        if (e == BT_EAGAIN) return;
        if (e < 0) continue;
        if (msg.pid != c->child[0].pid || c->plan.was_ready ||
            !bt_notify_get(value, sizeof value, &msg, "READY") || strcmp(value, "1") != 0 ||
            !bt_notify_get(c->url, sizeof c->url, &msg, "STATUS"))
            continue;
        tool_supervise_ready(&c->plan);
        keep_port(c);
        c->config->on_ready(c->config->ud, c->url);
    }
}

static bt_err open_loop(cluster *c, bt_fault *fault)
{
    uint64_t id;
    snprintf(c->notify_path, sizeof c->notify_path, "%s/notify", c->config->dir);
    bt_err e = tool_program_dir(c->program_dir, sizeof c->program_dir, fault);
    if (e == BT_OK) e = bt_loop_new(&c->loop, fault);
    if (e == BT_OK) e = bt_loop_on_signals(c->loop, on_signal, c, fault);
    if (e == BT_OK) e = bt_notify_listen(&c->notify_fd, c->notify_path, fault);
    if (e < 0) return e;
    if ((e = bt_loop_add_fd(&id, c->loop, c->notify_fd, BT_LOOP_IN, on_notify, c)) < 0 ||
        (e = bt_loop_add_timer(&c->timer, c->loop, 0, LONGEST_WAIT_MS, on_timer, c)) < 0)
        bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    return e;
}

bt_err tool_cluster_run(const tool_cluster_config *config, bt_fault *fault)
{
    cluster *c = calloc(1, sizeof *c);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for the processes to watch");
    c->config = config;
    c->notify_fd = -1;
    bt_err e = config->count <= TOOL_SUPERVISE_MAX
                   ? BT_OK
                   : bt_fail(fault, BT_ELIMIT, "%zu processes are too many: at most %d can be started",
                             config->count, TOOL_SUPERVISE_MAX);
    for (size_t i = 0; e == BT_OK && i < config->count; i++)
        if (config->commands[i].overflow)
            e = bt_fail(fault, BT_ELIMIT,
                        "the command of a process has too many options, or one longer than %d bytes",
                        TOOL_COMMAND_ARG_BYTES - 1);
    if (e == BT_OK) e = open_loop(c, fault);
    if (e == BT_OK) tool_supervise_init(&c->plan, config->count, config->drain_ms, GRACE_MS, bt_clock_ms());
    while (e == BT_OK && !c->over) e = bt_loop_step(c->loop, -1, fault);
    if (e == BT_OK && c->plan.failed)
        e = bt_fail(fault, BT_EIO, "a program did not start; what it wrote is above");
    bt_loop_end_signals();
    if (c->notify_fd >= 0) close(c->notify_fd);
    bt_loop_free(c->loop);
    free(c);
    return e;
}
