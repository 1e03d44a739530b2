/* Strings, integers and numbers of a schema, with their patterns, formats, lengths and bounds. */
#include "grammar/schema_private.h"

#include "grammar/program.h"
#include "grammar/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTEGER_DIGITS = 18, NUMBER_DIGITS = 15, FRACTION_DIGITS = 8 };

/* ---- strings -------------------------------------------------------------------------------------- */
// clang-format off
#define DATE "(([1-9]\\d(0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29" \
    "|([1-9]\\d{3})-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8])))"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define HEX "[0-9a-f]{1,4}"
#define NAME "[A-Za-z0-9_+-]{1,32}"
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(\\d{1,4}W|\\d{1,4}D(T\\d{1,4}[HMS])?|T(\\d{1,4}H(\\d{1,4}M)?|\\d{1,4}M(\\d{1,4}S)?|\\d{1,4}S))$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"email", "^" NAME "(\\." NAME "){0,3}@" LABEL "(\\." LABEL "){1,3}$"},
    {"hostname", "^" LABEL "(\\." LABEL "){0,4}$"},
    {"ipv4", "^" BYTE "\\." BYTE "\\." BYTE "\\." BYTE "$"},
    {"ipv6", "^((" HEX ":){7}" HEX "|::1|(" HEX ":){1,6}:" HEX ")$"},
    {"uri", "^[a-z][a-z0-9+.-]{1,15}://" LABEL "(\\." LABEL "){0,4}(:[1-9]\\d{0,3})?(/[A-Za-z0-9._~-]*)*"
            "(\\?[A-Za-z0-9._~=&-]*)?(#[A-Za-z0-9._~-]*)?$"},
};
// clang-format on

uint32_t bt_schema_char(bt_syntax *s)
{
    static const bt_syntax_chars plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    static const char shorts[] = "\"\\/bfnrt";
    uint32_t node = bt_syntax_char(s, plain, 3, false), escape = bt_syntax_never(s);
    const uint32_t u = bt_syntax_text(s, "u", 1);
    const uint32_t digit =
        bt_syntax_either(s, bt_syntax_range(s, '0', '9'),
                         bt_syntax_either(s, bt_syntax_range(s, 'a', 'f'), bt_syntax_range(s, 'A', 'F')));
    const uint32_t dd = bt_syntax_either(s, bt_syntax_text(s, "d", 1), bt_syntax_text(s, "D", 1));
    const uint32_t above =
        bt_syntax_either(s, bt_syntax_range(s, '8', '9'),
                         bt_syntax_either(s, bt_syntax_range(s, 'a', 'b'), bt_syntax_range(s, 'A', 'B')));
    const uint32_t upper = bt_syntax_either(s, bt_syntax_range(s, 'c', 'f'), bt_syntax_range(s, 'C', 'F'));
    const uint32_t no_d = bt_syntax_either(
        s, bt_syntax_range(s, '0', '9'),
        bt_syntax_either(s, bt_syntax_either(s, bt_syntax_range(s, 'a', 'c'), bt_syntax_range(s, 'A', 'C')),
                         bt_syntax_either(s, bt_syntax_range(s, 'e', 'f'), bt_syntax_range(s, 'E', 'F'))));
    const uint32_t two = bt_syntax_repeat(s, digit, 2, 2);
    for (const char *c = shorts; *c; c++) escape = bt_syntax_either(s, escape, bt_syntax_text(s, c, 1));
    /* no surrogate: another first digit than d, or a second one below 8 */
    const uint32_t single = bt_syntax_either(s, bt_syntax_join(s, no_d, digit),
                                             bt_syntax_join(s, dd, bt_syntax_range(s, '0', '7')));
    const uint32_t high = bt_syntax_join(s, dd, bt_syntax_join(s, above, two));
    const uint32_t low =
        bt_syntax_join(s, bt_syntax_text(s, "\\u", 2), bt_syntax_join(s, dd, bt_syntax_join(s, upper, two)));
    const uint32_t code = bt_syntax_either(s, bt_syntax_join(s, single, two), bt_syntax_join(s, high, low));
    escape = bt_syntax_either(s, escape, bt_syntax_join(s, u, code));
    node = bt_syntax_either(s, node, bt_syntax_join(s, bt_syntax_text(s, "\\", 1), escape));
    return node;
}

uint32_t bt_schema_other_key(bt_syntax *s, json_t *names)
{
    static const bt_syntax_chars plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    const uint32_t rule = bt_syntax_rule(s, "a key");
    const uint32_t text = bt_syntax_repeat(s, bt_syntax_char(s, plain, 3, false), 0, BT_SYNTAX_NO_END);
    uint32_t words = bt_syntax_never(s);
    const char *name;
    json_t *value;
    json_object_foreach(names, name, value)
        words = bt_syntax_either(s, words, bt_syntax_text(s, name, strlen(name)));
    bt_syntax_define(s, rule, text);
    bt_syntax_quote(s, rule);
    if (json_object_size(names) > 0) bt_syntax_restrict(s, rule, words, true);
    return bt_syntax_call(s, rule, 1, 1);
}

bt_err bt_schema_count(uint32_t *ret, json_t *schema, const char *name, uint32_t otherwise, bt_fault *f)
{
    json_t *v = json_object_get(schema, name);
    *ret = otherwise;
    if (!v) return BT_OK;
    const double d = json_number_value(v);
    if (!json_is_number(v) || d < 0 || d != floor(d)) return bt_fail(f, BT_EARG, "'%s' is no count", name);
    if (d >= BT_PROGRAM_NO_END) return bt_fail(f, BT_ELIMIT, "'%s' is over %d", name, BT_PROGRAM_NO_END - 1);
    *ret = (uint32_t)d;
    return BT_OK;
}

static bt_err find_format(const char **ret, json_t *format, bt_fault *f)
{
    *ret = NULL;
    if (!format) return BT_OK;
    for (size_t i = 0; json_is_string(format) && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, json_string_value(format)) == 0) *ret = formats[i].pattern;
    if (*ret) return BT_OK;
    return bt_fail(f, BT_EARG, "the format '%.40s' is not supported",
                   json_is_string(format) ? json_string_value(format) : "that is no text");
}

bt_err bt_schema_string(uint32_t *ret, bt_syntax *s, json_t *schema, uint32_t any_string, uint32_t any_char,
                        bt_fault *fault)
{
    json_t *pattern = json_object_get(schema, "pattern");
    const char *format = NULL;
    uint32_t min, max, node, filter;
    bt_err e = bt_schema_count(&min, schema, "minLength", 0, fault);
    if (e == BT_OK) e = bt_schema_count(&max, schema, "maxLength", BT_SYNTAX_NO_END, fault);
    if (e == BT_OK) e = find_format(&format, json_object_get(schema, "format"), fault);
    if (e == BT_OK && pattern && !json_is_string(pattern))
        e = bt_fail(fault, BT_EARG, "'pattern' is no text");
    if (e < 0) return e;
    const bool has_length = min > 0 || max != BT_SYNTAX_NO_END;
    if (max < min) {
        *ret = bt_syntax_never(s);
        return BT_OK;
    }
    if (!pattern && !format) {
        const uint32_t quote = bt_syntax_text(s, "\"", 1);
        *ret = has_length
                   ? bt_syntax_join(s, quote, bt_syntax_join(s, bt_syntax_call(s, any_char, min, max), quote))
                   : bt_syntax_call(s, any_string, 1, 1);
        return BT_OK;
    }
    if (pattern && format && has_length)
        return bt_fail(fault, BT_EARG,
                       "'minLength' or 'maxLength' beside 'pattern' and 'format' is not supported");
    const char *first = pattern ? json_string_value(pattern) : format;
    const size_t len = pattern ? json_string_length(pattern) : strlen(format);
    e = bt_regex_parse(&node, s, first, len, BT_REGEX_SEARCH, fault);
    if (e < 0) return e;
    const uint32_t rule = bt_syntax_rule(s, "a string with a pattern");
    bt_syntax_define(s, rule, node);
    bt_syntax_quote(s, rule);
    if (pattern && format) {
        e = bt_regex_parse(&filter, s, format, strlen(format), BT_REGEX_SEARCH, fault);
        if (e < 0) return e;
        bt_syntax_restrict(s, rule, filter, false);
    } else if (has_length) {
        const uint32_t any = bt_syntax_char(s, &(bt_syntax_chars){0, 0x10ffff}, 1, true);
        bt_syntax_restrict(s, rule, bt_syntax_repeat(s, any, min, max), false);
    }
    *ret = bt_syntax_call(s, rule, 1, 1);
    return BT_OK;
}

/* ---- digits --------------------------------------------------------------------------------------- */
static uint32_t digits(bt_syntax *s, uint32_t min, uint32_t max)
{
    return bt_syntax_repeat(s, bt_syntax_range(s, '0', '9'), min, max);
}

static uint32_t range_or_never(bt_syntax *s, int first, int last)
{
    return first <= last ? bt_syntax_range(s, (uint8_t)first, (uint8_t)last) : bt_syntax_never(s);
}

/* Texts of digits as long as `bound` that are at least (is_least) or at most it. */
static uint32_t beside(bt_syntax *s, const char *bound, bool is_least)
{
    uint32_t node = BT_SYNTAX_EMPTY;
    const size_t n = strlen(bound);
    for (size_t i = n; i-- > 0;) {
        const char d = bound[i];
        const uint32_t other = is_least ? range_or_never(s, d + 1, '9') : range_or_never(s, '0', d - 1);
        const uint32_t rest = (uint32_t)(n - i - 1);
        node = bt_syntax_either(s, bt_syntax_join(s, bt_syntax_text(s, &d, 1), node),
                                bt_syntax_join(s, other, digits(s, rest, rest)));
    }
    return node;
}

/* Whole numbers a..b without a sign or zeros in front, 0 <= a <= b < 10^18. */
static uint32_t whole(bt_syntax *s, uint64_t a, uint64_t b)
{
    char low[24], high[24];
    uint32_t node = bt_syntax_never(s);
    for (uint64_t from = 0, to = 9; a <= b; from = to + 1, to = to * 10 + 9) {
        if (a > to) continue;
        const uint64_t last = b < to ? b : to;
        (void)snprintf(low, sizeof low, "%llu", (unsigned long long)(a > from ? a : from));
        (void)snprintf(high, sizeof high, "%llu", (unsigned long long)last);
        /* digits that both share, one in which they differ, what follows */
        size_t same = 0;
        while (low[same] && low[same] == high[same]) same++;
        uint32_t part = BT_SYNTAX_EMPTY;
        if (low[same]) {
            const uint32_t rest = (uint32_t)strlen(low + same) - 1;
            part = bt_syntax_join(s, range_or_never(s, low[same] + 1, high[same] - 1), digits(s, rest, rest));
            part = bt_syntax_either(s, part,
                                    bt_syntax_join(s, bt_syntax_text(s, low + same, 1),
                                                   beside(s, low + same + 1, true)));
            part = bt_syntax_either(s, part,
                                    bt_syntax_join(s, bt_syntax_text(s, high + same, 1),
                                                   beside(s, high + same + 1, false)));
        }
        node = bt_syntax_either(s, node, bt_syntax_join(s, bt_syntax_text(s, low, same), part));
        if (last == b) break;
    }
    return node;
}

/* ---- bounds --------------------------------------------------------------------------------------- */
typedef struct bounds {
    double low, high;
    bool has_low, has_high, is_above, is_below; /* above: low itself is out */
} bounds;

static bt_err read_bounds(bounds *ret, json_t *schema, bt_fault *f)
{
    static const char *const names[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};
    *ret = (bounds){0};
    for (int i = 0; i < 4; i++) {
        json_t *v = json_object_get(schema, names[i]);
        if (!v) continue;
        if (!json_is_number(v)) return bt_fail(f, BT_EARG, "'%s' is no number", names[i]);
        const double d = json_number_value(v);
        if (i < 2 && (!ret->has_low || d >= ret->low)) {
            ret->is_above = i == 1 || (ret->is_above && ret->has_low && d == ret->low);
            ret->has_low = true;
            ret->low = d;
        } else if (i >= 2 && (!ret->has_high || d <= ret->high)) {
            ret->is_below = i == 3 || (ret->is_below && ret->has_high && d == ret->high);
            ret->has_high = true;
            ret->high = d;
        }
    }
    return BT_OK;
}

bt_err bt_schema_integer(uint32_t *ret, bt_syntax *s, json_t *schema, bt_fault *fault)
{
    static const double most = 999999999999999999.0;
    bounds b;
    bt_err e = read_bounds(&b, schema, fault);
    if (e < 0) return e;
    double low = b.has_low ? ceil(b.low) : -most, high = b.has_high ? floor(b.high) : most;
    if (b.is_above && low == b.low) low++;
    if (b.is_below && high == b.high) high--;
    if ((b.has_low && fabs(low) > 9007199254740992.0) || (b.has_high && fabs(high) > 9007199254740992.0))
        return bt_fail(fault, BT_EARG, "bounds of integers beyond 2^53 are not supported");
    *ret = bt_syntax_never(s);
    const uint64_t limit = 999999999999999999u;
    if (low > high) return BT_OK;
    if (high >= 0) *ret = whole(s, low > 0 ? (uint64_t)low : 0, b.has_high ? (uint64_t)high : limit);
    if (low < 0) {
        const uint32_t below = whole(s, high < 0 ? (uint64_t)-high : 1, b.has_low ? (uint64_t)-low : limit);
        *ret = bt_syntax_either(s, *ret, bt_syntax_join(s, bt_syntax_text(s, "-", 1), below));
    }
    return BT_OK;
}

/* A bound without its sign as digits before and behind the point, no zeros at the end. */
typedef struct decimal {
    uint64_t whole;
    char fraction[24];
} decimal;

static bt_err read_decimal(decimal *ret, double v, bt_fault *f)
{
    char text[40];
    v = fabs(v);
    if (v >= 1e15 || (v > 0 && v < 1e-4))
        return bt_fail(f, BT_EARG,
                       "a bound of numbers that is not 0 nor from 0.0001 to 10^15 is not supported");
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    ret->whole = strtoull(text, NULL, 10);
    ret->fraction[0] = '\0';
    const char *point = strchr(text, '.');
    if (point && strlen(point + 1) < sizeof ret->fraction)
        memcpy(ret->fraction, point + 1, strlen(point + 1) + 1);
    return BT_OK;
}

static uint32_t any_fraction(bt_syntax *s)
{
    const uint32_t some = bt_syntax_join(s, bt_syntax_text(s, ".", 1), digits(s, 1, FRACTION_DIGITS));
    return bt_syntax_repeat(s, some, 0, 1);
}

/* Zeros and a digit that is none, then any. */
static uint32_t above_zero(bt_syntax *s)
{
    const uint32_t zeros = bt_syntax_repeat(s, bt_syntax_range(s, '0', '0'), 0, FRACTION_DIGITS - 1);
    return bt_syntax_join(s, zeros,
                          bt_syntax_join(s, bt_syntax_range(s, '1', '9'), digits(s, 0, FRACTION_DIGITS)));
}

/* The rest behind the whole part of a bound: the point and digits that make at least (at most) its
 * fraction; is_out: not the fraction itself. */
static uint32_t fraction_beside(bt_syntax *s, const char *fraction, bool is_least, bool is_out)
{
    const size_t n = strlen(fraction);
    const uint32_t point = bt_syntax_text(s, ".", 1);
    uint32_t node;
    if (n == 0 && !is_least) return is_out ? bt_syntax_never(s) : BT_SYNTAX_EMPTY;
    if (n == 0) return is_out ? bt_syntax_join(s, point, above_zero(s)) : any_fraction(s);
    if (is_least) node = is_out ? above_zero(s) : digits(s, 0, FRACTION_DIGITS);
    else node = is_out ? bt_syntax_never(s) : BT_SYNTAX_EMPTY;
    for (size_t i = n; i-- > 0;) {
        const char d = fraction[i];
        const uint32_t other = is_least ? range_or_never(s, d + 1, '9') : range_or_never(s, '0', d - 1);
        /* Less may end here: the bound has more digits, and the last is no 0. */
        if (!is_least && i + 1 < n) node = bt_syntax_repeat(s, node, 0, 1);
        node = bt_syntax_either(s, bt_syntax_join(s, bt_syntax_text(s, &d, 1), node),
                                bt_syntax_join(s, other, digits(s, 0, FRACTION_DIGITS)));
    }
    node = bt_syntax_join(s, point, node);
    return is_least ? node : bt_syntax_repeat(s, node, 0, 1);
}

/* Texts without a sign that are at least (at most) a bound. */
static uint32_t size_beside(bt_syntax *s, const decimal *d, bool is_least, bool is_out)
{
    const uint64_t most = 999999999999999u;
    const uint32_t same =
        bt_syntax_join(s, whole(s, d->whole, d->whole), fraction_beside(s, d->fraction, is_least, is_out));
    uint32_t others = bt_syntax_never(s);
    if (is_least && d->whole < most) others = whole(s, d->whole + 1, most);
    if (!is_least && d->whole > 0) others = whole(s, 0, d->whole - 1);
    return bt_syntax_either(s, same, bt_syntax_join(s, others, any_fraction(s)));
}

/* Numbers at least (at most) a bound, with their sign. */
static bt_err number_beside(uint32_t *ret, bt_syntax *s, double bound, bool is_least, bool is_out,
                            bt_fault *f)
{
    static const decimal zero = {0, ""};
    decimal d;
    bt_err e = read_decimal(&d, bound, f);
    if (e < 0) return e;
    const uint32_t minus = bt_syntax_text(s, "-", 1);
    const bool is_minus = bound < 0;
    /* The side that the bound cuts, and the whole of the other side where that is within. */
    const bool is_other_in = is_least == is_minus;
    const uint32_t cut = size_beside(s, &d, is_least != is_minus, is_out);
    *ret = is_minus ? bt_syntax_join(s, minus, cut) : cut;
    if (is_other_in) {
        const uint32_t other = size_beside(s, &zero, true, !is_minus);
        *ret = bt_syntax_either(s, *ret, is_minus ? other : bt_syntax_join(s, minus, other));
    }
    return BT_OK;
}

bt_err bt_schema_number(uint32_t *ret, bt_syntax *s, json_t *schema, bt_fault *fault)
{
    bounds b;
    uint32_t node, filter;
    bt_err e = read_bounds(&b, schema, fault);
    if (e < 0) return e;
    if (!b.has_low && !b.has_high) {
        const uint32_t minus = bt_syntax_repeat(s, bt_syntax_text(s, "-", 1), 0, 1);
        const uint32_t fraction = bt_syntax_join(s, bt_syntax_text(s, ".", 1), digits(s, 1, NUMBER_DIGITS));
        const uint32_t e_sign = bt_syntax_either(s, bt_syntax_text(s, "e", 1), bt_syntax_text(s, "E", 1));
        const uint32_t sign = bt_syntax_either(s, bt_syntax_text(s, "+", 1), bt_syntax_text(s, "-", 1));
        const uint32_t exponent =
            bt_syntax_join(s, e_sign, bt_syntax_join(s, bt_syntax_repeat(s, sign, 0, 1), digits(s, 1, 2)));
        node = bt_syntax_join(s, whole(s, 0, 999999999999999u), bt_syntax_repeat(s, fraction, 0, 1));
        *ret = bt_syntax_join(s, minus, bt_syntax_join(s, node, bt_syntax_repeat(s, exponent, 0, 1)));
        return BT_OK;
    }
    e = number_beside(&node, s, b.has_low ? b.low : b.high, b.has_low, b.has_low ? b.is_above : b.is_below,
                      fault);
    if (e < 0) return e;
    const uint32_t rule = bt_syntax_rule(s, "a number within bounds");
    bt_syntax_define(s, rule, node);
    if (b.has_low && b.has_high) {
        e = number_beside(&filter, s, b.high, false, b.is_below, fault);
        if (e < 0) return e;
        bt_syntax_restrict(s, rule, filter, false);
    }
    *ret = bt_syntax_call(s, rule, 1, 1);
    return BT_OK;
}
