#ifndef BT_GRAMMAR_SYNTAX_PRIVATE_H
#define BT_GRAMMAR_SYNTAX_PRIVATE_H
#include "grammar/syntax.h"

/* The trees as assemble.c reads them. */
typedef enum bt_node_kind {
    BT_NODE_EMPTY,
    BT_NODE_NEVER,
    BT_NODE_RANGE,  /* a byte a..b */
    BT_NODE_JOIN,   /* a, then b */
    BT_NODE_EITHER, /* a or b */
    BT_NODE_REPEAT, /* a, min..max times */
    BT_NODE_CALL,   /* rule a, min..max times */
    BT_NODE_BEGIN,
    BT_NODE_END,
} bt_node_kind;
typedef struct bt_node {
    bt_node_kind kind;
    uint32_t a, b, min, max;
} bt_node;
typedef struct bt_rule {
    const char *name;
    uint32_t root, filter; /* filter: of bt_syntax_restrict, where has_filter */
    bool is_defined, has_filter, is_out, is_quoted, is_spread;
} bt_rule;
struct bt_syntax {
    bt_node *node;
    size_t nodes, node_cap;
    bt_rule *rule;
    size_t rules, rule_cap;
    bt_err err; /* the first one */
};

/* Makes room for one more behind n of them: false without memory. */
bool bt_syntax_grow(void *array, size_t *cap, size_t n, size_t item_bytes);
#endif
