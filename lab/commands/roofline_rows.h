#ifndef BT_LAB_COMMANDS_ROOFLINE_ROWS_H
#define BT_LAB_COMMANDS_ROOFLINE_ROWS_H
#include <jansson.h>
#include "device/roofline.h"

/* The tables of `baton roofline`, each an array of rows; numbers in base units. NULL when memory is out. */

/* Every built-in profile with a time: peaks, memory, ridges, and the least time of a token of 14e9 bytes. */
json_t *tool_roofline_devices(void);
/* The sizes of a shape: all its weights and those of a row, and where they are from. given: as -m names it. */
void tool_roofline_model(json_t *rows, const bt_dims *s, const char *given);
/* KV of one shape in FP16: a token, and contexts; a second row for a shape with shared heads, without sharing;
 * none for a latent. */
void tool_roofline_kv(json_t *rows, const bt_dims *s);
/* Handing 1,024 tokens of KV over Ethernet of 1, 10, 25 and 100 Gbit/s: the wire alone. */
void tool_roofline_handoff(json_t *rows, const bt_dims *s);
/* Parts of a token's multiply-accumulates at several contexts. */
void tool_roofline_shares(json_t *rows, const bt_dims *s);
/* Bytes of one layer's attention over 8,192 tokens, with and without a score matrix. */
void tool_roofline_flash(json_t *rows, const bt_dims *s);
/* The greatest rate of decoding of a shape on every profile with a time: its weights by the memory's peak, in 16 bits,
 * q8_0, q4_0.
 */
void tool_roofline_ceilings(json_t *rows, const bt_dims *s);
/* First token on a pair and on the decode device alone at several lengths. */
void tool_roofline_lengths(json_t *rows, const bt_roofline_pair *p, const bt_dims *s);

/* The columns of a table for people. */
typedef struct tool_roofline_column {
    const char *key, *head; /* key: of the row, or "error.ttft.text" of objects in it */
    int decimals;           /* of a number; -1: a text */
    double divisor;         /* the shown unit in base units */
} tool_roofline_column;
typedef struct tool_roofline_table {
    const char *key, *title;
    const tool_roofline_column *column;
    size_t columns;
} tool_roofline_table;
/* Ends with a key of NULL. */
extern const tool_roofline_table tool_roofline_tables[];
/* The text of a row in a column; returns ret. */
enum { TOOL_ROOFLINE_CELL_BYTES = 168 };
char *tool_roofline_cell(char ret[TOOL_ROOFLINE_CELL_BYTES], const tool_roofline_column *c, const json_t *row);
/* Prints each table that `object` has. */
void tool_roofline_print(const json_t *object);
#endif
