/* Any text as --faults: what is read is within the limits that the header gives, and reads the same when it
 * is written again. */
#include "lab/simulate/faults.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 4000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static size_t put(char *to, size_t room, const tool_simulate_fault *f)
{
    static const char *const verbs[] = {"", "kill", "stop", "slow"}, *const places[] = {"", "prefill",
                                                                                        "decode", "link"};
    char times[24] = "", during[40] = "";
    if (f->times) (void)snprintf(times, sizeof times, " %ux", f->times);
    if (f->for_us) (void)snprintf(during, sizeof during, " for %lldus", (long long)f->for_us);
    return (size_t)snprintf(to, room, "%s %s %u%s at %lldus%s;", verbs[f->what], places[f->where], f->number,
                            times, (long long)f->at_us, during);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static tool_simulate_faults first, second;
    static char text[LIMIT + 1], again[TOOL_SIMULATE_FAULTS * 160];
    bt_fault fault = {""};
    size_t used = 0;
    if (len > LIMIT) len = LIMIT;
    memcpy(text, data, len);
    text[len] = 0;
    if (tool_simulate_faults_read(&first, text, &fault) < 0) {
        if (!fault.text[0]) abort();
        return 0;
    }
    for (size_t i = 0; i < first.len; i++) {
        const tool_simulate_fault *f = &first.fault[i];
        if (f->at_us < 0 || f->for_us < 0 ||
            (f->what == TOOL_SIMULATE_SLOW) != (f->where == TOOL_SIMULATE_LINK))
            abort();
        if ((f->what == TOOL_SIMULATE_SLOW) != (f->times >= 2)) abort();
        used += put(again + used, sizeof again - used, f);
    }
    again[used] = 0;
    if (tool_simulate_faults_read(&second, again, &fault) < 0 || second.len != first.len) abort();
    for (size_t i = 0; i < first.len; i++) {
        const tool_simulate_fault *a = &first.fault[i], *b = &second.fault[i];
        if (a->what != b->what || a->where != b->where || a->number != b->number || a->times != b->times ||
            a->at_us != b->at_us || a->for_us != b->for_us)
            abort();
    }
    return 0;
}
