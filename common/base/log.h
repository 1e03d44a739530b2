#ifndef BT_BASE_LOG_H
#define BT_BASE_LOG_H
#include <stdbool.h>
#include <stdint.h>

/* Lines to stderr, for programs only: libraries return errors. Each line is one write(2), so lines of several
 * threads and processes do not mix; lines over 2000 bytes are cut and end in "...". Control characters and bytes that
 * are not UTF-8 are written escaped, so nobody can forge a line. No line waits for a reader: one that a pipe, socket or
 * terminal does not take at once is dropped whole and counted, and the next line that is taken comes behind one that
 * says how many were dropped. Only a file may wait, for its disk.
 *   text  2025-01-31T12:00:00Z baton-decode info: model loaded (request 7f00aa)
 *   JSON  {"time":"...","level":"info","program":"baton-decode","request":"7f00aa","message":"model loaded"} */
typedef enum bt_log_level { BT_LOG_ERROR, BT_LOG_WARN, BT_LOG_INFO, BT_LOG_DEBUG } bt_log_level;

/* Call once, before there are threads. `program` must live on. Without it: level info, text, program "baton". */
void bt_log_setup(const char *program, bt_log_level level, bool json);
bool bt_log_wants(bt_log_level level);
uint64_t bt_log_dropped(void); /* lines of this process that stderr did not take; from any thread */

/* --log-level, --log-format and -v. */
typedef struct bt_log_options {
    int level, format; /* indices in bt_log_level_names and bt_log_formats */
    bool verbose;
} bt_log_options;
extern const struct bt_opt_group bt_log_opts;                          /* base/opt.h, of a bt_log_options */
bt_log_level bt_log_options_level(const bt_log_options *o);            /* the level that the options ask for */
void bt_log_start(const char *program, const bt_log_options *options); /* bt_log_setup by options */

void bt_log(bt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bt_log_request(bt_log_level level, const char *request_id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* At most one line every `every_ms` through one limiter; the next line then says how many were left out.
 * One thread for each limiter. Start: static bt_log_limit limit = { .every_ms = 1000 }; */
typedef struct bt_log_limit {
    int64_t every_ms;
    int64_t next_ms;  /* private */
    uint64_t skipped; /* private */
} bt_log_limit;
void bt_log_ratelimited(bt_log_limit *limit, bt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "error", "warn", "info", "debug": the values of --log-level, in the order of bt_log_level. */
extern const char *const bt_log_level_names[5]; /* ends with NULL */
extern const char *const bt_log_formats[3];     /* "text", "json", NULL */
#endif
