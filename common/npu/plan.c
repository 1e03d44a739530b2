/* Cutting prompts into shapes: arithmetic on counts, nothing else. */
#include "npu/plan.h"
#include "base/num.h"

#include <string.h>

enum { GRANULE = 16, MAX_CHUNK = 4096 };

static size_t round_up(size_t n) { return (n + GRANULE - 1) / GRANULE * GRANULE; }

bt_err bt_plan_parse(bt_plan_policy *ret, const char *text, bt_fault *fault)
{
    static const char prefix[] = "chunk:", suffix[] = "+tail";
    if (!text) text = BT_PLAN_DEFAULT;
    const char *const given = text;
    if (!strcmp(text, "whole")) {
        *ret = (bt_plan_policy){.kind = BT_PLAN_WHOLE};
        return BT_OK;
    }
    char digits[8];
    size_t len = strlen(text);
    bt_plan_policy p = {.kind = BT_PLAN_CHUNK};
    if (strncmp(text, prefix, sizeof prefix - 1)) goto bad;
    text += sizeof prefix - 1;
    len -= sizeof prefix - 1;
    if (len >= sizeof suffix && !strcmp(text + len - (sizeof suffix - 1), suffix)) {
        p.kind = BT_PLAN_CHUNK_TAIL;
        len -= sizeof suffix - 1;
    }
    if (len >= sizeof digits) goto bad;
    memcpy(digits, text, len);
    digits[len] = 0;
    int64_t n;
    if (bt_num_int(&n, digits, GRANULE, MAX_CHUNK, NULL) < 0 || (n & (n - 1))) goto bad;
    p.chunk_tokens = (size_t)n;
    *ret = p;
    return BT_OK;
bad:
    return bt_fail(fault, BT_EARG,
                   "'%.40s' is no shape policy: those are chunk:N+tail, chunk:N (N a power of two, %d to %d) and whole",
                   given, GRANULE, MAX_CHUNK);
}

bt_plan_chunk bt_plan_next(bt_plan_policy policy, size_t n, size_t begin)
{
    const size_t left = n - begin;
    size_t rows = policy.chunk_tokens;
    switch (policy.kind) {
    case BT_PLAN_CHUNK: break;
    case BT_PLAN_CHUNK_TAIL:
        if (left < rows)
            for (rows = GRANULE; rows < left;) rows *= 2;
        break;
    case BT_PLAN_WHOLE: rows = round_up(left); break;
    }
    return (bt_plan_chunk){.begin = begin, .valid = left < rows ? left : rows, .rows = rows};
}

size_t bt_plan_rows(bt_plan_policy policy, size_t n)
{
    if (n == 0) return 0;
    if (policy.kind == BT_PLAN_WHOLE) return round_up(n);
    const size_t full = n / policy.chunk_tokens * policy.chunk_tokens;
    return full + (full < n ? bt_plan_next(policy, n, full).rows : 0);
}

size_t bt_plan_shape(bt_plan_policy policy, size_t ctx_tokens, size_t i)
{
    switch (policy.kind) {
    case BT_PLAN_CHUNK: return i == 0 ? policy.chunk_tokens : 0;
    case BT_PLAN_WHOLE: return i < round_up(ctx_tokens) / GRANULE ? (i + 1) * GRANULE : 0;
    case BT_PLAN_CHUNK_TAIL: break;
    }
    /* A tail no prompt of this context can need is left out. */
    const size_t largest = bt_plan_next(policy, ctx_tokens, 0).rows;
    size_t rows = GRANULE;
    for (; i > 0 && rows < largest; i--) rows *= 2;
    return i == 0 ? rows : 0;
}
