#ifndef BT_MODEL_DEFAULTS_H
#define BT_MODEL_DEFAULTS_H
#include <stdbool.h>

typedef struct bt_gguf bt_gguf; /* model/gguf.h */

/* The sampling parameters of requests that do not give them. Each field comes from an option, else from the model's
 * file under general.sampling.*, else it is what local servers use.
 *
 *   field               range           key of the file  else
 *   temperature         0..2            temp             0.8
 *   top_p               0..1            top_p            0.95
 *   top_k               0..2^31-1       top_k            40    whole; -1 counts as 0: off
 *   min_p               0..1            min_p            0.05
 *   repetition_penalty  0.01..100       penalty_repeat   1 */
typedef enum bt_default_field {
    BT_DEFAULT_TEMPERATURE,
    BT_DEFAULT_TOP_P,
    BT_DEFAULT_TOP_K,
    BT_DEFAULT_MIN_P,
    BT_DEFAULT_REPETITION_PENALTY,
    BT_DEFAULT_FIELDS,
} bt_default_field;

typedef enum bt_default_source {
    BT_DEFAULT_FROM_PROGRAM,
    BT_DEFAULT_FROM_FILE,
    BT_DEFAULT_FROM_OPTION
} bt_default_source;

typedef struct bt_defaults {
    double value[BT_DEFAULT_FIELDS]; /* in range */
    bt_default_source source[BT_DEFAULT_FIELDS];
} bt_defaults;

/* g NULL: no file. A value of the file that is no number or out of range is ignored; `warn` (NULL is fine) gets one
 * line with the key, the value and the range. */
bt_defaults bt_defaults_of(const bt_gguf *g, void (*warn)(void *ud, const char *text), void *ud);
/* Sets a field from an option, whose table has checked the range. */
void bt_defaults_set(bt_defaults *d, bt_default_field field, double value);

const char *bt_defaults_name(bt_default_field field);          /* "temperature", as in the table */
const char *bt_defaults_source_name(bt_default_source source); /* "default", "file", "option" */
#endif
