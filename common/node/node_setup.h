#ifndef BT_NODE_NODE_SETUP_H
#define BT_NODE_NODE_SETUP_H
#include "device/report.h"
#include "kv/kv_pages.h"
#include "model/model.h"
#include "sample/constraint.h"
#include "wire/msg.h"

/* The set-up of a node of either kind, from its model, engine and options, before it greets a gateway. */
enum { BT_NODE_PAGE_TOKENS = BT_KV_PAGES_USUAL_TOKENS };

typedef struct bt_node_setup {
    bt_role role;
    const char *node_id;
    const char *kv_endpoint; /* of a decode node; NULL */
    const char *engine;      /* the engine's name: "npu", "host", "reference" */
    const char *weights;     /* the source of its weights: "f16", "f32", "package=DIGEST" */
    const bt_model *model;
    uint32_t kv_elem_bytes; /* 1, 2 or 4: int8, f16 or f32 */
    size_t ctx_tokens;      /* longest sequence of the engine */
    uint64_t kv_memory_bytes;
    size_t sequences, growth_tokens; /* of a decode node: slots, and tokens that each may grow; sequences 0: rows of
                                        window layers stay as long as others */
} bt_node_setup;

/* Sets the value of --cache-limit; deletions are logged. Before there are threads. */
void bt_node_setup_cache(uint64_t limit_bytes);
/* Divides the memory between the classes of pages: window layers get pages for the windows of all sequences, at least
 * for the longest sequence and at most as many as the others, which get the rest. Where all layers have windows, the
 * others take no memory and are as many as all sequences may have. BT_EARG when the memory does not hold one sequence
 * of the greatest length in all layers; the words say how much memory would, and whether int8 KV would fit. */
typedef struct bt_node_pages {
    bt_kv_memory memory;
    uint32_t total, windows; /* pages; windows 0: there are no window layers */
} bt_node_pages;
bt_err bt_node_setup_pages(bt_node_pages *ret, const bt_node_setup *s, bt_fault *fault);
/* The same for so many bytes of a swap store, where sequences do not grow. Memory for less than a page gives none, and
 * no error. */
bt_err bt_node_setup_swap(bt_node_pages *ret, const bt_node_setup *s, uint64_t bytes, bt_fault *fault);
/* Logs where the memory, and not an option, makes sequences shorter than the model allows, and how long they could be
 * with int8 KV. wants_ctx: --ctx-size; 0: as much as fits. */
void bt_node_setup_say_short(const bt_node_setup *s, uint64_t wants_ctx);
/* The id of a node that is given none: the name of its key, `key` or the only one of keys_dir; without one
 * "prefill-0" or "decode-0". */
void bt_node_setup_id(char ret[BT_MSG_MAX_ID_BYTES + 1], bt_role role, const char *keys_dir, const char *key);
/* BT_EARG: not a name that HELLO takes. */
bt_err bt_node_setup_check_id(const char *id, bt_fault *fault);
/* The vocabulary of the model's file for programs of answers; its tree's time and bytes are logged. A file without one,
 * or with one that cannot be read, gives NULL, and the log says why. BT_ENOMEM. */
bt_err bt_node_setup_words(bt_constraint_vocab **ret, const bt_model *m, bt_fault *fault);
/* Fills all of HELLO except the load. BT_EARG: a name or endpoint that is too long for HELLO. */
bt_err bt_node_setup_hello(bt_msg_hello *ret, const bt_node_setup *s, uint32_t pages, bt_fault *fault);
/* The exactness class in HELLO: role, engine, weights, KV type and version of the kernels. */
void bt_node_setup_class(char ret[BT_MSG_MAX_TEXT_BYTES + 1], bt_role role, const char *engine, const char *weights,
                         bt_kv_dtype dtype);
/* An engine's reports as messages. Long texts are cut; where more operators fall back than HELLO carries, the last
 * entry stands for the rest. */
bt_msg_engine bt_node_setup_engine(const bt_report_engine *about);
bt_msg_work bt_node_setup_work(const bt_report_work *work);
#endif
