/* See spawn.h. */
#include "tests/helpers/cluster/spawn.h"
#include "base/exec.h"
#include "model/quant.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 8, IS_SANITIZED = 1 };
#else
enum { SLOWER = 1, IS_SANITIZED = 0 };
#endif
enum { PATH_BYTES = 512, MAX_ARGS = 64 };

struct spawn {
    spawn *next;
    pid_t pid;
    bool ended;
    int code;
    char out_path[PATH_BYTES], err_path[PATH_BYTES];
    char *out, *err;
    int terminal; /* our side of it; -1: none */
    size_t out_len;
};

static char dir[TEMP_FOLDER_BYTES];
static spawn *first;
static unsigned counter;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "spawn: %s: %s\n", what, strerror(errno));
    abort();
}

void spawn_setup(void)
{
    if (!temp_folder_new(dir)) die("a private directory");
    /* Packages are compiled once for all tests where the caller says where, else once for this program. */
    if (setenv("BATON_CACHE_DIR", dir, 0) < 0) die("environment");
    if (setenv("TMPDIR", dir, 1) < 0 || unsetenv("XDG_RUNTIME_DIR") < 0 || unsetenv("NOTIFY_SOCKET") < 0)
        die("environment");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) die("subreaper");
    setvbuf(stdout, NULL, _IOLBF, 0);
}

void spawn_cleanup(void)
{
    (void)spawn_teardown(NULL);
    (void)temp_folder_remove(dir);
}

const char *spawn_path(const char *name)
{
    static char path[4][2 * PATH_BYTES];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

const char *spawn_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) die(path);
    return path;
}

static const char *model(uint64_t seed, uint32_t ctx)
{
    char name[64];
    snprintf(name, sizeof name, "tiny-%llu-%u.gguf", (unsigned long long)seed, ctx);
    const char *path = spawn_path(name);
    if (access(path, R_OK) == 0) return path;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.ctx = ctx;
    spec.chat_template = tiny_gguf_chatml;
    spec.seed = seed;
    tiny_gguf_write(&spec, path);
    return path;
}

const char *spawn_hot_model(void)
{
    const char *path = spawn_path("tiny-hot.gguf");
    if (access(path, R_OK) == 0) return path;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.ctx = 1024;
    spec.chat_template = tiny_gguf_chatml;
    spec.hot_token = SPAWN_HOT_TOKEN, spec.hot_embed = 1000, spec.hot_k = 20000;
    tiny_gguf_write(&spec, path);
    return path;
}

const char *spawn_window_model(const char *arch)
{
    char name[64];
    snprintf(name, sizeof name, "tiny-window-%s.gguf", arch);
    const char *path = spawn_path(name);
    if (access(path, R_OK) == 0) return path;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.arch = arch;
    if (strcmp(arch, "gpt-oss") == 0) spec.type = BT_QUANT_MXFP4;
    spec.layers = SPAWN_WINDOW_LAYERS + 1;
    spec.window = SPAWN_WINDOW;
    spec.ctx = 16384;
    spec.chat_template = tiny_gguf_chatml;
    tiny_gguf_write(&spec, path);
    return path;
}

const char *spawn_tiny_model(uint64_t seed) { return model(seed, 1024); }
const char *spawn_long_model(void) { return model(1, 16384); }

size_t spawn_count_leftovers(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += strncmp(e->d_name, "baton-", 6) == 0;
    if (d) closedir(d);
    return n;
}

static _Noreturn void become(const char *program, const char *const *argv, const int std[3], pid_t parent)
{
    if (std[0] < 0 || std[1] < 0 || std[2] < 0) _exit(126);
    for (int i = 0; i < 3; i++)
        if (dup2(std[i], i) < 0) _exit(126);
    for (int i = 0; i < 3; i++)
        if (std[i] > 2)
            close(std[i]); /* one that stands there twice is closed once, and the other call fails */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    bt_exec(program, argv);
    _exit(127);
}

static spawn *new_spawn(char program[PATH_BYTES], const char *name)
{
    const char *bin = getenv("BATON_BIN");
    spawn *s = calloc(1, sizeof *s);
    if (!s) die("memory");
    if (name[0] == '/') snprintf(program, PATH_BYTES, "%s", name);
    else snprintf(program, PATH_BYTES, "%s/%s", bin && *bin ? bin : "bin", name);
    s->terminal = -1;
    s->next = first;
    first = s;
    return s;
}

spawn *spawn_start(const char *const *argv)
{
    char program[PATH_BYTES];
    spawn *s = new_spawn(program, argv[0]);
    snprintf(s->out_path, sizeof s->out_path, "%.480s/%u.out", dir, counter);
    snprintf(s->err_path, sizeof s->err_path, "%.480s/%u.err", dir, counter++);
    const pid_t parent = getpid();
    fflush(NULL);
    s->pid = fork();
    if (s->pid < 0) die("fork");
    if (s->pid == 0) {
        const int std[3] = {open("/dev/null", O_RDONLY),
                            open(s->out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600),
                            open(s->err_path, O_WRONLY | O_CREAT | O_TRUNC, 0600)};
        become(program, argv, std, parent);
    }
    return s;
}

spawn *spawn_in_terminal(const char *term, const char *const *argv)
{
    char program[PATH_BYTES];
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    int theirs;
    spawn *s = new_spawn(program, argv[0]);
    if (openpty(&s->terminal, &theirs, NULL, NULL, &size) < 0) die("a terminal");
    if (fcntl(s->terminal, F_SETFD, FD_CLOEXEC) < 0 || fcntl(s->terminal, F_SETFL, O_NONBLOCK) < 0)
        die("a terminal");
    const pid_t parent = getpid();
    fflush(NULL);
    s->pid = fork();
    if (s->pid < 0) die("fork");
    if (s->pid == 0) {
        if (setsid() < 0 || ioctl(theirs, TIOCSCTTY, 0) < 0) _exit(126);
        if (term ? setenv("TERM", term, 1) < 0 : unsetenv("TERM") < 0) _exit(126);
        become(program, argv, (const int[3]){theirs, theirs, theirs}, parent);
    }
    close(theirs);
    return s;
}

/* Takes what has come at the terminal since the last look. */
static void drain(spawn *s)
{
    char bytes[4096];
    for (ssize_t n; (n = read(s->terminal, bytes, sizeof bytes)) > 0;) {
        char *more = realloc(s->out, s->out_len + (size_t)n + 1);
        if (!more) die("memory");
        s->out = more;
        for (ssize_t i = 0; i < n; i++) s->out[s->out_len++] = bytes[i] ? bytes[i] : '0';
        s->out[s->out_len] = '\0';
    }
}

void spawn_type(spawn *s, const char *bytes, size_t n)
{
    for (const int64_t end = spawn_now_ms() + spawn_patience(20000); n > 0;) {
        const ssize_t done = write(s->terminal, bytes, n);
        if (done > 0) bytes += done, n -= (size_t)done;
        else if (errno != EAGAIN || !spawn_before(end)) die("typing");
        drain(s);
    }
}

bool spawn_terminal_is_cooked(const spawn *s)
{
    struct termios t;
    if (tcgetattr(s->terminal, &t) < 0) die("a terminal");
    return (t.c_lflag & ICANON) && (t.c_lflag & ECHO) && (t.c_iflag & ICRNL);
}

pid_t spawn_pid(const spawn *s) { return s->pid; }

void spawn_signal(const spawn *s, int signo)
{
    if (!s->ended) (void)kill(s->pid, signo);
}

static void note_end(spawn *s, int status)
{
    s->ended = true;
    s->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool has_ended(spawn *s)
{
    int status;
    if (!s->ended && waitpid(s->pid, &status, WNOHANG) == s->pid) note_end(s, status);
    return s->ended;
}

int64_t spawn_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void spawn_nap(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }
int64_t spawn_patience(int64_t ms) { return ms * SLOWER; }
bool spawn_is_sanitized(void) { return IS_SANITIZED; }

bool spawn_before(int64_t end_ms)
{
    spawn_nap();
    return spawn_now_ms() < end_ms;
}

int spawn_wait(spawn *s, int64_t ms)
{
    for (const int64_t end = spawn_now_ms() + ms; !has_ended(s) && spawn_before(end);) {}
    return has_ended(s) ? s->code : -1;
}

static const char *read_all(char **keep, const char *path)
{
    struct stat st;
    free(*keep);
    *keep = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ""; /* the child has not come so far */
    if (fstat(fd, &st) < 0 || !(*keep = malloc((size_t)st.st_size + 1))) die(path);
    const ssize_t n = pread(fd, *keep, (size_t)st.st_size, 0);
    close(fd);
    if (n < 0) die(path);
    (*keep)[n] = '\0';
    return *keep;
}

static const char *seen_at_terminal(spawn *s)
{
    drain(s);
    return s->out ? s->out : "";
}

const char *spawn_out(spawn *s)
{
    return s->terminal < 0 ? read_all(&s->out, s->out_path) : seen_at_terminal(s);
}

const char *spawn_err(spawn *s)
{
    return s->terminal < 0 ? read_all(&s->err, s->err_path) : seen_at_terminal(s);
}

json_t *spawn_json(spawn *s)
{
    const int rc = spawn_wait(s, spawn_patience(120000));
    json_t *j = rc == 0 ? json_loads(spawn_out(s), 0, NULL) : NULL;
    if (j) return j;
    fprintf(stderr, "exit %d, and no JSON: %s\n", rc, spawn_err(s));
    abort();
}

bool spawn_is_clean(spawn *s)
{
    const char *err = spawn_err(s);
    if (!strstr(err, "Sanitizer") && !strstr(err, ": runtime error: ")) return true;
    printf("%s\n", err);
    return false;
}

static bool wait_text(spawn *s, const char *(*stream)(spawn *), const char *text, int64_t ms)
{
    const int64_t limit = spawn_now_ms() + ms;
    for (bool last = false;; last = has_ended(s)) { /* after its end, one more look */
        if (strstr(stream(s), text)) return true;
        if (last || !spawn_before(limit)) break;
    }
    printf("'%s' did not come from process %d; it wrote:\n%s%s\n", text, (int)s->pid, spawn_out(s),
           spawn_err(s));
    return false;
}

bool spawn_wait_out(spawn *s, const char *text, int64_t ms) { return wait_text(s, spawn_out, text, ms); }
bool spawn_wait_err(spawn *s, const char *text, int64_t ms) { return wait_text(s, spawn_err, text, ms); }

bool spawn_wait_all_gone(int64_t ms)
{
    const int64_t end = spawn_now_ms() + ms;
    for (;;) {
        int status;
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0) return errno == ECHILD;
        for (spawn *s = first; pid > 0 && s; s = s->next)
            if (s->pid == pid && !s->ended) note_end(s, status);
        if (pid == 0 && !spawn_before(end)) return false;
    }
}

/* Orphans of children that died by force: PDEATHSIG has told them to go, but a stopped or hanging one
 * would stay. */
static void kill_below(int signo)
{
    char path[64], text[512];
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = 0, parent = 0;
        if (sscanf(e->d_name, "%d", &pid) != 1) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        const char *end = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        fclose(f);
        if (end && sscanf(end, ") %*c %d", &parent) == 1 && parent == getpid()) (void)kill(pid, signo);
    }
    if (d) closedir(d);
}

int spawn_group_begin(void **state)
{
    (void)state;
    spawn_setup();
    return 0;
}

int spawn_group_end(void **state)
{
    (void)state;
    spawn_cleanup();
    return 0;
}

int spawn_teardown(void **state)
{
    (void)state;
    for (spawn *s = first; s; s = s->next)
        if (!has_ended(s)) {
            (void)kill(s->pid, SIGKILL);
            (void)kill(s->pid, SIGCONT);
        }
    /* Everything below becomes our child when its parent is gone. */
    for (const int64_t end = spawn_now_ms() + 20000; !spawn_wait_all_gone(50) && spawn_now_ms() < end;)
        kill_below(SIGKILL);
    DIR *d = opendir(dir); /* of an 'up' that was killed */
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "baton-", 6) == 0) (void)temp_folder_remove(spawn_path(e->d_name));
    if (d) closedir(d);
    bool is_clean = true;
    while (first) {
        spawn *s = first;
        is_clean &= spawn_is_clean(s);
        first = s->next;
        if (s->terminal >= 0) close(s->terminal);
        free(s->out);
        free(s->err);
        free(s);
    }
    return is_clean ? 0 : -1;
}
