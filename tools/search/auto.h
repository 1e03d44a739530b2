#ifndef BT_TOOLS_SEARCH_AUTO_H
#define BT_TOOLS_SEARCH_AUTO_H
#include <jansson.h>
#include "base/pool.h"
#include "model/model.h"
#include "npu/compile/obtain.h"
#include "tools/search/search.h"

/* --quant auto:ppl=LOSS%: tools/search/search.h with packages and held-out text. The cost of a package is
 * the modelled time of a prompt of TOOL_AUTO_TOKENS tokens where the profile has times, else its bytes. Answers are
 * kept in the cache (folder `recipes`), by what bt_compile_key says and the bound. Packages with one recipe for all
 * layers stay in the cache as any, others go when they were measured. */
enum { TOOL_AUTO_TOKENS = 512, TOOL_AUTO_MAX_MINUTES = 600 };
typedef struct tool_auto_how {
    const char *isa;
    size_t ctx_tokens;
    bt_pool *pool;
    bool quiet; /* else each try is a line on stderr */
} tool_auto_how;

/* w->quant, where it asks for a search, becomes recipe[], which outlives w. *ret (may be NULL): what was tried, or NULL
 * where there was no search: {recipe, bound, float_perplexity, held_out_tokens, cost_unit ("ns", "bytes"), seconds,
 * tries[{recipe, kind ("all", "one", "mixed"), loss, kl, cost, bytes, keeps, why_not}]}, loss NULL with "one"; the
 * caller decrefs it. BT_EARG: with --package; errors of the search; BT_ELIMIT past TOOL_AUTO_MAX_MINUTES. */
bt_err tool_auto_resolve(json_t **ret, char recipe[BT_RECIPE_MAX_TEXT], bt_obtain_want *w, const bt_model *m,
                         const tool_auto_how *how, bt_fault *fault);
void tool_auto_print(const json_t *found); /* the tries as a table on stdout */
#endif
