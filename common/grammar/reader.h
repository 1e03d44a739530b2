#ifndef BT_GRAMMAR_READER_H
#define BT_GRAMMAR_READER_H
#include "grammar/syntax.h"

/* The common part of the parsers of regular expressions and of GBNF. */
enum {
    BT_READER_BYTES = 65536, /* of one text */
    BT_READER_GROUPS = 64,   /* one in another */
    BT_READER_COUNT = 10000, /* in a quantifier */
    BT_READER_RANGES = 256,  /* of a class */
    BT_READER_LAST_CHAR = 0x10ffff,
};

typedef struct bt_reader {
    bt_syntax *s;
    const char *text, *what; /* what: "pattern", for errors */
    size_t len, at;
    bool is_json; /* characters stand in a JSON string */
    bool is_gbnf; /* \U and eight digits; no \d and its like */
    bt_fault *f;
    bt_syntax_chars set[BT_READER_RANGES], other[BT_READER_RANGES + 1]; /* the class that is read */
    size_t sets;
} bt_reader;

/* BT_EARG: "what at byte N of the pattern". */
bt_err bt_reader_bad(const bt_reader *p, const char *what);
bool bt_reader_is(const bt_reader *p, const char *text); /* stands at p->at */
/* The character of an escape; p->at stands behind the backslash. */
bt_err bt_reader_escape(uint32_t *ret, bt_reader *p);
/* Adds the set that \d or its like stands for to p->set; false for any other letter. */
bool bt_reader_named(bt_reader *p, char letter, bt_err *ret);
/* The node of a class whose opening bracket was read. */
bt_err bt_reader_class(uint32_t *ret, bt_reader *p);
uint32_t bt_reader_char(bt_reader *p, uint32_t c);

/* The list of one group so far: alternatives before the last |, the sequence behind it, and its last item, to which a
 * quantifier belongs. All zero: an empty one. */
typedef struct bt_series {
    uint32_t either, sequence, item;
    bool has_either, has_item;
} bt_series;
void bt_reader_take(bt_reader *p, bt_series *g);                /* no quantifier follows */
void bt_reader_item(bt_reader *p, bt_series *g, uint32_t node); /* one more */
uint32_t bt_reader_close(bt_reader *p, bt_series *g);           /* the node of all of it */
/* *ret: a quantifier stood at p->at (and a ? that makes it lazy), and is around the last item. */
bt_err bt_reader_repeat(bool *ret, bt_reader *p, bt_series *g);

/* ---- regular expressions inside of schemas ---- */

typedef enum bt_regex_form {
    BT_REGEX_WHOLE,  /* the text as a whole, plain UTF-8 */
    BT_REGEX_SEARCH, /* somewhere in a text, which stands in a JSON string without its quotes, escaped where it must be
                      */
} bt_regex_form;

/* *ret: a node, which belongs into a rule of its own: ^ and $ are true at that rule's ends. BT_EARG says what is wrong
 * and at which byte, BT_ELIMIT the limit. */
bt_err bt_regex_parse(uint32_t *ret, bt_syntax *s, const char *text, size_t len, bt_regex_form form, bt_fault *fault);
#endif
