#ifndef BT_NODE_NODE_SETUP_H
#define BT_NODE_NODE_SETUP_H
#include "device/report.h"
#include "kv/kv_pages.h"
#include "model/model.h"
#include "wire/msg.h"

/* What a node of either kind makes of its model, its engine and its options before it greets anybody. */
enum { BT_NODE_PAGE_TOKENS = BT_KV_PAGES_USUAL_TOKENS };

typedef struct bt_node_setup {
    bt_role role;
    const char *node_id;
    const char *kv_endpoint; /* of a decode node; NULL */
    const char *engine;      /* the engine's name: "npu", "host", "reference" */
    const char *weights;     /* what its numbers come from: "f16", "f32", "package=DIGEST" */
    const bt_model *model;
    uint32_t kv_elem_bytes; /* 1, 2 or 4: int8, f16 or f32 */
    size_t ctx_tokens;      /* longest sequence of the engine */
    uint64_t kv_memory_bytes;
} bt_node_setup;

/* The value of --cache-limit; what goes for it is told in the log. Before there are threads. */
void bt_node_setup_cache(uint64_t limit_bytes);
/* BT_EARG when the memory does not hold one of the longest sequences; the words say how much does, and whether KV of
 * int8 would fit. */
bt_err bt_node_setup_pages(bt_kv_pages **ret, const bt_node_setup *s, bt_fault *fault);
/* Says in the log where the memory, and not an option, makes sequences shorter than the model's, and what KV of int8
 * would hold. wants_ctx: --ctx-size; 0: as many as fit. */
void bt_node_setup_say_short(const bt_node_setup *s, uint64_t wants_ctx);
/* Everything but load. BT_EARG: a name or endpoint that HELLO cannot carry whole. */
bt_err bt_node_setup_hello(bt_msg_hello *ret, const bt_node_setup *s, const bt_kv_pages *pages, bt_fault *fault);
/* The exactness class that HELLO tells: who computes, with which weights and KV, by which version of the kernels. */
void bt_node_setup_class(char ret[BT_MSG_MAX_TEXT_BYTES + 1], bt_role role, const char *engine, const char *weights,
                         bt_kv_dtype dtype);
/* An engine's reports as messages. Texts that are too long are cut; where more operators fall back than HELLO carries,
 * the last entry stands for the rest. */
bt_msg_engine bt_node_setup_engine(const bt_report_engine *about);
bt_msg_work bt_node_setup_work(const bt_report_work *work);
#endif
