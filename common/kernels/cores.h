#ifndef BT_KERNELS_CORES_H
#define BT_KERNELS_CORES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/forms.h"
#include "kernels/int_kernels.h"

/* Choices whose best value depends on the core, not only on its instruction set. A table has a row of choices for each
 * core that has a name here; cpuid says which core this is. A choice that nobody has measured on a core is 0 in its
 * row, and a trial makes it when kernels are first selected (cores_trial.h). No choice changes a bit of any result. */
typedef struct bt_cores_choice {
    uint32_t ahead;     /* products of few rows fetch each panel so many bytes ahead of its use; a multiple of 64 */
    uint32_t copy_rows; /* from so many rows on, AVX2's integer product first copies the weights; at least 2 */
} bt_cores_choice;

typedef struct bt_cores_row {
    const char *name, *what;
    bt_cores_choice choice;
} bt_cores_row;
extern const bt_cores_row bt_cores_table[]; /* "other" last */
#define BT_CORES_NAMES "zen3, zen4, zen5, intel-server, intel-client or other"
extern const size_t bt_cores_table_len;

/* Family and model of cpuid's leaf 1, with the extended fields added: Zen 3 is family 25. */
typedef struct bt_cores_id {
    char vendor[13];
    uint32_t family, model;
    bool has_avx512, has_avxvnni; /* these find the row of an Intel model that has no entry */
} bt_cores_id;
bt_cores_id bt_cores_id_here(void);                     /* of this machine; without cpuid vendor is empty */
const bt_cores_row *bt_cores_of(const bt_cores_id *id); /* "other" where no row fits */
const bt_cores_row *bt_cores_named(const char *name);   /* NULL: no row has this name */

/* The choices in use, which kernels read. bt_cores_use alone writes them, before threads compute. */
extern bt_cores_choice bt_cores_now;

/* The kernels that a trial times. All NULL: no trial is made, and open choices are those of Zen 3. */
typedef struct bt_cores_trial {
    bt_matmul8_fn *matmul8;
    bt_int_prepare_fn *prepare;
    bt_int_matmul_fn *matmul;
} bt_cores_trial;
/* Uses this row's choices, and makes its open ones (0) by a trial. */
void bt_cores_use(const bt_cores_row *row, const bt_cores_trial *trial);
/* The row in use; and a text of its choices and their origin: "zen3: ahead 1024 (table), copy from 8 rows (table)". */
const bt_cores_row *bt_cores_used(void);
enum { BT_CORES_WHY_BYTES = 112 };
void bt_cores_why(char ret[BT_CORES_WHY_BYTES]);
#endif
