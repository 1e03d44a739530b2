#ifndef TESTS_HELPERS_WORKER_KIT_H
#define TESTS_HELPERS_WORKER_KIT_H
#include "decode-node/worker.h"
#include "kv/kv_pages.h"
#include "prefill-node/worker.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/temp_folder.h"

/* The common part of the tests of the nodes' compute threads: a small model, a node's pages with a sequence for each
 * slot, and the next event of a worker. Packages go to a folder of the kit's own. Failures of the kit itself abort the
 * test program. */
enum { WORKER_KIT_SLOTS = 4, WORKER_KIT_PAGE_TOKENS = 64, WORKER_KIT_DEADLINE_MS = 120000 };

typedef struct worker_kit {
    engine_kit own;
    bt_model *model;
    uint32_t slots;
    bt_kv_pages *pages; /* of f16, WORKER_KIT_PAGE_TOKENS each; NULL without slots */
    bt_kv_seq seq[WORKER_KIT_SLOTS];
    char dir[TEMP_FOLDER_BYTES]; /* is BATON_CACHE_DIR */
} worker_kit;

/* spec NULL: tiny_gguf_default. Each of `slots` sequences has room for `tokens`. */
void worker_kit_open(worker_kit *k, const tiny_gguf_spec *spec, uint32_t slots, size_t tokens);
void worker_kit_close(worker_kit *k);
bt_kv_view worker_kit_view(const worker_kit *k, uint32_t slot);
/* Pages for `tokens` of m, with nothing in them. */
bt_kv_pages *worker_kit_pages(const bt_model *m, uint32_t elem_bytes, uint32_t page_tokens, size_t tokens);

/* The worker's next event, waited for. */
pf_worker_event worker_kit_computed(pf_worker *w);
dc_worker_event worker_kit_decoded(dc_worker *w);
#endif
