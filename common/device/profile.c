/* Device profiles: strict reading of the one format, fields that contradict each other, and the profiles
 * that are built in (the Makefile turns the files into device/profiles.h). */
#include "device/profile.h"
#include "base/buf.h"
#include "base/file.h"
#include "device/profile_number.h"
#include "device/profile_sources.h"
#include "device/profile_words.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *json;
} table[] = {
#include "device/profiles.h"
};
enum { COUNT = sizeof table / sizeof table[0] };

typedef enum kind { U32, U64, BOOL, ZERO, SHAPES } kind;
/* Every field but those of people and the operators; docs/profiles.md has a row for each
 * (tests/lint/docs.sh). */
static const struct field {
    const char *name;
    size_t offset;
    kind kind;
    uint64_t lo, hi;
} fields[] = {
    {"output_bits", offsetof(bt_profile, output_bits), U32, 8, 16},
    {"input_zero_points", offsetof(bt_profile, input_zero_points), ZERO, 0, 0},
    {"tile_rows", offsetof(bt_profile, tile_rows), U32, 1, 4096},
    {"tile_cols", offsetof(bt_profile, tile_cols), U32, 1, 4096},
    {"on_chip_bytes", offsetof(bt_profile, on_chip_bytes), U64, 1024, UINT64_C(1) << 50},
    {"map_window_bytes", offsetof(bt_profile, map_window_bytes), U64, 4096, UINT64_C(1) << 50},
    {"memory_bytes", offsetof(bt_profile, memory_bytes), U64, 4096, UINT64_C(1) << 50},
    {"last_axis_align_bytes", offsetof(bt_profile, last_axis_align_bytes), U32, 1, 4096},
    {"max_shapes", offsetof(bt_profile, max_shapes), U32, 1, 4096},
    {"range_shapes", offsetof(bt_profile, range_shapes), BOOL, 0, 1},
    {"state_pow2", offsetof(bt_profile, state_pow2), BOOL, 0, 1},
    {"state_multiple", offsetof(bt_profile, state_multiple), U32, 1, 4096},
    {"max_rows", offsetof(bt_profile, max_rows), U32, 1, 1 << 20},
    {"query_slice_rows", offsetof(bt_profile, query_slice_rows), U32, 1, 1 << 20},
    {"attention_heads_max", offsetof(bt_profile, attention_heads_max), U32, 1, 256},
    {"output_parts", offsetof(bt_profile, output_parts), U32, 1, 64},
    {"tile_input_rows", offsetof(bt_profile, tile_input_rows), U32, 1, 4096},
    {"boundary_bytes_per_us", offsetof(bt_profile, boundary_bytes_per_us), U64, 1, 1000000000},
    {"convert_elements_per_us", offsetof(bt_profile, convert_elements_per_us), U64, 1, 1000000000},
    {"min_cluster_macs", offsetof(bt_profile, min_cluster_macs), U64, 1, UINT64_C(1) << 50},
    {"session_switch_ns", offsetof(bt_profile, session_switch_ns), U32, 1, 1000000000},
    {"static_ctx", offsetof(bt_profile, static_ctx), BOOL, 0, 1},
    {"companion", offsetof(bt_profile, companion), BOOL, 0, 1},
    {"refused_shapes", offsetof(bt_profile, refused_shape), SHAPES, 1, 1 << 20},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static bt_err read_text(char *ret, size_t cap, const json_t *v, const char *field, const char *also,
                        bt_fault *fault)
{
    const char *s = json_string_value(v);
    size_t n = s ? strlen(s) : 0;
    bool ok = n > 0 && n < cap;
    for (size_t i = 0; ok && i < n; i++) {
        const bool plain = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');
        ok = also ? plain || strchr(also, s[i]) != NULL : s[i] >= 0x20 && s[i] <= 0x7e;
    }
    if (!ok)
        return bt_fail(fault, BT_EFORMAT, "field '%s': must be 1 to %zu %s", field, cap - 1,
                       also ? "small letters, digits, dots and dashes" : "printable ASCII characters");
    memcpy(ret, s, n + 1);
    return BT_OK;
}

/* [[seq, ctx], ...]: seq tokens at once, in a context of ctx. */
static bt_err read_shapes(bt_profile *p, const struct field *f, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n < 1 || n > BT_PROFILE_MAX_REFUSED)
        return bt_fail(fault, BT_EFORMAT, "field '%s': must be a list of 1 to %d pairs [seq, ctx]", f->name,
                       BT_PROFILE_MAX_REFUSED);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        const int64_t seq = json_integer_value(json_array_get(pair, 0)),
                      ctx = json_integer_value(json_array_get(pair, 1));
        char is[48] = "no pair of numbers";
        if (json_array_size(pair) == 2) snprintf(is, sizeof is, "[%" PRId64 ", %" PRId64 "]", seq, ctx);
        if (json_array_size(pair) != 2 || seq < (int64_t)f->lo || ctx > (int64_t)f->hi || seq > ctx)
            return bt_fail(
                fault, BT_EFORMAT,
                "field '%s', pair %zu: is %s, and must be [seq, ctx] in tokens, 1 <= seq <= ctx <= %" PRIu64,
                f->name, i + 1, is, f->hi);
        p->refused_shape[i].seq = (uint32_t)seq;
        p->refused_shape[i].ctx = (uint32_t)ctx;
        for (size_t k = 0; k < i; k++)
            if (!memcmp(&p->refused_shape[k], &p->refused_shape[i], sizeof p->refused_shape[i]))
                return bt_fail(fault, BT_EFORMAT, "field '%s': [%" PRId64 ", %" PRId64 "] twice", f->name,
                               seq, ctx);
    }
    p->refused_shapes = (uint32_t)n;
    return BT_OK;
}

static bt_err read_zero(uint32_t *ret, const char *field, const json_t *v, bt_fault *fault)
{
    static const char *const words[] = {"allowed", "none", "wanted"}; /* as bt_profile_zero */
    char is[BT_PROFILE_VALUE_BYTES];
    const char *word = json_string_value(v);
    for (uint32_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) {
            *ret = i;
            return BT_OK;
        }
    return bt_fail(fault, BT_EFORMAT, "field '%s': is %s, and must be 'none', 'allowed' or 'wanted'", field,
                   bt_profile_value_text(is, v));
}

static bt_err read_field(bt_profile *p, const struct field *f, const json_t *v, bt_fault *fault)
{
    char *at = (char *)p + f->offset;
    if (f->kind == SHAPES) return read_shapes(p, f, v, fault);
    if (f->kind == ZERO) return read_zero((uint32_t *)(void *)at, f->name, v, fault);
    if (f->kind == BOOL) {
        char is[BT_PROFILE_VALUE_BYTES];
        if (!json_is_boolean(v))
            return bt_fail(fault, BT_EFORMAT, "field '%s': is %s, and must be true or false", f->name,
                           bt_profile_value_text(is, v));
        *(bool *)(void *)at = json_is_true(v);
        return BT_OK;
    }
    uint64_t n = 0;
    const bt_err e = bt_profile_number(&n, v, f->name, f->lo, f->hi, fault);
    if (e < 0) return e;
    if (f->kind == U32) *(uint32_t *)(void *)at = (uint32_t)n;
    else *(uint64_t *)(void *)at = n;
    return BT_OK;
}

/* Says which field or class was meant. */
static bt_err bad_name(const char *what, const char *name, const char *const *known, size_t n,
                       bt_fault *fault)
{
    const char *near = bt_profile_nearest(name, known, n), *unit = near ? bt_profile_unit(near) : NULL;
    if (!near)
        return bt_fail(fault, BT_EFORMAT, "'%s' is %s; docs/profiles.md lists them", bt_profile_shown(name),
                       what);
    return bt_fail(fault, BT_EFORMAT, "'%s' is %s; did you mean '%s'%s%s?", bt_profile_shown(name), what,
                   near, unit ? ", in " : "", unit ? unit : "");
}

const char bt_profile_others[] = "others";

static bt_err read_bits(uint8_t *ret, const char *class, bool is_linear, const json_t *list, bt_fault *fault)
{
    static const char *const names[] = {"int8",    "int16",    "int4",
                                        "float16", "bfloat16", "lut"}; /* as the bits */
    enum {
        NAMES = sizeof names / sizeof *names,
        INTEGERS = BT_PROFILE_INT8 | BT_PROFILE_INT16,
        WEIGHTS = BT_PROFILE_INT4 | BT_PROFILE_LUT
    };
    uint8_t bits = 0;
    bool ok = json_array_size(list) > 0;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        unsigned b = 0;
        while (b < NAMES && (!word || strcmp(word, names[b]))) b++;
        ok = b < NAMES && !(bits & 1u << b) && (!(1u << b & WEIGHTS) || is_linear);
        if (ok) bits |= (uint8_t)(1u << b);
    }
    if (!ok || !(bits & (INTEGERS | BT_PROFILE_FLOATS)) || ((bits & WEIGHTS) && !(bits & INTEGERS)))
        return bt_fail(
            fault, BT_EFORMAT,
            "field 'operators', '%s': a list of 'int8', 'int16' and 'float16' or 'bfloat16'%s, each once",
            class, is_linear ? ", and 'int4' and 'lut' beside the integers" : "");
    *ret = bits;
    return BT_OK;
}

static bt_err bad_class(const char *name, bt_fault *fault)
{
    const char *known[BT_OP_CLASSES] = {bt_profile_others};
    for (int k = 0; k < BT_OP_KINDS; k++)
        if (!strcmp(name, bt_op_infos[k].name) && bt_op_infos[k].class != BT_CLASS_EDGE)
            return bt_fail(fault, BT_EFORMAT, "field 'operators': '%s' is an operator; its class is '%s'",
                           name, bt_op_class_name(bt_op_infos[k].class));
    for (int c = BT_CLASS_EDGE + 1; c < BT_OP_CLASSES; c++) known[c] = bt_op_class_name((bt_op_class)c);
    return bad_name("no class of an NPU's operators (field 'operators')", name, known, BT_OP_CLASSES, fault);
}

static bt_err read_operators(bt_profile *p, const json_t *ops, bt_fault *fault)
{
    const char *name;
    json_t *list;
    uint8_t bits[BT_OP_CLASSES] = {0}; /* others at BT_CLASS_EDGE, since no profile has edges */
    if (!json_is_object(ops))
        return bt_fail(fault, BT_EFORMAT, "field 'operators': must be an object of classes of operators");
    json_object_foreach((json_t *)(uintptr_t)ops, name, list) {
        int c = strcmp(name, bt_profile_others) ? BT_CLASS_EDGE + 1 : BT_CLASS_EDGE;
        while (c > BT_CLASS_EDGE && c < BT_OP_CLASSES && strcmp(name, bt_op_class_name((bt_op_class)c))) c++;
        if (c == BT_OP_CLASSES) return bad_class(name, fault);
        const bt_err e = read_bits(&bits[c], name, c == BT_CLASS_LINEAR, list, fault);
        if (e < 0) return e;
    }
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const uint8_t class = bt_op_infos[k].class;
        if (class != BT_CLASS_EDGE) p->op[k] = bits[class] ? bits[class] : bits[BT_CLASS_EDGE];
    }
    return BT_OK;
}

static bt_err bad_field(const char *name, bt_fault *fault)
{
    if (!strcmp(name, "launch_ns"))
        return bt_fail(fault, BT_EFORMAT,
                       "'launch_ns' is no field of a profile; 'op_launch_ns' of 'time' is");
    const char *known[FIELDS + 6] = {"name", "title", "operators", "sources", "time", "stacks"};
    for (size_t f = 0; f < FIELDS; f++) known[6 + f] = fields[f].name;
    return bad_name("no field of a profile", name, known, FIELDS + 6, fault);
}

/* ---- fields that contradict each other ---- */

/* Each line of a check is one contradiction. */

static bt_err check_sizes(const bt_profile *p, bt_fault *fault)
{
    const struct {
        const char *small, *large;
        uint64_t is, limit;
    } order[] = {
        {"map_window_bytes", "memory_bytes", p->map_window_bytes, p->memory_bytes},
        {"on_chip_bytes", "memory_bytes", p->on_chip_bytes, p->memory_bytes},
    };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i].limit && order[i].is > order[i].limit)
            return bt_fail(fault, BT_EFORMAT,
                           "field '%s': %" PRIu64 " is more than '%s' has, %" PRIu64 "; at most that",
                           order[i].small, order[i].is, order[i].large, order[i].limit);
    return BT_OK;
}

static bt_err check_switch(const bt_profile *p, bt_fault *fault)
{
    if (!p->session_switch_ns || p->map_window_bytes) return BT_OK;
    return bt_fail(fault, BT_EFORMAT,
                   "field 'session_switch_ns': %" PRIu32
                   ", and without 'map_window_bytes' there is one session; give "
                   "both or none",
                   p->session_switch_ns);
}

/* The powers of two around another number. */
static void powers_around(uint32_t n, uint32_t *ret_below, uint32_t *ret_above)
{
    uint32_t below = 1;
    while (below * 2 < n) below *= 2;
    *ret_below = below;
    *ret_above = below * 2;
}

static bt_err check_align(const bt_profile *p, bt_fault *fault)
{
    const uint32_t n = p->last_axis_align_bytes;
    uint32_t below, above;
    if (!(n & (n - 1))) return BT_OK;
    powers_around(n, &below, &above);
    return bt_fail(fault, BT_EFORMAT,
                   "field 'last_axis_align_bytes': %" PRIu32 " is no power of two; the nearest are %" PRIu32
                   " and %" PRIu32,
                   n, below, above);
}

static bt_err check_tile(const bt_profile *p, bt_fault *fault)
{
    if (!p->tile_rows == !p->tile_cols) return BT_OK;
    return bt_fail(fault, BT_EFORMAT, "field '%s': %" PRIu32 ", and there is no '%s'; give both or none",
                   p->tile_rows ? "tile_rows" : "tile_cols", p->tile_rows ? p->tile_rows : p->tile_cols,
                   p->tile_rows ? "tile_cols" : "tile_rows");
}

static bt_err check_state(const bt_profile *p, bt_fault *fault)
{
    const uint32_t m = p->state_multiple;
    uint32_t below, above;
    if (!p->state_pow2 || !m || !(m & (m - 1))) return BT_OK;
    powers_around(m, &below, &above);
    return bt_fail(fault, BT_EFORMAT,
                   "field 'state_multiple': %" PRIu32
                   ", and with 'state_pow2' it must be a power of two: %" PRIu32 " or %" PRIu32,
                   m, below, above);
}

static bt_err check_refused(const bt_profile *p, bt_fault *fault)
{
    if (!p->refused_shapes || p->static_ctx) return BT_OK;
    return bt_fail(fault, BT_EFORMAT,
                   "field 'refused_shapes': names pairs [seq, ctx], which only a device with 'static_ctx' "
                   "true tells apart");
}

/* A companion has no programs, so nothing that limits them. */
static bt_err check_companion(const bt_profile *p, bt_fault *fault)
{
    const struct {
        const char *name;
        bool is_set;
    } of_npus[] = {
        {"output_bits", p->output_bits != 16},
        {"tile_rows", p->tile_rows},
        {"on_chip_bytes", p->on_chip_bytes},
        {"map_window_bytes", p->map_window_bytes},
        {"last_axis_align_bytes", p->last_axis_align_bytes},
        {"max_shapes", p->max_shapes},
        {"range_shapes", !p->range_shapes},
        {"state_pow2", p->state_pow2},
        {"state_multiple", p->state_multiple},
        {"max_rows", p->max_rows},
        {"query_slice_rows", p->query_slice_rows},
        {"attention_heads_max", p->attention_heads_max},
        {"output_parts", p->output_parts},
        {"tile_input_rows", p->tile_input_rows},
        {"boundary_bytes_per_us", p->boundary_bytes_per_us},
        {"convert_elements_per_us", p->convert_elements_per_us},
        {"min_cluster_macs", p->min_cluster_macs},
        {"static_ctx", p->static_ctx},
        {"refused_shapes", p->refused_shapes},
    };
    if (!p->companion) return BT_OK;
    for (int k = 0; k < BT_OP_KINDS; k++)
        if (p->op[k])
            return bt_fail(fault, BT_EFORMAT,
                           "field 'operators', '%s': a companion runs what the NPU leaves; 'operators' is {}",
                           bt_op_class_name(bt_op_infos[k].class));
    for (size_t i = 0; i < sizeof of_npus / sizeof *of_npus; i++)
        if (of_npus[i].is_set)
            return bt_fail(fault, BT_EFORMAT,
                           "field '%s': is of NPUs, and 'companion' is true; leave one of them out",
                           of_npus[i].name);
    return BT_OK;
}

/* A package has one form of floats. */
static bt_err check_floats(const bt_profile *p, bt_fault *fault)
{
    const char *of[2] = {NULL, NULL};
    for (int k = 0; k < BT_OP_KINDS; k++)
        for (int f = 0; f < 2; f++)
            if (p->op[k] & (f ? BT_PROFILE_BFLOAT16 : BT_PROFILE_FLOAT16))
                of[f] = bt_op_class_name(bt_op_infos[k].class);
    return of[0] && of[1]
               ? bt_fail(
                     fault, BT_EFORMAT,
                     "field 'operators': '%s' takes 'float16' and '%s' 'bfloat16'; a device has one of them",
                     of[0], of[1])
               : BT_OK;
}

/* Fields that are each in range but contradict each other: both, their values, and values that would do. */
static bt_err check_profile(const bt_profile *p, bt_fault *fault)
{
    bt_err e;
    if (p->output_bits != 8 && p->output_bits != 16)
        return bt_fail(fault, BT_EFORMAT, "field 'output_bits': is %" PRIu32 ", and must be 8 or 16",
                       p->output_bits);
    if ((e = check_tile(p, fault)) < 0) return e;
    if ((e = check_align(p, fault)) < 0) return e;
    if ((e = check_sizes(p, fault)) < 0) return e;
    if ((e = check_switch(p, fault)) < 0) return e;
    if ((e = check_state(p, fault)) < 0) return e;
    if ((e = check_companion(p, fault)) < 0) return e;
    if ((e = check_floats(p, fault)) < 0) return e;
    return check_refused(p, fault);
}

/* ---- the whole ---- */

static bt_err check_programs(const bt_profile *p, const bt_profile_time *t, bt_fault *fault)
{
    const bool is_first = !strcmp(t->stack, p->first_stack);
    if (p->companion || !t->programs) return BT_OK;
    return bt_fail(fault, BT_EFORMAT,
                   "field '%s'%s%s%s, 'program_rows': is of servers and GPUs that pad prompts; an NPU's "
                   "programs are those of its packages, so give 'companion' true or leave the field out",
                   is_first ? "time" : "stacks", is_first ? "" : ", '", is_first ? "" : t->stack,
                   is_first ? "" : "'");
}

/* All stacks are checked; the time of the one that is asked for becomes the profile's. */
static bt_err read_stacks(bt_profile *p, const json_t *stacks, const char *asked, bt_fault *fault)
{
    const char *name;
    json_t *object;
    bt_profile_time of, chosen;
    memcpy(&chosen, &p->time, sizeof chosen); /* its gaps too, as everywhere */
    memcpy(p->first_stack, p->time.stack, sizeof p->first_stack);
    const bt_err of_time = check_programs(p, &p->time, fault);
    if (of_time < 0 || !stacks) return of_time;
    if (!json_is_object(stacks) || !p->time.is_given || json_object_size(stacks) > BT_PROFILE_MAX_STACKS)
        return bt_fail(fault, BT_EFORMAT,
                       "field 'stacks': must be an object of at most %d stacks, beside 'time'",
                       BT_PROFILE_MAX_STACKS);
    json_object_foreach((json_t *)(uintptr_t)stacks, name, object) {
        char *to = p->stack[p->stacks++];
        json_t *key = json_string(name);
        bt_err e = read_text(to, sizeof p->stack[0], key, "stacks", ".-", fault);
        json_decref(key);
        if (e == BT_OK && !strcmp(to, p->time.stack))
            e = bt_fail(fault, BT_EFORMAT, "field 'stacks': '%s' is the stack of 'time' too", to);
        if (e == BT_OK) e = bt_profile_time_stack(&of, &p->time, to, object, fault);
        if (e == BT_OK) e = check_programs(p, &of, fault);
        if (e < 0) return e;
        if (asked && !strcmp(asked, to)) memcpy(&chosen, &of, sizeof chosen);
    }
    memcpy(&p->time, &chosen, sizeof chosen);
    return BT_OK;
}

static bt_err read_root(bt_profile *p, const json_t *root, const char *stack, bt_fault *fault)
{
    const char *name;
    json_t *value;
    if (!json_is_object(root)) return bt_fail(fault, BT_EFORMAT, "must be a JSON object");
    json_object_foreach((json_t *)(uintptr_t)root, name, value) {
        bt_err e;
        size_t f = 0;
        while (f < FIELDS && strcmp(name, fields[f].name)) f++;
        if (f < FIELDS) e = read_field(p, &fields[f], value, fault);
        else if (!strcmp(name, "name")) e = read_text(p->name, sizeof p->name, value, "name", ".-", fault);
        else if (!strcmp(name, "title"))
            e = read_text(p->title, sizeof p->title, value, "title", NULL, fault);
        else if (!strcmp(name, "operators")) e = read_operators(p, value, fault);
        else if (!strcmp(name, "time")) e = bt_profile_time_read(&p->time, value, fault);
        else if (!strcmp(name, "stacks")) continue; /* once `time` is known */
        else if (!strcmp(name, "sources")) e = bt_profile_sources(value, root, fault);
        else e = bad_field(name, fault);
        if (e < 0) return e;
    }
    if (!p->name[0] || !p->title[0] || !json_object_get(root, "operators"))
        return bt_fail(fault, BT_EFORMAT, "field '%s': is missing",
                       !p->name[0]    ? "name"
                       : !p->title[0] ? "title"
                                      : "operators");
    const bt_err e = read_stacks(p, json_object_get(root, "stacks"), stack, fault);
    return e == BT_OK ? check_profile(p, fault) : e;
}

/* stack NULL: that of `time`. The name of one that the file lacks changes nothing. */
static bt_err parse(bt_profile *ret, const char *json, size_t len, const char *stack, bt_fault *fault)
{
    bt_profile p;
    bt_fault inner = {""};
    json_error_t je;
    if (len > BT_PROFILE_MAX_BYTES)
        return bt_fail(fault, BT_ELIMIT, "the profile has %zu bytes; at most %d are allowed", len,
                       BT_PROFILE_MAX_BYTES);
    memset(&p, 0, sizeof p); /* its gaps too: npu/compile/compile.c names a package by all bytes */
    p.output_bits = 16;
    p.range_shapes = true;
    /* jansson bounds the depth of nesting itself, and refuses NUL characters. */
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        for (char *c = je.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) *c = '?';
        return bt_fail(fault, BT_EFORMAT, "profile, line %d: %.120s", je.line, je.text);
    }
    const bt_err e = read_root(&p, root, stack, &inner);
    json_decref(root);
    if (e < 0) return bt_fail(fault, e, "profile: %s", inner.text);
    memcpy(ret, &p, sizeof p);
    return BT_OK;
}

bt_err bt_profile_parse(bt_profile *ret, const char *json, size_t len, bt_fault *fault)
{
    return parse(ret, json, len, NULL, fault);
}

bool bt_profile_has_stack(const bt_profile *p, const char *stack)
{
    for (uint32_t i = 0; i < p->stacks; i++)
        if (!strcmp(stack, p->stack[i])) return true;
    return *p->first_stack && !strcmp(stack, p->first_stack);
}

/* ---- NAME[xN][@STACK] ---- */

typedef struct asked {
    char name[BT_PROFILE_PATH_BYTES]; /* or path */
    const char *stack;                /* NULL: none */
    uint32_t devices;                 /* 0: no group */
    bool is_path;
} asked;

static size_t built_in(const char *name)
{
    size_t i = 0;
    while (i < COUNT && strcmp(name, table[i].name)) i++;
    return i;
}

static bool is_path(const char *name)
{
    const size_t len = strlen(name);
    return strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".json"));
}

/* xN of 2 to 6 characters at the end of a text; the number, or 0. A 1 asks for no group. */
static uint32_t group_at(char *text, char **ret_x)
{
    char *digits = text + strlen(text);
    uint32_t n = 0;
    while (digits > text && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    if (!*digits || *digits == '0' || strlen(digits) > 5 || digits - text < 2 || digits[-1] != 'x') return 0;
    for (const char *c = digits; *c; c++) n = n * 10 + (uint32_t)(*c - '0');
    *ret_x = digits - 1;
    return n;
}

static bool is_known(const char *name)
{
    return built_in(name) < COUNT || (strlen(name) > 5 && !strcmp(name + strlen(name) - 5, ".json"));
}

/* A text that is known as it stands is a name or a file. Else the last @ begins a stack, and xN before it
 * asks for a group. */
static asked asked_of(const char *text)
{
    asked d = {.stack = NULL};
    char *x;
    memcpy(d.name, text, strlen(text) + 1);
    if (!is_known(d.name)) {
        char *at = strrchr(d.name, '@');
        if (at && at[1] && !strchr(at, '/')) {
            *at = 0;
            d.stack = text + (at - d.name) + 1;
        }
        if (!is_known(d.name) && (d.devices = group_at(d.name, &x)) != 0) {
            *x = 0;
            if (!is_known(d.name)) *x = 'x', d.devices = 0;
        }
        if (at && !is_known(d.name) && strchr(d.name, '/')) *at = '@', d.stack = NULL;
    }
    d.is_path = is_path(d.name);
    return d;
}

/* "vllm, trtllm" */
static const char *stack_list(char *ret, size_t cap, const bt_profile *p)
{
    size_t n = (size_t)snprintf(ret, cap, "%s", p->first_stack);
    for (uint32_t i = 0; i < p->stacks && n < cap; i++)
        n += (size_t)snprintf(ret + n, cap - n, ", %s", p->stack[i]);
    return ret;
}

static bt_err take_group(bt_profile *p, uint32_t devices, bt_fault *fault)
{
    char list[96] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < p->time.sizes; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%" PRIu32, i ? ", " : "", p->time.group_size[i]);
        if (p->time.group_size[i] != devices) continue;
        p->time.devices = devices;
        return BT_OK;
    }
    return bt_fail(fault, BT_EARG,
                   n ? "profile '%s' has no group of %" PRIu32 " devices; it has groups of %s"
                     : "profile '%s' has no groups of devices, so none of %" PRIu32 "%s",
                   p->name, devices, list);
}

bool bt_profile_group(bt_profile *ret, const bt_profile *of, uint32_t devices)
{
    char old[16], text[16] = "", *at = NULL;
    bool has = devices == 1;
    for (uint32_t i = 0; i < of->time.sizes; i++) has = has || of->time.group_size[i] == devices;
    if (!of->time.sizes || of->time.devices <= devices || !has) return false;
    /* NAMExN[@STACK]: the last xN before the stack */
    (void)snprintf(old, sizeof old, "x%" PRIu32, of->time.devices);
    memmove(ret, of, sizeof *ret);
    ret->time.devices = devices > 1 ? devices : 0;
    if (devices > 1) (void)snprintf(text, sizeof text, "x%" PRIu32, devices);
    const char *stack = strrchr(ret->name, '@');
    for (char *next = ret->name; (next = strstr(next, old)) != NULL && (!stack || next < stack); next++)
        at = next;
    if (at) {
        char rest[sizeof ret->name];
        (void)snprintf(rest, sizeof rest, "%s", at + strlen(old));
        (void)snprintf(at, sizeof ret->name - (size_t)(at - ret->name), "%s%s", text, rest);
    }
    return true;
}

/* Takes the group that a name asks for, checks its stack, and writes the whole name. */
static bt_err take_device(bt_profile *p, const asked *d, bt_fault *fault)
{
    char list[(BT_PROFILE_MAX_STACKS + 1) * (BT_PROFILE_TIME_MAX_STACK + 3)], name[sizeof p->name + 48];
    if (d->stack && !bt_profile_has_stack(p, d->stack))
        return *p->first_stack ? bt_fail(fault, BT_EARG, "profile '%s' has no stack '%.31s'; it has %s",
                                         p->name, d->stack, stack_list(list, sizeof list, p))
                               : bt_fail(fault, BT_EARG, "profile '%s' has no time, so no stack '%.31s'",
                                         p->name, d->stack);
    const bt_err e = d->devices > 1 ? take_group(p, d->devices, fault) : BT_OK;
    if (e < 0) return e;
    const bool is_other = d->stack && strcmp(d->stack, p->first_stack);
    int n = snprintf(name, sizeof name, "%s", p->name);
    if (p->time.sizes && p->time.devices)
        n += snprintf(name + n, sizeof name - (size_t)n, "x%" PRIu32, p->time.devices);
    if (is_other) n += snprintf(name + n, sizeof name - (size_t)n, "@%s", d->stack);
    if ((size_t)n >= sizeof p->name)
        return bt_fail(fault, BT_EARG, "the device's name '%s' has more than %d characters", name,
                       BT_PROFILE_MAX_NAME);
    memcpy(p->name, name, (size_t)n + 1);
    return BT_OK;
}

static bt_err load_file(bt_profile *ret, const asked *d, bt_fault *fault)
{
    bt_fault inner = {""};
    bt_buf buf;
    bt_buf_init(&buf, BT_PROFILE_MAX_BYTES);
    bt_err e = bt_file_read(&buf, d->name, fault);
    if (e == BT_OK && (e = parse(ret, bt_buf_text(&buf), buf.len, d->stack, &inner)) < 0)
        (void)bt_fail(fault, e, "%.100s: %.150s", d->name, inner.text);
    bt_buf_done(&buf);
    return e;
}

bt_err bt_profile_load(bt_profile *ret, const char *device, bt_fault *fault)
{
    const char *names[COUNT], *near;
    bt_profile p;
    bt_err e;
    if (device && strlen(device) >= sizeof((asked *)NULL)->name)
        return bt_fail(fault, BT_EARG, "the device '%.40s...' has more than %zu characters", device,
                       sizeof((asked *)NULL)->name - 1);
    const asked d = asked_of(device ? device : "host");
    const size_t i = built_in(d.name);
    if (i < COUNT) e = parse(&p, table[i].json, strlen(table[i].json), d.stack, fault);
    else if (d.is_path) e = load_file(&p, &d, fault);
    else {
        for (size_t k = 0; k < COUNT; k++) names[k] = table[k].name;
        near = bt_profile_nearest(d.name, names, COUNT);
        return bt_fail(fault, BT_EARG,
                       "no profile '%.30s'%s%s%s 'baton profiles' lists them; a path ends in .json", d.name,
                       near ? "; did you mean '" : ";", near ? near : "", near ? "'?" : "");
    }
    if (e == BT_OK) e = take_device(&p, &d, fault);
    if (e == BT_OK) memcpy(ret, &p, sizeof p);
    return e;
}

bt_err bt_profile_companion(bt_profile *ret, const bt_profile *of, bt_fault *fault)
{
    bt_profile p;
    bt_fault inner = {""};
    const bt_err e = bt_profile_load(&p, of->time.companion, &inner);
    if (e < 0) return bt_fail(fault, e, "profile '%s', field 'time', 'companion': %s", of->name, inner.text);
    if (!p.time.is_given)
        return bt_fail(fault, BT_EARG,
                       "profile '%s', field 'time', 'companion': '%s' has no time; 'baton "
                       "profiles' lists those that have, for example adreno-750",
                       of->name, p.name);
    *ret = p;
    return BT_OK;
}

const char *bt_profile_name(size_t i) { return i < COUNT ? table[i].name : NULL; }
const char *bt_profile_file(char ret_path[BT_PROFILE_PATH_BYTES], const char *device)
{
    const asked d = asked_of(strlen(device) < BT_PROFILE_PATH_BYTES ? device : "");
    const size_t i = built_in(d.name);
    memcpy(ret_path, d.name, strlen(d.name) + 1);
    return i < COUNT ? table[i].json : NULL;
}

const char *bt_profile_json(size_t i) { return i < COUNT ? table[i].json : NULL; }
