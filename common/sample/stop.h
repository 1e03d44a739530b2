#ifndef BT_SAMPLE_STOP_H
#define BT_SAMPLE_STOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Stop strings over streamed text. Text that may still turn out to begin a stop string is held back. Text before a stop
 * string is given; the stop string and the text behind it are not. The stop string whose last byte comes first ends the
 * text; where several end at that byte, the longest counts. */
enum { BT_STOP_MAX_STRINGS = 16, BT_STOP_MAX_BYTES = 256 };

typedef struct bt_stop {
    size_t string_count, held_bytes;
    bool stopped;
    size_t found; /* the place of the stop string that was found, with stopped */
    uint16_t len[BT_STOP_MAX_STRINGS];
    char text[BT_STOP_MAX_STRINGS][BT_STOP_MAX_BYTES];
    char held[BT_STOP_MAX_BYTES];
} bt_stop; /* plain data: no resources; treat as opaque */

void bt_stop_init(bt_stop *s);
/* BT_ELIMIT past 16 strings or 256 bytes, BT_EARG for an empty one. The same string twice is fine. */
bt_err bt_stop_add_string(bt_stop *s, const char *text, size_t len, bt_fault *fault);

/* How many bytes the next bt_stop_push of len bytes may write. */
static inline size_t bt_stop_room(const bt_stop *s, size_t len) { return s->held_bytes + len; }
/* Takes text[len]; writes what may be shown to out (bt_stop_room bytes of room) and returns its length. Once
 * a stop string is found *ret_stopped is true, and later pushes give nothing. */
size_t bt_stop_push(bt_stop *s, char *out, const char *text, size_t len, bool *ret_stopped);
/* For a text that ends without a stop string: gives the text held back, at most BT_STOP_MAX_BYTES - 1 bytes. */
size_t bt_stop_flush(bt_stop *s, char *out);
#endif
