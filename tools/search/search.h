#ifndef BT_TOOLS_SEARCH_H
#define BT_TOOLS_SEARCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg/recipe.h"

/* The cheapest recipe that loses no more than a bound, layer by layer:
 *
 *   1  every recipe of tool_search_ladder for all layers, with the residual stream rotated and not; w4a16 with
 *      one scale an output only where groups of 32 keep the bound, or the device has none
 *   2  beside the cheapest that keeps the bound, one that does not keep it and is cheaper: the one that saves most for
 *      its loss. Both are rotated, or neither is: the kind is taken whose mixture with the bound's loss is cheaper, on
 *      a straight line between the two. Each layer and the head take it alone, and the KL divergence that this makes is
 *      measured once
 *   3  as many of them take it together as the bound allows, those with the most gain for their divergence first; how
 *      many is found by halving, on the loss of each mixture
 *
 * At most TOOL_SEARCH_MAX_TRIES packages. Each try depends on the measurements before it and on nothing else, so equal
 * measurements give an equal recipe. Pure: the caller measures. */
enum { TOOL_SEARCH_LADDER = 12, TOOL_SEARCH_MAX_TRIES = TOOL_SEARCH_LADDER + BT_RECIPE_HEAD + 1 + 16 };
extern const char *const tool_search_ladder[TOOL_SEARCH_LADDER];

typedef enum tool_search_kind { TOOL_SEARCH_ALL, TOOL_SEARCH_ONE, TOOL_SEARCH_MIXED } tool_search_kind;
typedef struct tool_search_try {
    char recipe[BT_RECIPE_MAX_TEXT];
    tool_search_kind kind; /* all layers alike; one alone differs; a mixture */
    double loss;           /* perplexity / that of floats - 1; of ALL and MIXED */
    double kl;             /* mean divergence from floats; of ONE and of all layers alike */
    double cost;           /* nanoseconds or bytes */
    uint64_t bytes;        /* of the package */
    bool keeps;            /* loss is at most the bound */
    char why_not[128]; /* not tried: why the device cannot run it, the compiler not make it, or it is spared; else empty
                        */
} tool_search_try;

typedef struct tool_search {
    double bound; /* greatest loss: 0.01 */
    uint32_t layers;
    /* Fills loss or kl, cost and bytes of the recipe. BT_ECANCEL and others end the search;
     * BT_EARG with ALL: the device cannot run it, and the fault becomes why_not. */
    bt_err (*measure)(void *ud, tool_search_try *t, bt_fault *fault);
    void (*report)(void *ud, const tool_search_try *t); /* after each; NULL: none */
    void *ud;
    tool_search_try *tries; /* [TOOL_SEARCH_MAX_TRIES], the caller's */
    size_t count;
    const tool_search_try *best;
} tool_search;

/* s: bound, layers, measure, report, ud and tries are given. best: the cheapest that keeps the bound; of equal cost the
 * one with fewer bits, then the smaller loss, then the one tried first. BT_EARG: none keeps it, with the least loss and
 * its recipe. Errors of measure. */
bt_err tool_search_run(tool_search *s, bt_fault *fault);
/* "auto:ppl=1%": *ret 0.01. False: it asks for no search. BT_EARG: a bound that is none, from 0.01 % to 100 %. */
bt_err tool_search_asked(bool *ret_asked, double *ret_bound, const char *quant, bt_fault *fault);
#endif
