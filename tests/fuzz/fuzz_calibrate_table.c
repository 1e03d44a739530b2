/* Any bytes as a table of measured times, and its first line as a typed point: what is accepted is within its
 * bounds, and an error can go to a terminal. */
#include "lab/calibrate/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(const tool_calibrate_table *t)
{
    const tool_calibrate_points *p = &t->points;
    if (p->prompts > TOOL_CALIBRATE_PROMPTS || p->steps > TOOL_CALIBRATE_STEPS) abort();
    if (t->rows < (p->prompts > p->steps ? p->prompts : p->steps)) abort();
    for (size_t i = 0; i < p->prompts; i++)
        if (!p->prompt[i].tokens || p->prompt[i].tokens > TOOL_CALIBRATE_MOST_TOKENS ||
            !(p->prompt[i].ns > 0) || !isfinite(p->prompt[i].ns))
            abort();
    for (size_t i = 0; i < p->steps; i++)
        if (!p->step[i].batch || !p->step[i].ctx || p->step[i].ctx > TOOL_CALIBRATE_MOST_TOKENS ||
            !(p->step[i].ns > 0) || !isfinite(p->step[i].ns))
            abort();
    for (const char *c = t->on; *c; c++)
        if (*c < 0x20 || *c > 0x7e) abort(); /* it goes into the profile */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    tool_calibrate_table t = {.rows = 0}, typed = {.rows = 0};
    char point[128] = "";
    const char *items[] = {"model=A"};
    const bt_opt_list where = {items, 1};
    bt_fault fault = {""};
    if (tool_calibrate_table_parse(&t, (const char *)data, len, NULL, &fault) == BT_OK) check(&t);
    (void)tool_calibrate_table_parse(&t, (const char *)data, len, &where, NULL);
    for (const char *c = fault.text; *c; c++)
        if (*c < 0x20 || *c > 0x7e) abort();
    if (len) memcpy(point, data, len < sizeof point - 1 ? len : sizeof point - 1);
    point[strcspn(point, "\n")] = 0;
    if (tool_calibrate_table_point(&typed, point, NULL) == BT_OK) check(&typed);
    return 0;
}
