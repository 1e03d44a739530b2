#ifndef GW_PAGES_H
#define GW_PAGES_H
#include "gateway/door/state.h"

/* The endpoints of GET: each looks at the request and answers at once, or, where there are more than
 * GW_PAGES_NODES_A_PIECE nodes, in pieces. */
enum { GW_PAGES_NODES_A_PIECE = 32 };
/* Writes one more piece of the page that came first, if any is being written; at most once in a turn of the loop. */
void gw_pages_go_on(gw_door *d);
void gw_pages_forget(gw_door *d, const gw_http_exchange *x); /* it has ended */
void gw_pages_free(gw_door *d);
void gw_pages_health(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_metrics(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_models(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_model(gw_door *d, gw_http_exchange *x, const gw_http_request *r); /* /v1/models/{id} */

/* /props: the settings of requests that do not give them. Keys that llama.cpp's server also has are
 * named as there:
 *   {"default_generation_settings": {"n_ctx", "params": {temperature, top_p, top_k, min_p, repeat_penalty,
 *        presence_penalty, frequency_penalty, seed (-1: drawn), max_tokens and n_predict (of a chat)}},
 *    "total_slots": of all decode nodes, "model_alias", "model_path" (as -m was given), "n_ctx",
 *    "chat_template": the one in force, or null, "chat_template_name", "chat_templates": names of the file's,
 *    "chat_template_error": why there are no chats, or null, "bos_token", "eos_token",
 *    "end_of_turn": [{"id", "text"}], the tokens that end an answer,
 *    "modalities": {"vision": false, "audio": false}, "build_info",
 *    "defaults": {temperature and the others: {"value", "from": "option", "file" or "default"}},
 *    "max_answer": tokens of a chat without max_tokens, "completion_tokens": of a completion without it} */
void gw_pages_props(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_ollama_tags(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_ollama_ps(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_ollama_version(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
void gw_pages_root(gw_door *d, gw_http_exchange *x, const gw_http_request *r); /* a text */
void gw_pages_openapi(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
/* /v1/status. For every client:
 *   {"state": "ready", "starting" or "draining", "ready": true or false, "model": {name, id, ctx_tokens},
 *    "counts": {prefill_nodes, decode_nodes (ready ones), running, waiting}}
 * with "key": {name, role} for API keys without the role admin; for all others what `baton status` shows:
 *   {"gateway": {id, pid, state, policy, endpoint, control, incarnation, rss_bytes},
 *    "queue": {waiting, running, max_running (--max-active, or the slots of ready decode nodes where those are fewer),
 *              owed (attempts that were left, and whose nodes have not let go yet), max},
 *    "nodes": [{id, role, pid (null once it is gone), state, endpoint (null for prefill nodes), incarnation,
 *               exactness, prefill_exactness (null unless it is a decode node that computes prompts),
 *               engine ({name, quant, shape_policy, profile, fallbacks (how many)}; null where none computes
 *               prompts), device ({profile, seconds, joules, utilisation (null before any work), pace (K; 0: off),
 *               paced_ms, late_ms}; null where its work has no price), ctx_tokens, kv_capacity_tokens,
 *               slots_total, slots_used, queued, pages_total, pages_used, pages_cached, window_pages_total,
 *               window_pages_used, window_pages_cached (of window layers, the three before of the others; 0 where no
 *               layer has a window), reservations, leases, attempts (of this gateway), rss_bytes, silent_ms}]} */
void gw_pages_status(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
#endif
