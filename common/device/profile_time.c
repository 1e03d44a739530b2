/* The object `time` of a profile: one table of fields, each with its range; what they say of each other. */
#include "device/profile_time.h"
#include "device/profile_number.h"
#include "device/profile_sources.h"
#include "device/profile_words.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

typedef enum kind { U32, U64, POINTS, SUMS, KERNELS, SIZES, PROGRAMS, TEXT, CALIBRATION } kind;
#define RATE_MAX UINT64_C(1000000000000)
/* docs/profiles.md has a row for each (tests/lint/docs.sh). */
struct field {
    const char *name;
    size_t offset;
    kind kind;
    uint64_t lo, hi;
};
static const struct field fields[] = {
    {"stack", offsetof(bt_profile_time, stack), TEXT, 1, BT_PROFILE_TIME_MAX_STACK},
    {"companion", offsetof(bt_profile_time, companion), TEXT, 1, 63},
    {"f16_ops_per_us", offsetof(bt_profile_time, f16_ops_per_us), U64, 1, RATE_MAX},
    {"int8_permille", offsetof(bt_profile_time, int8_permille), U32, 1, 100000},
    {"int4_permille", offsetof(bt_profile_time, int4_permille), U32, 1, 100000},
    {"fp8_permille", offsetof(bt_profile_time, fp8_permille), U32, 1, 100000},
    {"fp4_permille", offsetof(bt_profile_time, fp4_permille), U32, 1, 100000},
    {"efficiency", offsetof(bt_profile_time, efficiency), POINTS, 1, 1 << 20},
    {"tile_rows", offsetof(bt_profile_time, tile_rows), U32, 1, 4096},
    {"tile_permille", offsetof(bt_profile_time, tile_permille), U32, 1, 1000},
    {"tile_int8_permille", offsetof(bt_profile_time, tile_int8_permille), U32, 1, 1000},
    {"program_rows", offsetof(bt_profile_time, program_rows), PROGRAMS, 1, 1 << 20},
    {"array_rows", offsetof(bt_profile_time, array_rows), U32, 1, 4096},
    {"array_cols", offsetof(bt_profile_time, array_cols), U32, 1, 4096},
    {"arrays", offsetof(bt_profile_time, arrays), U32, 1, 4096},
    {"clock_khz", offsetof(bt_profile_time, clock_khz), U64, 1, 10000000},
    {"group32_permille", offsetof(bt_profile_time, group32_permille), U32, 1000, 100000},
    {"memory_bytes_per_us", offsetof(bt_profile_time, memory_bytes_per_us), U64, 1, RATE_MAX},
    {"weight_bytes_per_us", offsetof(bt_profile_time, weight_bytes_per_us), U64, 1, RATE_MAX},
    {"activation_bytes_per_us", offsetof(bt_profile_time, activation_bytes_per_us), U64, 1, RATE_MAX},
    {"decode_bytes_per_us", offsetof(bt_profile_time, decode_bytes_per_us), U64, 1, RATE_MAX},
    {"int4_bytes_per_us", offsetof(bt_profile_time, int4_bytes_per_us), U64, 1, RATE_MAX},
    {"shared_bytes_per_us", offsetof(bt_profile_time, shared_bytes_per_us), U64, 1, RATE_MAX},
    {"first_weight_bytes_per_us", offsetof(bt_profile_time, first_weight_bytes_per_us), U64, 1, RATE_MAX},
    {"score_elements_per_us", offsetof(bt_profile_time, score_elements_per_us), U64, 1, RATE_MAX},
    {"op_launch_ns", offsetof(bt_profile_time, op_launch_ns), U32, 1, 1000000000},
    {"dispatch_ns", offsetof(bt_profile_time, dispatch_ns), U32, 1, 1000000000},
    {"sync_ns", offsetof(bt_profile_time, sync_ns), U32, 1, 1000000000},
    {"first_launch_ns", offsetof(bt_profile_time, first_launch_ns), U32, 1, 1000000000},
    {"decode_op_ns", offsetof(bt_profile_time, decode_op_ns), U32, 1, 1000000000},
    {"linear_launch_ns", offsetof(bt_profile_time, linear_launch_ns), U32, 1, 1000000000},
    {"quantize_launch_ns", offsetof(bt_profile_time, quantize_launch_ns), U32, 1, 1000000000},
    {"layer_matrices", offsetof(bt_profile_time, layer_matrices), U32, 1, 64},
    {"input_ps", offsetof(bt_profile_time, input_ps), U32, 1, 1000000},
    {"unhidden_permille", offsetof(bt_profile_time, unhidden_permille), U32, 1, 1000},
    {"small_launch_ns", offsetof(bt_profile_time, small_launch_ns), U32, 1, 1000000000},
    {"sequence_ns", offsetof(bt_profile_time, sequence_ns), U32, 1, 1000000000},
    {"attention", offsetof(bt_profile_time, attention), KERNELS, 1, BT_PROFILE_TIME_MAX_KERNELS},
    {"program_compile_ns", offsetof(bt_profile_time, program_compile_ns), U64, 1, UINT64_C(100000000000000)},
    {"devices", offsetof(bt_profile_time, devices), U32, 2, 1024},
    {"group_sizes", offsetof(bt_profile_time, group_size), SIZES, 2, 1024},
    {"interconnect_bytes_per_us", offsetof(bt_profile_time, interconnect_bytes_per_us), U64, 1, RATE_MAX},
    {"interconnect_ns", offsetof(bt_profile_time, interconnect_ns), U32, 1, 1000000000},
    {"all_reduce", offsetof(bt_profile_time, all_reduce), SUMS, 1, 1000000000},
    {"idle_mw", offsetof(bt_profile_time, idle_mw), U32, 1, 100000000},
    {"busy_mw", offsetof(bt_profile_time, busy_mw), U32, 1, 100000000},
    {"polling_mw", offsetof(bt_profile_time, polling_mw), U32, 1, 100000000},
    {"tdp_mw", offsetof(bt_profile_time, tdp_mw), U32, 1, 100000000},
    {"op_fj", offsetof(bt_profile_time, op_fj), U32, 1, 1000000},
    {"byte_fj", offsetof(bt_profile_time, byte_fj), U32, 1, 1000000000},
    {"calibration", offsetof(bt_profile_time, calibration), CALIBRATION, 1, 1},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
/* An object of the list `attention` has them. */
static const struct field kernel_fields[] = {
    {"head_dim", offsetof(bt_profile_attention, head_dim), U32, 1, 4096},
    {"group", offsetof(bt_profile_attention, group), U32, 1, 256},
    {"launch_ns", offsetof(bt_profile_attention, launch_ns), U32, 1, 1000000000},
    {"row_launch_ns", offsetof(bt_profile_attention, row_launch_ns), U32, 1, 1000000000},
    {"kv_bytes_per_us", offsetof(bt_profile_attention, kv_bytes_per_us), U64, 1, RATE_MAX},
    {"kv_half_positions", offsetof(bt_profile_attention, kv_half_positions), U32, 1, 1 << 20},
    {"least_positions", offsetof(bt_profile_attention, least_positions), U32, 1, 1 << 20},
    {"peak_permille", offsetof(bt_profile_attention, peak_permille), U32, 1, 1000},
    {"half_rows", offsetof(bt_profile_attention, half_rows), U32, 1, 1 << 20},
    {"gather_ns", offsetof(bt_profile_attention, gather_ns), U32, 1, 1000000000},
    {"head_bytes_per_us", offsetof(bt_profile_attention, head_bytes_per_us), U64, 1, RATE_MAX},
    {"join_ns", offsetof(bt_profile_attention, join_ns), U32, 1, 1000000000},
};
enum { KERNEL_FIELDS = sizeof kernel_fields / sizeof kernel_fields[0] };

static bt_err read_points(bt_profile_time *t, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    int64_t last = 0;
    bool ok = json_is_array(list) && n >= 1 && n <= BT_PROFILE_TIME_MAX_POINTS;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        const int64_t rows = json_integer_value(json_array_get(pair, 0)),
                      permille = json_integer_value(json_array_get(pair, 1));
        ok =
            json_array_size(pair) == 2 && rows > last && rows <= 1 << 20 && permille >= 1 && permille <= 1000;
        last = rows;
        if (ok) t->efficiency[i].rows = (uint32_t)rows;
        if (ok) t->efficiency[i].permille = (uint32_t)permille;
    }
    if (!ok)
        return bt_fail(fault, BT_EFORMAT,
                       "field 'efficiency': must be 1 to %d pairs [rows, permille], rows ascending up to "
                       "2^20, permille of the peak from 1 to 1000",
                       BT_PROFILE_TIME_MAX_POINTS);
    t->points = (uint32_t)n;
    return BT_OK;
}

static bt_err read_sums(bt_profile_time *t, const struct field *f, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    bool ok = json_is_array(list) && n >= 1 && n <= BT_PROFILE_TIME_MAX_SUMS;
    for (size_t i = 0; ok && i < n; i++) {
        int64_t v[3], last[3] = {0};
        const json_t *row = json_array_get(list, i);
        for (size_t k = 0; k < 3; k++) v[k] = json_integer_value(json_array_get(row, k));
        if (i)
            last[0] = t->all_reduce[i - 1].devices, last[1] = (int64_t)t->all_reduce[i - 1].bytes,
            last[2] = t->all_reduce[i - 1].ns;
        const bool is_more = v[0] == last[0] && v[1] > last[1] && v[2] >= last[2];
        ok = json_array_size(row) == 3 && v[0] >= 2 && v[0] <= 1024 && v[1] >= 1 &&
             v[1] <= INT64_C(1) << 40 && v[2] >= (int64_t)f->lo && v[2] <= (int64_t)f->hi &&
             (v[0] > last[0] || is_more);
        t->all_reduce[i].devices = (uint32_t)v[0];
        t->all_reduce[i].bytes = (uint64_t)v[1];
        t->all_reduce[i].ns = (uint32_t)v[2];
    }
    if (!ok)
        return bt_fail(
            fault, BT_EFORMAT,
            "field '%s': must be 1 to %d lists [devices, bytes, ns]: 2 to 1024 devices, ascending, then "
            "bytes ascending up to 2^40, and times from 1 to 10^9 that do not fall with more bytes",
            f->name, BT_PROFILE_TIME_MAX_SUMS);
    t->sums = (uint32_t)n;
    return BT_OK;
}

/* At most `most` numbers within the field's range. */
static bt_err read_ascending(uint32_t *ret, uint32_t *ret_len, size_t most, const char *what,
                             const struct field *f, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    bool ok = json_is_array(list) && n >= 1 && n <= most;
    for (size_t i = 0; ok && i < n; i++) {
        const int64_t v = json_integer_value(json_array_get(list, i));
        ok = v >= (int64_t)f->lo && v <= (int64_t)f->hi && (!i || v > ret[i - 1]);
        ret[i] = (uint32_t)v;
    }
    if (!ok)
        return bt_fail(fault, BT_EFORMAT,
                       "field '%s': must be a list of 1 to %zu numbers of %s, %" PRIu64 " to %" PRIu64
                       ", ascending",
                       f->name, most, what, f->lo, f->hi);
    *ret_len = (uint32_t)n;
    return BT_OK;
}

static bt_err read_text(char *ret, const struct field *f, const json_t *v, bt_fault *fault)
{
    const char *s = json_string_value(v);
    const size_t n = s ? strlen(s) : 0;
    bool ok = s && n >= f->lo && n <= f->hi;
    for (size_t i = 0; ok && i < n; i++) ok = s[i] >= 0x20 && s[i] <= 0x7e;
    if (!ok)
        return bt_fail(fault, BT_EFORMAT, "field '%s': 1 to %" PRIu64 " printable ASCII characters", f->name,
                       f->hi);
    memcpy(ret, s, n + 1);
    return BT_OK;
}

static bt_err set_number(void *object, const struct field *f, const json_t *v, bt_fault *fault)
{
    char *at = (char *)object + f->offset;
    uint64_t n = 0;
    const bt_err e = bt_profile_number(&n, v, f->name, f->lo, f->hi, fault);
    if (e < 0) return e;
    if (f->kind == U32) *(uint32_t *)(void *)at = (uint32_t)n;
    else *(uint64_t *)(void *)at = n;
    return BT_OK;
}

static bt_err read_kernel(bt_profile_attention *ret, const json_t *object, bt_fault *fault)
{
    const char *name, *known[KERNEL_FIELDS], *near;
    json_t *value;
    if (!json_is_object(object)) return bt_fail(fault, BT_EFORMAT, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t f = 0;
        while (f < KERNEL_FIELDS && strcmp(name, kernel_fields[f].name)) f++;
        if (f < KERNEL_FIELDS) {
            const bt_err e = set_number(ret, &kernel_fields[f], value, fault);
            if (e < 0) return e;
            continue;
        }
        for (size_t i = 0; i < KERNEL_FIELDS; i++) known[i] = kernel_fields[i].name;
        near = bt_profile_nearest(name, known, KERNEL_FIELDS);
        return bt_fail(fault, BT_EFORMAT, "'%s' is no field of it%s%s%s", bt_profile_shown(name),
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return BT_OK;
}

static bt_err read_kernels(bt_profile_time *t, const struct field *f, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    bt_fault inner = {""};
    if (!json_is_array(list) || n < f->lo || n > f->hi)
        return bt_fail(fault, BT_EFORMAT, "field '%s': must be a list of %" PRIu64 " to %" PRIu64 " objects",
                       f->name, f->lo, f->hi);
    for (size_t i = 0; i < n; i++) {
        const bt_err e = read_kernel(&t->attention[i], json_array_get(list, i), &inner);
        if (e < 0) return bt_fail(fault, e, "field '%s', object %zu: %.160s", f->name, i + 1, inner.text);
    }
    t->kernels = (uint32_t)n;
    return BT_OK;
}

static bt_err read_field(bt_profile_time *t, const struct field *f, const json_t *v, bt_fault *fault)
{
    if (f->kind == POINTS) return read_points(t, v, fault);
    if (f->kind == SUMS) return read_sums(t, f, v, fault);
    if (f->kind == KERNELS) return read_kernels(t, f, v, fault);
    if (f->kind == SIZES)
        return read_ascending(t->group_size, &t->sizes, BT_PROFILE_TIME_MAX_SIZES, "devices", f, v, fault);
    if (f->kind == PROGRAMS)
        return read_ascending(t->program_rows, &t->programs, BT_PROFILE_TIME_MAX_PROGRAMS, "rows", f, v,
                              fault);
    if (f->kind == CALIBRATION) return bt_calibration_read(&t->calibration, v, fault);
    if (f->kind == TEXT) return read_text((char *)t + f->offset, f, v, fault);
    return set_number(t, f, v, fault);
}

/* A list's length is what readers go by. */
static void clear_field(bt_profile_time *t, const struct field *f)
{
    char *at = (char *)t + f->offset;
    if (f->kind == POINTS) t->points = 0;
    else if (f->kind == SUMS) t->sums = 0;
    else if (f->kind == KERNELS) t->kernels = 0;
    else if (f->kind == SIZES) t->sizes = 0;
    else if (f->kind == PROGRAMS) t->programs = 0;
    else if (f->kind == TEXT) *at = 0;
    else if (f->kind == CALIBRATION) memset(at, 0, sizeof t->calibration);
    else memset(at, 0, f->kind == U32 ? sizeof(uint32_t) : sizeof(uint64_t));
}

static bt_err bad_name(const char *name, bt_fault *fault)
{
    const char *known[FIELDS + 1] = {"sources"}, *near;
    for (size_t i = 0; i < FIELDS; i++) known[i + 1] = fields[i].name;
    near = bt_profile_nearest(name, known, FIELDS + 1);
    return bt_fail(fault, BT_EFORMAT, "'%s' is no field of 'time'%s%s%s; docs/profiles.md lists them",
                   bt_profile_shown(name), near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

/* The fields of `object` over what t has. is_stack: null takes a field away, and the name is not the
 * object's. */
static bt_err read_fields(bt_profile_time *t, const json_t *object, bool is_stack, bt_fault *fault)
{
    const char *name;
    json_t *value;
    bt_err e = BT_OK;
    if (!json_is_object(object)) return bt_fail(fault, BT_EFORMAT, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t f = 0;
        while (f < FIELDS && strcmp(name, fields[f].name)) f++;
        if (is_stack && !strcmp(name, "stack"))
            e = bt_fail(fault, BT_EFORMAT, "'stack' is the name that the object has in 'stacks'");
        else if (f < FIELDS && is_stack && json_is_null(value)) clear_field(t, &fields[f]);
        else if (f < FIELDS) {
            if (fields[f].kind == KERNELS) memset(t->attention, 0, sizeof t->attention);
            e = read_field(t, &fields[f], value, fault);
        } else if (!strcmp(name, "sources")) e = bt_profile_sources(value, object, fault);
        else e = bad_name(name, fault);
        if (e < 0) return e;
    }
    return bt_profile_time_check(t, fault);
}

bt_err bt_profile_time_read(bt_profile_time *ret, const void *json, bt_fault *fault)
{
    bt_profile_time t;
    bt_fault inner = {""};
    memset(&t, 0, sizeof t); /* its gaps too, as those of a profile */
    t.is_given = true;
    const bt_err e = read_fields(&t, json, false, &inner);
    if (e < 0) return bt_fail(fault, e, "field 'time': %.200s", inner.text);
    memcpy(ret, &t, sizeof t);
    return BT_OK;
}

bt_err bt_profile_time_stack(bt_profile_time *ret, const bt_profile_time *base, const char *stack,
                             const void *json, bt_fault *fault)
{
    bt_profile_time t;
    bt_fault inner = {""};
    memcpy(&t, base, sizeof t);
    memset(&t.calibration, 0, sizeof t.calibration);
    memset(t.stack, 0, sizeof t.stack);
    memcpy(t.stack, stack, strnlen(stack, BT_PROFILE_TIME_MAX_STACK));
    const bt_err e = read_fields(&t, json, true, &inner);
    if (e < 0) return bt_fail(fault, e, "field 'stacks', '%s': %.200s", t.stack, inner.text);
    memcpy(ret, &t, sizeof t);
    return BT_OK;
}

/* With twice the rows at most twice the share of the peak: else more rows would take less time. */
static bt_err check_efficiency(const bt_profile_time *t, bt_fault *fault)
{
    for (uint32_t i = 1; i < t->points; i++) {
        const uint64_t most =
            (uint64_t)t->efficiency[i - 1].permille * t->efficiency[i].rows / t->efficiency[i - 1].rows;
        if (t->efficiency[i].permille > most)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'efficiency': %" PRIu32 " rows at %" PRIu32
                           " permille would take less time than %" PRIu32 " rows at %" PRIu32
                           "; at most %" PRIu64,
                           t->efficiency[i].rows, t->efficiency[i].permille, t->efficiency[i - 1].rows,
                           t->efficiency[i - 1].permille, most);
    }
    return BT_OK;
}

static bt_err check_rates(const bt_profile_time *t, bt_fault *fault)
{
    const struct {
        const char *name;
        uint64_t rate;
    } rates[] = {
        {"weight_bytes_per_us", t->weight_bytes_per_us},
        {"activation_bytes_per_us", t->activation_bytes_per_us},
        {"decode_bytes_per_us", t->decode_bytes_per_us},
        {"int4_bytes_per_us", t->int4_bytes_per_us},
        {"shared_bytes_per_us", t->shared_bytes_per_us},
        {"first_weight_bytes_per_us", t->first_weight_bytes_per_us},
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (t->memory_bytes_per_us && rates[i].rate > t->memory_bytes_per_us)
            return bt_fail(fault, BT_EFORMAT,
                           "field '%s': %" PRIu64 " is more than 'memory_bytes_per_us', %" PRIu64
                           "; at most that",
                           rates[i].name, rates[i].rate, t->memory_bytes_per_us);
    for (uint32_t i = 0; i < t->kernels; i++) {
        const bt_profile_attention *k = &t->attention[i];
        if (k->row_launch_ns > k->launch_ns)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32 ", 'row_launch_ns': %" PRIu32
                           " is more than 'launch_ns', %" PRIu32 "; at most that",
                           i + 1, k->row_launch_ns, k->launch_ns);
        if (t->points > 1 && k->half_rows && !k->peak_permille)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32
                           ", 'half_rows': the share of several 'efficiency' goes by rows already; give "
                           "'peak_permille' too",
                           i + 1);
        if (k->gather_ns > k->launch_ns)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32 ", 'gather_ns': %" PRIu32
                           " is more than 'launch_ns', %" PRIu32 "; at most that",
                           i + 1, k->gather_ns, k->launch_ns);
        if ((k->gather_ns || k->head_bytes_per_us) && !k->kv_bytes_per_us)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32
                           ", 'gather_ns' and 'head_bytes_per_us': give 'kv_bytes_per_us' too",
                           i + 1);
        if (k->join_ns && !k->head_bytes_per_us)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32 ", 'join_ns': give 'head_bytes_per_us' too",
                           i + 1);
        if (k->kv_bytes_per_us > t->memory_bytes_per_us)
            return bt_fail(fault, BT_EFORMAT,
                           "field 'attention', object %" PRIu32 ", 'kv_bytes_per_us': %" PRIu64
                           " is more than 'memory_bytes_per_us', %" PRIu64 "; at most that",
                           i + 1, k->kv_bytes_per_us, t->memory_bytes_per_us);
    }
    return BT_OK;
}

bt_err bt_profile_time_check(const bt_profile_time *t, bt_fault *fault)
{
    const bool array = t->array_rows || t->array_cols || t->arrays || t->clock_khz;
    if (!t->stack[0])
        return bt_fail(fault, BT_EFORMAT,
                       "'stack' is missing: it names the software whose constants these are");
    if (!t->f16_ops_per_us || !t->memory_bytes_per_us)
        return bt_fail(fault, BT_EFORMAT, "'%s' is missing: without it nothing has a time",
                       t->f16_ops_per_us ? "memory_bytes_per_us" : "f16_ops_per_us");
    if (array && (!t->array_rows || !t->array_cols || !t->arrays || !t->clock_khz))
        return bt_fail(fault, BT_EFORMAT,
                       "fields 'array_rows', 'array_cols', 'arrays', 'clock_khz': give all or none");
    const uint64_t reached = 2 * (uint64_t)t->array_rows * t->array_cols * t->arrays * t->clock_khz / 1000;
    if (reached > t->f16_ops_per_us)
        return bt_fail(fault, BT_EFORMAT,
                       "fields of the array: %" PRIu64
                       " operations a microsecond, more than 'f16_ops_per_us', %" PRIu64,
                       reached, t->f16_ops_per_us);
    if (!t->tile_rows != !(t->tile_permille || t->tile_int8_permille))
        return bt_fail(fault, BT_EFORMAT,
                       "fields 'tile_rows' and 'tile_permille' or 'tile_int8_permille': give both or none");
    if (!(t->devices || t->sizes) != !t->interconnect_bytes_per_us)
        return bt_fail(
            fault, BT_EFORMAT,
            "fields 'devices' or 'group_sizes' and 'interconnect_bytes_per_us': give both or none");
    if (t->sums && !t->devices && !t->sizes)
        return bt_fail(
            fault, BT_EFORMAT,
            "field 'all_reduce': times of sums over devices, and there is no 'devices' or 'group_sizes'");
    if (t->devices && t->sizes)
        return bt_fail(
            fault, BT_EFORMAT,
            "fields 'devices' and 'group_sizes': a group that the profile is, or groups that its name asks "
            "for; give one of them");
    const bt_err e = check_efficiency(t, fault);
    return e < 0 ? e : check_rates(t, fault);
}
