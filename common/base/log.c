/* One line, escaped, built on the stack and written at once, or dropped. */
#include "base/log.h"
#include "base/clock.h"
#include "base/opt.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048
#define TEXT_BYTES 2000
_Static_assert(LINE_BYTES <= PIPE_BUF, "a pipe takes a line whole or not at all");

const char *const bt_log_level_names[5] = {"error", "warn", "info", "debug", NULL};
const char *const bt_log_formats[3] = {"text", "json", NULL};

static const bt_opt opts[] = {
    {.group = "Logs", .name = "log-level", .value = "LEVEL", BT_OPT_AT(bt_log_options, level),
     .type = BT_OPT_CHOICE, .def = "info", .choices = bt_log_level_names,
     .help = "least important lines to write"},
    {.group = "Logs", .name = "log-format", .value = "FORMAT", BT_OPT_AT(bt_log_options, format),
     .type = BT_OPT_CHOICE, .def = "text", .choices = bt_log_formats, .help = "form of the lines on stderr"},
    {.group = "Logs", .letter = 'v', .name = "verbose", BT_OPT_AT(bt_log_options, verbose),
     .type = BT_OPT_FLAG, .help = "the same as --log-level debug"},
};
const bt_opt_group bt_log_opts = BT_OPT_GROUP(opts);

static struct {
    const char *program;
    bt_log_level level;
    bool json;
} config = {"baton", BT_LOG_INFO, false};

static atomic_uint_fast64_t dropped, unsaid; /* unsaid: of those dropped, the ones that no line has named */

void bt_log_setup(const char *program, bt_log_level level, bool json)
{
    config.program = program;
    config.level = level;
    config.json = json;
}

bt_log_level bt_log_options_level(const bt_log_options *o)
{
    return o->verbose ? BT_LOG_DEBUG : (bt_log_level)o->level;
}

void bt_log_start(const char *program, const bt_log_options *o)
{
    bt_log_setup(program, bt_log_options_level(o), o->format == 1);
}

bool bt_log_wants(bt_log_level level) { return level <= config.level; }

typedef struct line {
    char text[LINE_BYTES];
    size_t len;
    bool cut;
} line;

static void put(line *l, const char *s, size_t n)
{
    if (l->cut || n > TEXT_BYTES - l->len) {
        l->cut = true;
        return;
    }
    memcpy(l->text + l->len, s, n);
    l->len += n;
}

static void put_str(line *l, const char *s) { put(l, s, strlen(s)); }

/* Bytes of the UTF-8 character at p, 0 if there is none (over-long forms and surrogates included). */
static size_t utf8_len(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    const size_t n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                     : (p[0] & 0xf0) == 0xe0        ? 3
                     : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                    : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static void put_escaped(line *l, const char *s, bool json)
{
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        char esc[8];
        const size_t n = utf8_len(p);
        if (json && (*p == '"' || *p == '\\')) {
            snprintf(esc, sizeof esc, "\\%c", *p);
        } else if (n == 0 || *p < 0x20 || *p == 0x7f) {
            snprintf(esc, sizeof esc, json ? "\\u%04x" : "\\x%02x", n ? *p : json ? 0xfffd : *p);
        } else {
            put(l, (const char *)p, n);
            p += n;
            continue;
        }
        put_str(l, esc);
        p++;
    }
}

static void json_field(line *l, const char *name, const char *value)
{
    put_str(l, l->len ? ",\"" : "{\"");
    put_str(l, name);
    put_str(l, "\":\"");
    put_escaped(l, value, true);
}

static line compose(bt_log_level level, const char *request_id, const char *message)
{
    char when[32];
    const time_t now = (time_t)bt_clock_wall_s();
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    line l = {.len = 0};
    if (config.json) {
        json_field(&l, "time", when);
        put_str(&l, "\"");
        json_field(&l, "level", bt_log_level_names[level]);
        put_str(&l, "\"");
        json_field(&l, "program", config.program);
        put_str(&l, "\"");
        if (request_id) {
            json_field(&l, "request", request_id);
            put_str(&l, "\"");
        }
        json_field(&l, "message", message);
    } else {
        put_str(&l, when);
        put_str(&l, " ");
        put_str(&l, config.program);
        put_str(&l, " ");
        put_str(&l, bt_log_level_names[level]);
        put_str(&l, ": ");
        put_escaped(&l, message, false);
        if (request_id) {
            put_str(&l, " (request ");
            put_escaped(&l, request_id, false);
            put_str(&l, ")");
        }
    }
    /* The last pieces fit even when the text was cut: LINE_BYTES leaves room behind TEXT_BYTES. */
    l.len += (size_t)snprintf(l.text + l.len, sizeof l.text - l.len, "%s%s\n", l.cut ? "..." : "",
                              config.json ? "\"}" : "");
    return l;
}

/* Whether stderr took the line. O_NONBLOCK is no way to that: whoever shares stderr would share the flag. A
 * pipe that is opened once more has flags of its own; where that fails (no /proc, no descriptor left, a pipe
 * of another user), a line may wait if another process fills the pipe between poll and write. */
static bool deliver(const line *l)
{
    struct stat st;
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t n = -1;
    if (fstat(STDERR_FILENO, &st) < 0) return false;
    if (S_ISSOCK(st.st_mode))
        return send(STDERR_FILENO, l->text, l->len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)l->len;
    const int own = S_ISFIFO(st.st_mode) ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (own >= 0) {
        n = write(own, l->text, l->len);
        (void)close(own);
    } else if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT)) {
        n = write(STDERR_FILENO, l->text, l->len);
    }
    return n == (ssize_t)l->len;
}

/* False: stderr takes nothing yet. */
static bool say_dropped(void)
{
    char text[80];
    const uint_fast64_t n = atomic_exchange(&unsaid, 0);
    if (n == 0) return true;
    (void)snprintf(text, sizeof text, "%llu lines of this log were dropped: nobody read them in time",
                   (unsigned long long)n);
    const line l = compose(BT_LOG_WARN, NULL, text);
    if (deliver(&l)) return true;
    atomic_fetch_add(&unsaid, n);
    return false;
}

static void emit(bt_log_level level, const char *request_id, const char *message)
{
    const line l = compose(level, request_id, message);
    if (say_dropped() && deliver(&l)) return;
    atomic_fetch_add(&dropped, 1);
    atomic_fetch_add(&unsaid, 1);
}

uint64_t bt_log_dropped(void) { return atomic_load(&dropped); }

static void vlog(bt_log_level level, const char *request_id, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
static void vlog(bt_log_level level, const char *request_id, const char *fmt, va_list ap)
{
    char message[LINE_BYTES];
    vsnprintf(message, sizeof message, fmt, ap);
    emit(level, request_id, message);
}

void bt_log(bt_log_level level, const char *fmt, ...)
{
    if (!bt_log_wants(level)) return;
    va_list ap;
    va_start(ap, fmt);
    vlog(level, NULL, fmt, ap);
    va_end(ap);
}

void bt_log_request(bt_log_level level, const char *request_id, const char *fmt, ...)
{
    if (!bt_log_wants(level)) return;
    va_list ap;
    va_start(ap, fmt);
    vlog(level, request_id, fmt, ap);
    va_end(ap);
}

void bt_log_ratelimited(bt_log_limit *limit, bt_log_level level, const char *fmt, ...)
{
    if (!bt_log_wants(level)) return;
    const int64_t now_ms = bt_clock_ms();
    if (now_ms < limit->next_ms) {
        limit->skipped++;
        return;
    }
    char message[LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (limit->skipped && n >= 0 && (size_t)n < sizeof message)
        snprintf(message + n, sizeof message - (size_t)n, " (and %llu more like this)",
                 (unsigned long long)limit->skipped);
    limit->skipped = 0;
    limit->next_ms = now_ms + limit->every_ms;
    emit(level, NULL, message);
}
