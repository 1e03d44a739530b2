/* Options to fields of a request. */
#include "tools/commands/sampling.h"
#include "model/options.h"

#define ROW(option, field) \
    { \
        .of = &bt_sampling_opts, .name = option, BT_OPT_AT(tool_sampling, field) \
    }
static const bt_opt rows[] = {
    ROW("temp", temp),
    ROW("top-k", top_k),
    ROW("top-p", top_p),
    ROW("min-p", min_p),
    ROW("presence-penalty", presence_penalty),
    ROW("frequency-penalty", frequency_penalty),
    ROW("repetition-penalty", repetition_penalty),
};
const bt_opt_group tool_sampling_opts = BT_OPT_GROUP(rows);

bool tool_sampling_add(json_t *request, const tool_sampling *s, const bt_opt_args *args)
{
    const struct {
        const char *option, *field;
        double value;
    } all[] = {
        {"temp", "temperature", s->temp},
        {"top-p", "top_p", s->top_p},
        {"min-p", "min_p", s->min_p},
        {"presence-penalty", "presence_penalty", s->presence_penalty},
        {"frequency-penalty", "frequency_penalty", s->frequency_penalty},
        {"repetition-penalty", "repetition_penalty", s->repetition_penalty},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (bt_opt_source_of(args, all[i].option) != BT_OPT_FROM_DEFAULT &&
            json_object_set_new(request, all[i].field, json_real(all[i].value)) < 0)
            return false;
    return bt_opt_source_of(args, "top-k") == BT_OPT_FROM_DEFAULT ||
           json_object_set_new(request, "top_k", json_integer(s->top_k)) == 0;
}
