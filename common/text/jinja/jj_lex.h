#ifndef BT_JINJA_JJ_LEX_H
#define BT_JINJA_JJ_LEX_H
#include "text/jinja/jj_str.h"

/* A template cut into tokens, with trim_blocks and lstrip_blocks: data is what remains of it after that. */
typedef enum jj_token_kind {
    JJ_T_END,
    JJ_T_DATA,
    JJ_T_PRINT_OPEN,
    JJ_T_PRINT_SHUT,
    JJ_T_TAG_OPEN,
    JJ_T_TAG_SHUT,
    JJ_T_NAME,
    JJ_T_STRING,
    JJ_T_INT,
    JJ_T_FLOAT,
    JJ_T_OP, /* one or two characters, in op */
} jj_token_kind;

typedef struct jj_token {
    uint8_t kind; /* jj_token_kind */
    char op[3];
    jj_place at;
    const char *ptr; /* data, name, or a string with its escapes resolved */
    size_t len;
    int64_t whole;
    double real;
} jj_token;

typedef struct jj_lex {
    jj_run *run;
    const char *src; /* with "\n" alone for line ends, without the last one */
    size_t len, at;
    size_t placed; /* up to where `place` is counted */
    jj_place place;
    enum { JJ_IN_DATA, JJ_IN_PRINT, JJ_IN_TAG, JJ_IN_RAW } state;
    bool is_line_begin; /* what was taken last ends a line, or nothing was */
    bool is_open;       /* the mark that opens the tag was taken */
    uint32_t brackets;
    char bracket[64];
} jj_lex;

/* Copies the source into the run's memory. */
bool bt_jj_lex_begin(jj_lex *l, jj_run *r, const char *source, size_t len);
/* The run fails with the place in run->at. Empty data is left out. */
bool bt_jj_lex_next(jj_lex *l, jj_token *ret);
#endif
