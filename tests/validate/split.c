/* The rows that judge. A row calibrates unless a rule below holds it out, and the first rule that does says
 * by what it is held out. Rules speak of models, of group sizes, and of regions of rows, batch and context:
 * none of a single row. An empty field holds for all. Groups and regions stand before models, so that what is
 * held out by its model alone has a group size and a region that calibration rows have. */
#include "tests/validate/validate.h"

#include <stdio.h>
#include <string.h>

#define K(kind) (1u << VAL_##kind)
enum {
    ALL = (1 << VAL_KINDS) - 1,
    LAYERS = K(PRODUCTS) | K(SMALL),
    PASSES = K(LINEAR) | LAYERS,
    STEPS = K(STEP) | K(SERVED_TPOT) | K(JOULES_STEP),
    PROMPTS = K(PROMPT) | K(JOULES_PROMPT) | K(RUN),
    WHOLE = STEPS | PROMPTS,
};
typedef struct val_rule {
    val_use use;
    unsigned kinds;
    const char *device, *shapes; /* DEVICE[@STACK]; names with blanks between them, "!" before them: all
                                    others */
    uint64_t least_rows, most_rows, least_batch, most_batch, least_context, most_context; /* most 0: no end */
    uint32_t devices; /* 0: any; with use VAL_GROUP, those that are held out */
} val_rule;

// clang-format off
static const val_rule rules[] = {
    /* groups: a size between and beyond those that calibrate */
    {VAL_GROUP, ALL, "", "", 0, 0, 0, 0, 0, 0, 4},
    /* regions */
    {VAL_REGION, PASSES, "", "", 160, 768, 0, 0, 0, 0, 0},
    {VAL_REGION, PASSES, "", "", 6144, 0, 0, 0, 0, 0, 0},
    {VAL_REGION, K(ATTENTION), "", "", 1024, 3072, 0, 0, 0, 0, 0},
    {VAL_REGION, K(ATTENTION), "", "", 0, 0, 8, 16, 0, 0, 0},
    {VAL_REGION, K(ATTENTION_STEP), "", "", 0, 0, 16, 32, 0, 0, 0},
    {VAL_REGION, K(ATTENTION_STEP), "", "", 0, 0, 0, 0, 512, 2048, 0},
    {VAL_REGION, K(ATTENTION_STEP), "", "", 0, 0, 0, 0, 32768, 0, 0},
    {VAL_REGION, STEPS, "h100", "", 0, 0, 16, 32, 0, 0, 0},
    {VAL_REGION, STEPS, "h200", "", 0, 0, 16, 32, 0, 0, 0},
    {VAL_REGION, STEPS, "b200", "", 0, 0, 16, 32, 0, 0, 0},
    {VAL_REGION, STEPS, "h100", "", 0, 0, 0, 0, 4096, 0, 0},
    {VAL_REGION, PROMPTS, "h100", "", 512, 1024, 0, 0, 0, 0, 0},
    {VAL_REGION, STEPS, "xdna2", "", 0, 0, 0, 0, 4097, 16383, 0},
    {VAL_REGION, PROMPTS, "xdna2", "", 4097, 16383, 0, 0, 0, 0, 0},
    {VAL_REGION, PROMPTS, "ane-a17-pro", "", 2, 255, 0, 0, 0, 0, 0},
    {VAL_REGION, PROMPTS, "ane-a17-pro", "", 257, 0, 0, 0, 0, 0, 0},
    {VAL_REGION, PROMPTS, "ane-a17-pro", "", 1, 1, 0, 0, 1024, 0, 0},
    {VAL_REGION, PROMPTS, "ane-m2-ultra", "", 16, 0, 0, 0, 0, 0, 0},
    /* models: sizes that no calibration row has */
    {VAL_MODEL, LAYERS, "a100", "internlm-20b llama-3-70b phi-2", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, LAYERS, "h100", "llama-2-70b phi-2", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, K(LINEAR), "h100", "896x1152 896x896 896x9728 4864x896 896x151936", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, K(ATTENTION), "", "14/2/64", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, K(ATTENTION) | K(ATTENTION_STEP), "", "8/2/128 32/4/128", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "a100", "!llama-2-7b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "h100@trtllm", "!llama-3.1-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "h100@torch", "!llama-3.1-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "h100@vllm", "!qwen3-32b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "h200", "llama-3.1-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "b200", "qwen3-32b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-v75", "!qwen1.5-1.8b llama-2-7b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-v75-powerserve", "!qwen2-0.5b llama-3.1-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-v79", "!llama-3.1-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-v79-aihub",
     "!baichuan2-7b granite-3.1-8b llama-2-7b llama-3-8b llama-3.1-8b llama-3.2-1b llama-3.2-3b phi-3.5-mini", 0, 0, 0,
     0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-v81", "!llama-3.2-1b llama-3-8b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "hexagon-x-elite",
     "!falcon3-7b granite-3.1-8b llama-3-8b llama-3.1-8b llama-3.2-3b phi-3.5-mini", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "adreno-750", "!gemma-2b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "m2-ultra-gpu", "!llama-2-7b", 0, 0, 0, 0, 0, 0, 0},
    {VAL_MODEL, WHOLE, "xdna2", "!llama-3.2-1b qwen2.5-3b qwen3-0.6b qwen3-4b", 0, 0, 0, 0, 0, 0, 0},
};
// clang-format on

static bool is_in(uint64_t v, uint64_t least, uint64_t most) { return v >= least && (!most || v <= most); }

/* A shape's name ends at '=', behind which its sizes may stand. */
static bool is_among(const char *shape, const char *names)
{
    const size_t len = strcspn(shape, "=");
    const bool is_other = *names == '!';
    for (names += is_other; *names; names += strspn(names, " ")) {
        const size_t n = strcspn(names, " ");
        if (n == len && !memcmp(names, shape, n)) return !is_other;
        names += n;
    }
    return is_other;
}

static bool is_device(const val_row *r, const char *name)
{
    const size_t len = strcspn(name, "@");
    return !len || (strlen(r->device) == len && !strncmp(r->device, name, len) &&
                    (!name[len] || !strcmp(r->stack, name + len + 1)));
}

static bool holds(const val_rule *u, const val_row *r)
{
    return u->kinds & 1u << r->kind && is_device(r, u->device) &&
           (!*u->shapes || is_among(r->shape, u->shapes)) && is_in(r->rows, u->least_rows, u->most_rows) &&
           is_in(r->batch, u->least_batch, u->most_batch) &&
           is_in(r->context, u->least_context, u->most_context) && (!u->devices || r->devices == u->devices);
}

val_use val_use_of(const val_row *r)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (holds(&rules[i], r)) return rules[i].use;
    return VAL_CALIBRATES;
}

static void print_range(const char *what, uint64_t least, uint64_t most)
{
    if (most) printf(", %s %llu to %llu", what, (unsigned long long)least, (unsigned long long)most);
    else if (least) printf(", %s from %llu", what, (unsigned long long)least);
}

void val_print_split(void)
{
    printf("held out by rule; all other rows calibrate:\n");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const val_rule *u = &rules[i];
        printf("  %-7s %s", val_use_names[u->use], *u->device ? u->device : "all devices");
        if (*u->shapes)
            printf(", %s%s", *u->shapes == '!' ? "all but " : "", u->shapes + (*u->shapes == '!'));
        if (u->devices) printf(", groups of %u", (unsigned)u->devices);
        print_range("rows", u->least_rows, u->most_rows);
        print_range("batch", u->least_batch, u->most_batch);
        print_range("context", u->least_context, u->most_context);
        printf(" (");
        const char *comma = "";
        for (int k = 0; k < VAL_KINDS && u->kinds != ALL; k++)
            if (u->kinds & 1u << k) printf("%s%s", comma, val_kind_names[k]), comma = ", ";
        printf("%s)\n", u->kinds == ALL ? "all kinds" : "");
    }
}
