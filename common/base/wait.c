/* The one wait of a process, and the thread that shows it. */
#include "base/wait.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REDRAW_MS = 100, LINE_BYTES = BT_PROGRESS_BYTES + 16 };
#define ERASE "\r\033[K"

static struct {
    bt_wait_way way;
    bool is_redrawn, is_told, is_ended; /* is_ended: to the thread, under the mutex */
    int wake;                           /* an eventfd: something changed */
    pthread_t thread;
    pthread_mutex_t mutex; /* of p and is_ended, while the thread lives */
    bt_progress p;
} now = {.wake = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

void bt_wait_setup(bt_wait_way way)
{
    const char *term = getenv("TERM");
    now.way = way;
    now.is_redrawn = way == BT_WAIT_STDERR && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void put(const char *text)
{
    size_t n = strlen(text);
    while (n) {
        const ssize_t done = write(STDERR_FILENO, text, n);
        if (done <= 0) return; /* nobody reads it */
        text += done;
        n -= (size_t)done;
    }
}

static void show(const char *text)
{
    char line[LINE_BYTES];
    struct winsize size = {0};
    if (now.way == BT_WAIT_LOG) {
        bt_log(BT_LOG_INFO, "%s ...", text);
    } else if (now.is_redrawn) {
        const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
        snprintf(line, sizeof line, ERASE "%.*s", is_known ? size.ws_col - 1 : BT_PROGRESS_BYTES, text);
        put(line);
    } else {
        snprintf(line, sizeof line, "%s ...\n", text);
        put(line);
    }
}

/* Until the next look: a line that stays is shown once. */
static int sleep_ms(const bt_progress *p)
{
    if (now.is_redrawn) return REDRAW_MS;
    if (p->shown[0]) return -1;
    const int64_t ms = p->begin_ms + BT_PROGRESS_QUIET_MS - bt_clock_ms();
    return ms > 0 ? (int)ms : 0;
}

static void *run(void *ud)
{
    uint64_t count;
    (void)ud;
    for (;;) {
        pthread_mutex_lock(&now.mutex);
        const bool is_ended = now.is_ended;
        if (!is_ended && bt_progress_due(&now.p, now.is_redrawn, bt_clock_ms())) show(now.p.shown);
        const int ms = sleep_ms(&now.p);
        pthread_mutex_unlock(&now.mutex);
        if (is_ended) return NULL;
        struct pollfd p = {.fd = now.wake, .events = POLLIN};
        if (poll(&p, 1, ms) > 0) (void)!read(now.wake, &count, sizeof count);
    }
}

static void wake(void)
{
    const uint64_t one = 1;
    (void)!write(now.wake, &one, sizeof one);
}

/* Without a thread nothing is shown; the work goes on. */
static void start(const char *what)
{
    sigset_t all, before;
    now.is_ended = false;
    bt_progress_begin(&now.p, what, bt_clock_ms());
    if ((now.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) return;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    now.is_told = pthread_create(&now.thread, NULL, run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!now.is_told) {
        close(now.wake);
        now.wake = -1;
    }
}

void bt_wait_tell(void *ud, const char *what, uint64_t done, uint64_t total)
{
    (void)ud;
    if (now.way == BT_WAIT_SILENT) return;
    if (!now.is_told) start(what);
    if (!now.is_told) return;
    pthread_mutex_lock(&now.mutex);
    const bool is_new = strncmp(now.p.what, what, sizeof now.p.what - 1) != 0;
    if (is_new) bt_progress_begin(&now.p, what, bt_clock_ms());
    bt_progress_at(&now.p, done, total, bt_clock_ms());
    pthread_mutex_unlock(&now.mutex);
    if (is_new) wake();
}

void bt_wait_note(const char *fmt, ...)
{
    va_list ap;
    if (!now.is_told) return;
    va_start(ap, fmt);
    pthread_mutex_lock(&now.mutex);
    vsnprintf(now.p.note, sizeof now.p.note, fmt, ap);
    pthread_mutex_unlock(&now.mutex);
    va_end(ap);
}

void bt_wait_end(void)
{
    if (!now.is_told) return;
    pthread_mutex_lock(&now.mutex);
    now.is_ended = true;
    const bool is_shown = now.is_redrawn && now.p.shown[0];
    pthread_mutex_unlock(&now.mutex);
    wake();
    (void)pthread_join(now.thread, NULL);
    close(now.wake);
    now.wake = -1;
    now.is_told = false;
    if (is_shown) put(ERASE);
}
