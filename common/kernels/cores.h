#ifndef BT_KERNELS_CORES_H
#define BT_KERNELS_CORES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/forms.h"
#include "kernels/int_kernels.h"

/* What the best choice of depends on the core and not on its instruction set alone, as data: a row for each core that
 * has a name here, found by what cpuid says of it. A choice that nobody has measured on a core is 0 in its row and is
 * found by a trial at start (cores_trial.h). No choice changes a bit of any result. */
typedef struct bt_cores_choice {
    uint32_t ahead;     /* bytes that the products of few rows fetch each panel ahead of its use; a multiple of 64 */
    uint32_t copy_rows; /* AVX2's integer product multiplies a copy of the weights from so many rows on, 2 or more */
} bt_cores_choice;

typedef struct bt_cores_row {
    const char *name, *what;
    bt_cores_choice choice;
} bt_cores_row;
extern const bt_cores_row bt_cores_table[]; /* "other" last */
#define BT_CORES_NAMES "zen3, zen4, zen5, intel-server, intel-client or other"
extern const size_t bt_cores_table_len;

/* As cpuid's leaf 1 has them, with the extended fields added: Zen 3 is family 25. */
typedef struct bt_cores_id {
    char vendor[13];
    uint32_t family, model;
    bool has_avx512, has_avxvnni; /* Intel's models that the table does not know yet go by these */
} bt_cores_id;
bt_cores_id bt_cores_id_here(void); /* no vendor where there is no cpuid */
const bt_cores_row *bt_cores_of(const bt_cores_id *id);
const bt_cores_row *bt_cores_named(const char *name); /* or NULL */

/* What kernels read. Written by bt_cores_use alone, before threads compute. */
extern bt_cores_choice bt_cores_now;

/* The kernels that a trial times; all NULL: none is made, and what a row leaves open is as on Zen 3. */
typedef struct bt_cores_trial {
    bt_matmul8_fn *matmul8;
    bt_int_prepare_fn *prepare;
    bt_int_matmul_fn *matmul;
} bt_cores_trial;
/* Takes this row's choices; those that it leaves open from a trial. */
void bt_cores_use(const bt_cores_row *row, const bt_cores_trial *trial);
/* The row in use, and in words how its choices came about: "zen3: ahead 1024 (table), copy from 8 rows (trial)". */
const bt_cores_row *bt_cores_used(void);
enum { BT_CORES_WHY_BYTES = 112 };
void bt_cores_why(char ret[BT_CORES_WHY_BYTES]);
#endif
