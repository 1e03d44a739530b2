/* For people: what the object `device` of an answer says. */
#include "tools/cluster/show_device.h"

#include <stdio.h>

static double value(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static const char *name(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "none";
}

static void print_part(const char *what, double took_ms)
{
    if (took_ms > 0) fprintf(stderr, "           %10.2f ms %s\n", took_ms, what);
}

void tool_show_device(const json_t *o)
{
    const json_t *j = json_object_get(o, "joules"), *op;
    char what[96];
    size_t i;
    const char *schedule = json_string_value(json_object_get(o, "schedule"));
    fprintf(stderr, "device     %s (%s) and %s (%s), computed%s%s\n", name(o, "profile"), name(o, "stack"),
            name(o, "decode_profile"), name(o, "decode_stack"), schedule ? ", schedule " : "",
            schedule ? schedule : "");
    fprintf(stderr,
            "           first token after %.1f ms, %.2f ms a token; transfer %.2f ms at %s Gbit/s, %.2f ms "
            "exposed\n",
            value(o, "ttft_ms"), value(o, "tpot_ms"), value(o, "transfer_ms"), name(o, "link"),
            value(o, "exposed_transfer_ms"));
    if (json_is_true(json_object_get(o, "is_late")))
        fprintf(stderr,
                "           LATE: the host needed %.1f ms more than the pace of %.1f ms; take a larger K\n",
                value(o, "late_ms"), value(o, "paced_ms"));
    fprintf(stderr, "           %.2f %% of the peak in prefill, %.1f %% of the memory's in decode; ",
            100 * value(o, "utilisation"), 100 * value(o, "decode_utilisation"));
    if (json_is_number(j))
        fprintf(stderr, "%.3f J%s\n", json_number_value(j),
                json_is_true(json_object_get(o, "joules_of_tdp")) ? " at most, by a TDP" : "");
    else fprintf(stderr, "no source for its energy\n");
    print_part("NPU", value(o, "npu_ms"));
    json_array_foreach(json_object_get(o, "companion_ops"), i, op) {
        snprintf(what, sizeof what, "%s on the companion, %s", name(op, "op"), name(o, "companion"));
        print_part(what, value(op, "ms"));
    }
    print_part("conversions between the two", value(o, "edges_ms"));
    print_part("waiting for each other", value(o, "sync_ms"));
    print_part("session switches", value(o, "session_ms"));
    print_part("spilled bytes, of the NPU's", value(o, "spill_ms"));
    print_part("first use of the programs", value(o, "first_use_ms"));
    print_part("the NPU waits for the companion", value(o, "npu_bubble_ms"));
    print_part("the companion waits for the NPU", value(o, "companion_bubble_ms"));
    print_part("once, compiling them on the device", value(o, "compile_ms"));
}
