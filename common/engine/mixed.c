/* See mixed.h. */
#include "engine/mixed.h"
#include "engine/names.h"

#include <string.h>

size_t bt_mixed_rows(const bt_prefill *p, const bt_decode *d)
{
    const bt_report_engine about = bt_prefill_about(p);
    const bt_pkg *pkg = bt_prefill_pkg(p);
    const bool is_one =
        strcmp(about.name, bt_decode_name(d)) == 0 && bt_engine_decode(about.name)->mixes &&
        bt_prefill_kv_elem_bytes(p) == bt_decode_kv_elem_bytes(d) &&
        (pkg ? pkg == bt_decode_shared_package(d) : strcmp(about.weights, bt_decode_weights(d)) == 0);
    return is_one ? bt_prefill_packed_rows(p) : 0;
}

size_t bt_mixed_logits(const char *prefill, const char *decode, bt_form weights)
{
    const bt_engine_facts *d =
        prefill && decode && !strcmp(prefill, decode) ? bt_engine_decode(decode) : NULL;
    return d && d->mixes >> weights & 1 ? BT_MIXED_PIECES : 0;
}

size_t bt_mixed_entries(bt_prefill_seq *ret, const bt_decode_seq *s, float *logits, size_t vocab)
{
    const size_t first = s->out ? s->count - s->out + 1 : s->count;
    ret[0] = (bt_prefill_seq){.kv = s->kv,
                              .ids = s->tokens,
                              .n = first,
                              .pos0 = s->pos,
                              .logits = s->out ? logits : NULL,
                              .overflow = s->overflow};
    for (size_t i = 1; i < s->out; i++)
        ret[i] = (bt_prefill_seq){.kv = s->kv,
                                  .ids = s->tokens + first + i - 1,
                                  .n = 1,
                                  .pos0 = s->pos + first + i - 1,
                                  .logits = logits + i * vocab,
                                  .overflow = s->overflow};
    return s->out ? s->out : 1;
}
