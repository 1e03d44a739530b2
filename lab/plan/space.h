#ifndef BT_LAB_PLAN_SPACE_H
#define BT_LAB_PLAN_SPACE_H
#include "lab/plan/choice.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"

/* All choices that a pair of devices has for a model and a load, what each would take, and which is best. Pure: it
 * reads no clock, and no file but those that a shape policy names.
 *
 * A prefill device with programs is asked for every shape policy, with contexts that double from 512 and with one
 * context, every recipe, every attention that is asked for, every form of KV rows, and, where its profile names a
 * companion, every schedule that a node can run them by; its programs are those that the compiler would make
 * (lab/plan/sketch.h). One without (a GPU) computes a prompt in steps: "whole" or "step:N". A choice that a profile
 * refuses is listed with its reason. */
enum { TOOL_PLAN_MAX_CHOICES = 65536, TOOL_PLAN_WHY_BYTES = 256 };

/* How weights and inputs are kept. */
typedef struct tool_plan_form {
    char name[BT_RECIPE_MAX_TEXT];
    bt_recipe recipe;         /* bits of weights (a GPU's 16 too) and inputs, groups, rotations at run time, by layer */
    uint32_t weight_bits;     /* the fewest of any layer */
    uint32_t weight_permille; /* bytes of a weight, scales included; 0: weight_bits */
    bool is_float;            /* as bt_price_recipe */
} tool_plan_form;
/* The i-th of a device without programs, as bt_price_form_at. */
tool_plan_form tool_plan_float_form(size_t i);
uint32_t tool_plan_form_input_bits(const tool_plan_form *f); /* the fewest of any layer and site */

/* The figure that `best` minimises, by its name for --by. */
typedef enum tool_plan_by {
    TOOL_PLAN_BY_E2E,      /* mean time of a whole request, waiting included */
    TOOL_PLAN_BY_TTFT,     /* mean time to the first token, waiting included */
    TOOL_PLAN_BY_TPOT,     /* mean time of a later token */
    TOOL_PLAN_BY_JOULES,   /* of a request, on average */
    TOOL_PLAN_BY_MEMORY,   /* of both devices */
    TOOL_PLAN_BY_PROGRAMS, /* that the device compiles */
    TOOL_PLAN_BY_PADDING,  /* rows that are computed */
    TOOL_PLAN_BYS
} tool_plan_by;
extern const char *const tool_plan_by_names[]; /* "e2e", ..; ends with NULL */
extern const char *const tool_plan_by_words[]; /* what each is, in words */

typedef struct tool_plan_want {
    const bt_profile *prefill, *companion, *decode; /* companion NULL: the NPU's own */
    const bt_dims *dims;
    bt_link link;
    const char *const *policy, *const *recipe, *const *kv; /* those to compare; NULL or 0 of them: the usual ones */
    size_t policies, recipes, kvs;
    const char *const *attention; /* those to compare (npu/pkg/attention.h); 0 of them: dense */
    size_t attentions;
    const int *schedule; /* those to compare (bt_schedule_policy, BT_STAGE_SPLIT); 0 of them: the usual ones */
    size_t schedules;
    tool_plan_form decode_form;
    uint32_t slots;
    size_t ctx_tokens, arenas; /* arenas: chunks under way */
    uint32_t npu_ops;          /* BT_PKG_OPS_LINEAR or BT_PKG_OPS_ALL */
    tool_plan_limits limits;
    bool has_limits, any_bits;
    tool_plan_by by;
    uint32_t draws; /* of what the devices really take (lab/plan/drawn.h); 0: none */
    uint64_t seed;  /* of the draws */
} tool_plan_want;

/* Nine in ten draws of a figure lie between the two. */
typedef struct tool_plan_band {
    double low, high;
} tool_plan_band;
typedef enum tool_plan_banded {
    TOOL_PLAN_BAND_TTFT, /* alone, as prefill_ns */
    TOOL_PLAN_BAND_TPOT,
    TOOL_PLAN_BAND_E2E,
    TOOL_PLAN_BAND_JOULES,
    TOOL_PLAN_BANDS
} tool_plan_banded;

typedef struct tool_plan_choice {
    char policy[128];
    uint32_t chunk_tokens; /* of the longest program or step; 0: a whole prompt */
    tool_plan_form form;
    bt_attention attention;
    const bt_price_kv *kv;
    int schedule; /* a bt_schedule_policy, or BT_STAGE_SPLIT */
    bool has_schedules, is_one_bucket;
    uint32_t buckets;                           /* contexts of the longest program; 0: no programs */
    uint64_t programs, compile_ns, spill_bytes; /* specializations; once on the device; of a chunk */
    uint32_t sessions;
    bool is_allowed;    /* has at least 8 bits of weights and inputs and 16 of KV, or what it has less was asked for */
    bool gains_no_time; /* of a device without programs: with all else alike, f16 is as fast */
    tool_plan_figures f;
    uint32_t wins;                        /* draws in which it is the best */
    bool is_tie;                          /* nobody can tell it from the best */
    tool_plan_band band[TOOL_PLAN_BANDS]; /* by tool_plan_banded */
} tool_plan_choice;

typedef struct tool_plan_refusal {
    char what[192], why[TOOL_PLAN_WHY_BYTES];
} tool_plan_refusal;

typedef struct tool_plan_result {
    tool_plan_choice *choice; /* [choices], owned: those that no other one dominates or that tie, best first */
    size_t choices, room, priced;
    bool has_usual;
    tool_plan_choice usual; /* what is taken where nobody chooses: BT_SHAPES_DEFAULT, w8a8, f16; a whole prompt in f16
                             */
    tool_plan_refusal *refused; /* [refusals], owned */
    size_t refusals, refusal_room;
    tool_plan_choice *alone; /* [alones], owned: the decode device alone, best first */
    size_t alones;
} tool_plan_result;

/* *ret is zeroed at first and done after success and failure. BT_EARG: an unknown policy, recipe, attention or KV
 * form, sparse attention on a prefill device without programs, or an objective that nothing has (joules of devices
 * without a source); BT_ELIMIT: the pair holds it in no way, with the first reason; BT_ENOMEM. is_colocated: figures of
 * the decode device alone, too. */
bt_err tool_plan_make(tool_plan_result *ret, const tool_plan_want *want, const tool_plan_load *load, bool is_colocated,
                      bt_fault *fault);
void tool_plan_result_done(tool_plan_result *r);

/* The figure `by` of a choice. -1: it has none (joules). */
double tool_plan_value(const tool_plan_choice *c, tool_plan_by by);
/* The other's objective by the best's; where the best is overloaded, of which nothing that waits has a mean, the time
 * that the load asks of the devices instead. < 0: there is none. */
double tool_plan_margin(const tool_plan_choice *best, const tool_plan_choice *other, tool_plan_by by);
/* < 0: a is better. Compared are, in this order: whether a choice is allowed, whether it keeps up, unless memory is
 * the objective whether its form gains time, with limits how many requests keep them, the objective, e2e, programs,
 * memory and bits. */
int tool_plan_compare(const tool_plan_choice *a, const tool_plan_choice *b, const tool_plan_want *want);
/* The same for other figures of a choice: less of the first number that differs is better. */
enum { TOOL_PLAN_KEYS = 10 };
typedef struct tool_plan_key {
    double of[TOOL_PLAN_KEYS];
} tool_plan_key;
tool_plan_key tool_plan_key_of(const tool_plan_choice *c, const tool_plan_figures *f, const tool_plan_want *want);
int tool_plan_key_compare(const tool_plan_key *a, const tool_plan_key *b);
/* a is at least as good in waste, first token (mean and p99), later tokens, whole requests, joules, programs and
 * memory, keeps as many bits, attends to as much, and is better in one of them. */
bool tool_plan_dominates(const tool_plan_choice *a, const tool_plan_choice *b);
/* Equal in all of these. */
bool tool_plan_is_alike(const tool_plan_choice *a, const tool_plan_choice *b);
#endif
