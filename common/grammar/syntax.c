/* The trees of rules, and characters as bytes: UTF-8, and what JSON strings escape. */
#include "grammar/syntax_private.h"

#include "grammar/program.h"

#include <stdlib.h>
#include <string.h>

bool bt_syntax_grow(void *array, size_t *cap, size_t n, size_t item_bytes)
{
    void **p = array;
    if (n < *cap) return true;
    const size_t want = *cap < 32 ? 64 : *cap * 2;
    void *more = realloc(*p, want * item_bytes);
    if (!more) return false;
    *p = more;
    *cap = want;
    return true;
}

static uint32_t add(bt_syntax *s, bt_node node)
{
    if (s->err < 0) return BT_SYNTAX_EMPTY;
    if (s->nodes == BT_SYNTAX_NODES) {
        s->err = BT_ELIMIT;
        return BT_SYNTAX_EMPTY;
    }
    if (!bt_syntax_grow(&s->node, &s->node_cap, s->nodes, sizeof *s->node)) {
        s->err = BT_ENOMEM;
        return BT_SYNTAX_EMPTY;
    }
    s->node[s->nodes] = node;
    return (uint32_t)s->nodes++;
}

bt_err bt_syntax_new(bt_syntax **ret, bt_fault *fault)
{
    bt_syntax *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "a grammar");
    (void)add(s, (bt_node){.kind = BT_NODE_EMPTY});
    (void)bt_syntax_rule(s, "the whole");
    if (s->err < 0) {
        bt_syntax_free(s);
        return bt_fail(fault, BT_ENOMEM, "a grammar");
    }
    *ret = s;
    return BT_OK;
}

void bt_syntax_free(bt_syntax *s)
{
    if (!s) return;
    free(s->node);
    free(s->rule);
    free(s);
}

uint32_t bt_syntax_never(bt_syntax *s) { return add(s, (bt_node){.kind = BT_NODE_NEVER}); }

uint32_t bt_syntax_range(bt_syntax *s, uint8_t first, uint8_t last)
{
    return add(s, (bt_node){.kind = BT_NODE_RANGE, .a = first, .b = last});
}

uint32_t bt_syntax_text(bt_syntax *s, const void *bytes, size_t len)
{
    const uint8_t *b = bytes;
    uint32_t node = BT_SYNTAX_EMPTY;
    for (size_t i = 0; i < len; i++) node = bt_syntax_join(s, node, bt_syntax_range(s, b[i], b[i]));
    return node;
}

uint32_t bt_syntax_join(bt_syntax *s, uint32_t a, uint32_t b)
{
    if (a == BT_SYNTAX_EMPTY) return b;
    if (b == BT_SYNTAX_EMPTY) return a;
    return add(s, (bt_node){.kind = BT_NODE_JOIN, .a = a, .b = b});
}

uint32_t bt_syntax_either(bt_syntax *s, uint32_t a, uint32_t b)
{
    return add(s, (bt_node){.kind = BT_NODE_EITHER, .a = a, .b = b});
}

uint32_t bt_syntax_repeat(bt_syntax *s, uint32_t a, uint32_t min, uint32_t max)
{
    return add(s, (bt_node){.kind = BT_NODE_REPEAT, .a = a, .min = min, .max = max});
}

uint32_t bt_syntax_at_begin(bt_syntax *s) { return add(s, (bt_node){.kind = BT_NODE_BEGIN}); }
uint32_t bt_syntax_at_end(bt_syntax *s) { return add(s, (bt_node){.kind = BT_NODE_END}); }

uint32_t bt_syntax_call(bt_syntax *s, uint32_t rule, uint32_t min, uint32_t max)
{
    if (max == 0) return BT_SYNTAX_EMPTY;
    if (max == BT_SYNTAX_NO_END) max = BT_PROGRAM_NO_END;
    else if (max >= BT_PROGRAM_NO_END && s->err == BT_OK) s->err = BT_ELIMIT;
    if (min >= BT_PROGRAM_NO_END && s->err == BT_OK) s->err = BT_ELIMIT;
    return add(s, (bt_node){.kind = BT_NODE_CALL, .a = rule, .min = min, .max = max});
}

uint32_t bt_syntax_rule(bt_syntax *s, const char *name)
{
    if (s->err < 0) return 0;
    if (s->rules == BT_PROGRAM_RULES) s->err = BT_ELIMIT;
    else if (!bt_syntax_grow(&s->rule, &s->rule_cap, s->rules, sizeof *s->rule)) s->err = BT_ENOMEM;
    if (s->err < 0) return 0;
    s->rule[s->rules] = (bt_rule){.name = name};
    return (uint32_t)s->rules++;
}

void bt_syntax_define(bt_syntax *s, uint32_t rule, uint32_t node)
{
    s->rule[rule].root = node;
    s->rule[rule].is_defined = true;
}

bool bt_syntax_is_defined(const bt_syntax *s, uint32_t rule) { return s->rule[rule].is_defined; }

void bt_syntax_restrict(bt_syntax *s, uint32_t rule, uint32_t node, bool is_out)
{
    s->rule[rule].filter = node;
    s->rule[rule].has_filter = true;
    s->rule[rule].is_out = is_out;
}

void bt_syntax_quote(bt_syntax *s, uint32_t rule) { s->rule[rule].is_quoted = true; }

void bt_syntax_spread(bt_syntax *s, uint32_t rule) { s->rule[rule].is_spread = true; }

/* ---- characters ----------------------------------------------------------------------------------- */
static int by_first(const void *a, const void *b)
{
    const bt_syntax_chars *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

size_t bt_syntax_chars_sort(bt_syntax_chars *set, size_t n)
{
    size_t kept = 0;
    if (n > 0) qsort(set, n, sizeof *set, by_first);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && set[i].first <= set[kept - 1].last + 1) {
            if (set[kept - 1].last < set[i].last) set[kept - 1].last = set[i].last;
        } else {
            set[kept++] = set[i];
        }
    }
    return kept;
}

size_t bt_syntax_chars_invert(bt_syntax_chars *ret, const bt_syntax_chars *set, size_t n)
{
    size_t kept = 0;
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (from < set[i].first) ret[kept++] = (bt_syntax_chars){from, set[i].first - 1};
        from = set[i].last + 1;
    }
    if (from <= 0x10ffff) ret[kept++] = (bt_syntax_chars){from, 0x10ffff};
    return kept;
}

static size_t encode(uint8_t ret[4], uint32_t c)
{
    if (c < 0x80) {
        ret[0] = (uint8_t)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i > 0; c >>= 6) ret[i] = (uint8_t)(0x80 | (c & 0x3f));
    ret[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* The bytes of a range: cut until both ends have one length and all bytes behind the first that differs run
 * over all 64 values; each cut leaves a piece that is done. */
static uint32_t utf8_range(bt_syntax *s, uint32_t node, uint32_t first, uint32_t last)
{
    static const uint32_t edges[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff};
    while (first <= last) {
        uint32_t end = last;
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
            if (first <= edges[i] && edges[i] < end) end = edges[i];
        if (first >= 0xd800 && first <= 0xdfff) {
            first = end + 1;
            continue;
        }
        for (uint32_t bits = 6; bits <= 18 && end > 0x7f; bits += 6) {
            const uint32_t low = (1u << bits) - 1;
            if ((first & ~low) == (end & ~low)) continue;
            if ((first & low) != 0) end = first | low;
            else if ((end & low) != low) end = (end & ~low) - 1;
        }
        uint8_t a[4], b[4];
        const size_t n = encode(a, first);
        (void)encode(b, end);
        uint32_t text = BT_SYNTAX_EMPTY;
        for (size_t i = 0; i < n; i++) text = bt_syntax_join(s, text, bt_syntax_range(s, a[i], b[i]));
        node = node == BT_SYNTAX_EMPTY ? text : bt_syntax_either(s, node, text);
        first = end + 1;
    }
    return node;
}

size_t bt_syntax_next_char(uint32_t *ret, const char *text, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0) return 0;
    const uint8_t *b = (const uint8_t *)text;
    const size_t n = b[0] < 0x80   ? 1
                     : b[0] < 0xc0 ? 0
                     : b[0] < 0xe0 ? 2
                     : b[0] < 0xf0 ? 3
                     : b[0] < 0xf8 ? 4
                                   : 0;
    if (n == 0 || n > len) return 0;
    uint32_t c = n == 1 ? b[0] : b[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (b[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *ret = c;
    return n;
}

/* A character that JSON escapes, as its escape. */
static uint32_t escaped(bt_syntax *s, uint32_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4 & 15], hex[c & 15]};
    const char *at = c ? memchr(from, (int)c, sizeof from - 1) : NULL;
    if (!at) return bt_syntax_text(s, text, 6);
    text[1] = to[at - from];
    return bt_syntax_text(s, text, 2);
}

uint32_t bt_syntax_char(bt_syntax *s, const bt_syntax_chars *set, size_t n, bool is_json)
{
    uint32_t node = BT_SYNTAX_EMPTY;
    for (size_t i = 0; i < n; i++) {
        uint32_t first = set[i].first;
        for (uint32_t c = first; is_json && c <= set[i].last && c <= '\\'; c++) {
            if (c >= 0x20 && c != '"' && c != '\\') continue;
            if (first < c) node = utf8_range(s, node, first, c - 1);
            const uint32_t text = escaped(s, c);
            node = node == BT_SYNTAX_EMPTY ? text : bt_syntax_either(s, node, text);
            first = c + 1;
        }
        if (first <= set[i].last) node = utf8_range(s, node, first, set[i].last);
    }
    return node == BT_SYNTAX_EMPTY ? bt_syntax_never(s) : node;
}
