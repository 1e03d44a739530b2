/* Fields that a price leaves out stand beside it. */
#include "lab/plan/ignored.h"

#include <string.h>

json_t *tool_plan_ignored(json_t *rows, const bt_dims *s)
{
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const size_t n = bt_dims_ignored_of(all, s);
    for (size_t i = 0; rows && i < n; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "model", s->name, "field", all[i].field,
                                              "bound", all[i].bound, "effect", all[i].effect));
    return rows;
}

char *tool_plan_ignored_text(char ret[TOOL_PLAN_IGNORED_BYTES], const bt_dims_ignored *i)
{
    const char *bound = !strcmp(i->bound, "upper")   ? "an upper bound"
                        : !strcmp(i->bound, "lower") ? "a lower bound"
                                                     : "no bound";
    (void)snprintf(ret, TOOL_PLAN_IGNORED_BYTES, "%s: %s (%s)", i->field, i->effect, bound);
    return ret;
}

void tool_plan_ignored_print(FILE *f, const char *head, const bt_dims *s)
{
    char text[TOOL_PLAN_IGNORED_BYTES];
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const size_t n = bt_dims_ignored_of(all, s);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%s, %s\n", head, s->name, tool_plan_ignored_text(text, &all[i]));
}
