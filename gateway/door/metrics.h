#ifndef GW_METRICS_H
#define GW_METRICS_H
#include "base/buf.h"
#include "gateway/brain/brain.h"
#include "gateway/http/auth.h"
#include "gateway/http/tls.h"
#include "node/link.h"
#include "trace/capture.h"

/* The metrics of baton-gateway (metrics_table.h), with what feeds each. */
typedef struct gw_metrics gw_metrics;

bt_err gw_metrics_new(gw_metrics **ret, const char *model_name, bt_fault *fault);
void gw_metrics_free(gw_metrics *m); /* NULL is fine */

/* `count` tokens of one request came together, `us` after its tokens before. */
void gw_metrics_between_tokens(gw_metrics *m, int64_t us, size_t count);
void gw_metrics_done(gw_metrics *m, bt_finish reason, const gw_stats *s);
void gw_metrics_failed(gw_metrics *m, gw_fail_kind kind, const gw_stats *s);
void gw_metrics_answered(gw_metrics *m, int http_status);
void gw_metrics_body(gw_metrics *m, bool by_thread);          /* one was read */
void gw_metrics_end_of_answer(gw_metrics *m, bool by_thread); /* one was written */
/* Calls of tools in one answer: given to the client, not read, of tools that are not there. */
void gw_metrics_calls(gw_metrics *m, uint32_t given, uint32_t unread, uint32_t unknown);
void gw_metrics_bodies_waiting(gw_metrics *m, size_t n);
void gw_metrics_turn(gw_metrics *m, int64_t us);         /* a turn of the loop took so long */
void gw_metrics_left_out(gw_metrics *m, uint64_t total); /* bytes of prompts, so far */
void gw_metrics_put_off(gw_metrics *m, uint64_t total);  /* requests, so far */

void gw_metrics_tls(gw_metrics *m, const gw_tls *t);    /* takes over what it counts; NULL is fine */
void gw_metrics_captured(gw_metrics *m, bt_capture *c); /* takes over the counts of c; NULL is fine */

/* All series as Prometheus text; reads the gauges first. */
bt_err gw_metrics_render(gw_metrics *m, bt_buf *out, const gw_brain *brain, const bt_link_counters *link,
                         unsigned http_connections);
/* The series of API keys, by name: as many as keys. */
bt_err gw_metrics_render_keys(bt_buf *out, const gw_auth *auth, const gw_brain *brain);
uint64_t gw_metrics_rss_bytes(void); /* of this process; 0 unknown */
#endif
