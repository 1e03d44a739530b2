/* One table: the fields, their keys in a file, their ranges, and the values of last resort. */
#include "model/defaults.h"
#include "model/gguf.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *name, *key;
    double lo, hi, value;
    bool is_whole;
} fields[BT_DEFAULT_FIELDS] = {
    [BT_DEFAULT_TEMPERATURE] = {"temperature", "general.sampling.temp", 0, 2, 0.8, false},
    [BT_DEFAULT_TOP_P] = {"top_p", "general.sampling.top_p", 0, 1, 0.95, false},
    [BT_DEFAULT_TOP_K] = {"top_k", "general.sampling.top_k", -1, INT32_MAX, 40, true},
    [BT_DEFAULT_MIN_P] = {"min_p", "general.sampling.min_p", 0, 1, 0.05, false},
    [BT_DEFAULT_REPETITION_PENALTY] = {"repetition_penalty", "general.sampling.penalty_repeat", 0.01, 100, 1,
                                       false},
};

/* False: the file has no such key, or what it has is not used. */
static bool read_file(double *ret, const bt_gguf *g, bt_default_field i, void (*warn)(void *, const char *),
                      void *ud)
{
    bt_fault fault = {""};
    char text[320];
    double v = 0;
    if (!g || bt_gguf_find_key(g, fields[i].key) < 0) return false;
    const bt_err e = bt_gguf_require_number(&v, g, fields[i].key, &fault);
    if (e == BT_OK && v >= fields[i].lo && v <= fields[i].hi && !(fields[i].is_whole && v > floor(v))) {
        *ret = fields[i].is_whole && v < 0 ? 0 : v;
        return true;
    }
    if (e < 0) (void)snprintf(text, sizeof text, "%s; it is not used", fault.text);
    else
        (void)snprintf(text, sizeof text, "key '%s' is %g; a %s from %g to %g is needed, so it is not used",
                       fields[i].key, v, fields[i].is_whole ? "whole number" : "number", fields[i].lo,
                       fields[i].hi);
    if (warn) warn(ud, text);
    return false;
}

bt_defaults bt_defaults_of(const bt_gguf *g, void (*warn)(void *ud, const char *text), void *ud)
{
    bt_defaults d;
    for (int i = 0; i < BT_DEFAULT_FIELDS; i++) {
        d.value[i] = fields[i].value;
        d.source[i] = read_file(&d.value[i], g, (bt_default_field)i, warn, ud) ? BT_DEFAULT_FROM_FILE
                                                                               : BT_DEFAULT_FROM_PROGRAM;
    }
    return d;
}

void bt_defaults_set(bt_defaults *d, bt_default_field field, double value)
{
    d->value[field] = value;
    d->source[field] = BT_DEFAULT_FROM_OPTION;
}

const char *bt_defaults_name(bt_default_field field) { return fields[field].name; }

const char *bt_defaults_source_name(bt_default_source source)
{
    static const char *const names[] = {[BT_DEFAULT_FROM_PROGRAM] = "default",
                                        [BT_DEFAULT_FROM_FILE] = "file",
                                        [BT_DEFAULT_FROM_OPTION] = "option"};
    return names[source];
}
