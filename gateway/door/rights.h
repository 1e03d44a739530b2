#ifndef GW_RIGHTS_H
#define GW_RIGHTS_H
#include "gateway/api/endpoints.h"
#include "gateway/door/state.h"

/* The rights of a request's caller: what the caller may do, and how much of it. Without API keys everybody may do
 * everything. */

/* False: *err says which role is needed (403), or that a key is (401). */
bool gw_rights_may(const gw_door *d, const gw_http_request *r, gw_right right, gw_error *err);
bool gw_rights_is_admin(const gw_door *d, const gw_http_request *r); /* true without keys */
/* Whether the request may name the nodes that it names, by --node-choice. BT_EAUTH with *err filled (403). */
bt_err gw_rights_choose_nodes(const gw_door *d, gw_key *k, const gw_ask *r, gw_error *err);

/* The number of the share that the request is of, by --share-by; 0: the common one. */
uint64_t gw_rights_share(const gw_door *d, const gw_http_request *r);

/* A request for an answer comes, before its body is looked at. BT_EAGAIN with *err filled (429). k NULL: no keys. */
bt_err gw_rights_arrive(gw_key *k, gw_error *err);
/* `l`, whose body was read, would begin. BT_EAGAIN with *err filled (429). */
bt_err gw_rights_begin(gw_live *l, gw_error *err);
/* It has ended; more than once is fine. s NULL: the brain never had it. */
void gw_rights_end(gw_live *l, const gw_stats *s);
/* The context of this caller where nodes have one of `tokens`. */
uint32_t gw_rights_context(const gw_key *k, uint32_t tokens);
/* Says whose limit a prompt does not fit into, where *err is about a context of ctx_tokens and that is the key's. */
void gw_rights_name_context(const gw_key *k, uint32_t ctx_tokens, gw_error *err);
/* After 429 for want of a place in the line: when to come again. */
void gw_rights_retry_after(gw_error *err, int64_t wait_us);
#endif
