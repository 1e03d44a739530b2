/* The object `calibration`: strict reading, and what a device may be called by it. */
#include "device/calibration.h"
#include "device/profile_number.h"
#include "device/profile_sources.h"
#include "device/profile_words.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum { LEAST_ROWS = 12, ROWS_A_CONSTANT = 5, LEAST_SHAPES = 2, MOST_ROWS = 1 << 24, MOST_PERMILLE = 100000 };
static const char *const term_names[] = {BT_TERM_NAMES}, *const figure_names[] = {BT_FIGURE_NAMES},
                         *const axis_names[] = {BT_AXIS_NAMES}, *const kind_names[] = {"prefill", "decode"};

static bt_err read_text(char *ret, const json_t *v, bt_fault *fault)
{
    const char *s = json_string_value(v);
    const size_t n = s ? strlen(s) : 0;
    bool ok = n >= 1 && n <= BT_CALIBRATION_MAX_ON;
    for (size_t i = 0; ok && i < n; i++) ok = s[i] >= 0x20 && s[i] <= 0x7e;
    if (!ok)
        return bt_fail(fault, BT_EFORMAT, "'on': 1 to %d printable ASCII characters", BT_CALIBRATION_MAX_ON);
    memcpy(ret, s, n + 1);
    return BT_OK;
}

/* n whole numbers of a list, each from lo to hi. False: `list` is no such list. */
static bool numbers(int64_t *ret, const json_t *list, size_t n, int64_t lo, int64_t hi)
{
    if (!json_is_array(list) || json_array_size(list) != n) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        ret[i] = json_integer_value(v);
        if (!json_is_integer(v) || ret[i] < lo || ret[i] > hi) return false;
    }
    return true;
}

static bt_err read_kinds(bt_calibration *c, const json_t *list, bt_fault *fault)
{
    uint32_t *const has[] = {&c->has_prefill, &c->has_decode};
    bool ok = json_is_array(list) && json_array_size(list) >= 1 && json_array_size(list) <= 2;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        size_t k = 0;
        while (k < 2 && (!word || strcmp(word, kind_names[k]))) k++;
        ok = k < 2 && !*has[k];
        if (ok) *has[k] = 1;
    }
    return ok ? BT_OK
              : bt_fail(fault, BT_EFORMAT,
                        "'kinds': a list of 'prefill' and 'decode', each once, at least one");
}

static bt_err read_axis(bt_calibration *c, size_t axis, const json_t *v, bt_fault *fault)
{
    int64_t n[2];
    if (!numbers(n, v, 2, 1, INT64_C(1) << 30) || n[0] > n[1])
        return bt_fail(fault, BT_EFORMAT, "'region', '%s': must be [least, most], 1 to 2^30",
                       axis_names[axis]);
    c->region[axis].lo = (uint32_t)n[0];
    c->region[axis].hi = (uint32_t)n[1];
    return BT_OK;
}

static bt_err read_error(bt_calibration *c, size_t figure, const json_t *v, bt_fault *fault)
{
    int64_t n[4];
    if (!numbers(n, v, 4, -MOST_PERMILLE, MOST_ROWS) || n[0] < 0 || n[1] < n[0] || n[1] > MOST_PERMILLE ||
        n[2] < -n[1] || n[2] > n[1] || n[3] < 1)
        return bt_fail(
            fault, BT_EFORMAT,
            "'errors', '%s': must be [median, worst, bias, rows]: thousandths, 0 <= median <= worst "
            "<= %d, bias from -worst to worst, and at least 1 row",
            figure_names[figure], MOST_PERMILLE);
    c->error[figure].median_permille = (uint32_t)n[0];
    c->error[figure].worst_permille = (uint32_t)n[1];
    c->error[figure].bias_permille = (int32_t)n[2];
    c->error[figure].rows = (uint32_t)n[3];
    return BT_OK;
}

static bt_err read_residual(bt_calibration *c, size_t term, const json_t *v, bt_fault *fault)
{
    const size_t n = json_array_size(v);
    int64_t of[BT_CALIBRATION_MAX_RESIDUALS];
    bool ok = n >= 1 && n <= BT_CALIBRATION_MAX_RESIDUALS && numbers(of, v, n, -999, MOST_PERMILLE);
    for (size_t i = 0; ok && i < n; i++) {
        ok = !i || of[i] >= of[i - 1];
        c->residual[term][i] = (int32_t)of[i];
    }
    if (!ok)
        return bt_fail(fault, BT_EFORMAT,
                       "'residuals', '%s': must be a list of 1 to %d thousandths, ascending, from -999 to %d",
                       term_names[term], BT_CALIBRATION_MAX_RESIDUALS, MOST_PERMILLE);
    c->residuals[term] = (uint32_t)n;
    return BT_OK;
}

static bt_err bad_name(const char *of, const char *name, const char *const *known, size_t n, bt_fault *fault)
{
    const char *near = bt_profile_nearest(name, known, n);
    return bt_fail(fault, BT_EFORMAT, "'%s' is no member of '%s'%s%s%s", bt_profile_shown(name), of,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* An object whose members `names` lists; `read` takes each by its place there. */
static bt_err read_members(bt_calibration *c, const char *of, const json_t *object, const char *const *names,
                           size_t n, bt_err (*read)(bt_calibration *, size_t, const json_t *, bt_fault *),
                           bt_fault *fault)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object)) return bt_fail(fault, BT_EFORMAT, "'%s': must be an object", of);
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t i = 0;
        while (i < n && strcmp(name, names[i])) i++;
        const bt_err e = i < n ? read(c, i, value, fault) : bad_name(of, name, names, n, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}

enum { ON, ROWS, SHAPES, CONSTANTS, BORROWED, KINDS, REGION, ERRORS, RESIDUALS, MEMBERS };
static const char *const member_names[MEMBERS] = {"on",    "rows",   "shapes", "constants", "borrowed",
                                                  "kinds", "region", "errors", "residuals"};

static bt_err read_member(bt_calibration *c, size_t member, const json_t *v, bt_fault *fault)
{
    uint32_t *const count[] = {
        [ROWS] = &c->rows, [SHAPES] = &c->shapes, [CONSTANTS] = &c->constants, [BORROWED] = &c->borrowed};
    uint64_t n = 0;
    bt_err e;
    switch (member) {
    case ON: return read_text(c->on, v, fault);
    case KINDS: return read_kinds(c, v, fault);
    case REGION: return read_members(c, "region", v, axis_names, BT_AXES, read_axis, fault);
    case ERRORS: return read_members(c, "errors", v, figure_names, BT_FIGURES, read_error, fault);
    case RESIDUALS: return read_members(c, "residuals", v, term_names, BT_TERMS, read_residual, fault);
    default: break;
    }
    e = bt_profile_number(&n, v, member_names[member], 1, MOST_ROWS, fault);
    if (e == BT_OK) *count[member] = (uint32_t)n;
    return e;
}

bt_err bt_calibration_read(bt_calibration *ret, const void *json, bt_fault *fault)
{
    bt_calibration c;
    bt_fault inner = {""};
    memset(&c, 0, sizeof c); /* its gaps too, as those of a profile */
    bt_err e = read_members(&c, "calibration", json, member_names, MEMBERS, read_member, &inner);
    if (e == BT_OK && (!*c.on || !c.rows))
        e = bt_fail(&inner, BT_EFORMAT, "'%s' is missing: it says on what the constants stand",
                    *c.on ? "rows" : "on");
    if (e < 0) return bt_fail(fault, e, "field 'calibration': %.200s", inner.text);
    memcpy(ret, &c, sizeof c);
    return BT_OK;
}

bt_standing bt_calibration_standing(const bt_calibration *c)
{
    const bool is_judged = c->error[BT_FIGURE_TTFT].rows || c->error[BT_FIGURE_TPOT].rows;
    if (!*c->on) return BT_STANDING_BOUND;
    return c->rows >= LEAST_ROWS && c->rows / ROWS_A_CONSTANT >= c->constants && c->shapes >= LEAST_SHAPES &&
                   c->has_prefill && c->has_decode && is_judged
               ? BT_STANDING_CALIBRATED
               : BT_STANDING_FITTED;
}
