#ifndef BT_KERNELS_FORMS_LAYOUT_H
#define BT_KERNELS_FORMS_LAYOUT_H
#include "kernels/forms.h"

#include <string.h>

/* Where the parts of a group lie in its panel, as forms.h describes; for all files that read or write panels. */
enum { FORM_FP4_BYTES = 320, FORM_FP4_CODES = 64, FORM_MX_BYTES = 256 }; /* MX: codes alone */

/* Bytes of an INT8 group. */
static inline size_t form_int8_bytes(size_t group) { return 32 + 16 * group; }

/* The f16 of a panel's output, from 16 that begin at p. */
static inline uint16_t form_f16_at(const uint8_t *p, size_t output)
{
    uint16_t h;
    memcpy(&h, p + 2 * output, sizeof h);
    return h;
}

/* The byte in 256 bytes of codes, and the shift in it, of the code of the group's input i in [0, 32) and the panel's
 * output j in [0, 16). */
static inline size_t form_code_byte(size_t i, size_t j)
{
    return i / 8 * 64 + j / 4 * 16 + i / 2 % 2 * 8 + j % 4 * 2 + i % 2;
}
static inline unsigned form_code_shift(size_t i) { return i / 4 % 2 * 4; }

/* Where the e of a panel's output lie: 16 for each group, behind the codes of all. */
static inline size_t form_mx_scale(size_t groups, size_t g) { return groups * FORM_MX_BYTES + g * 16; }
#endif
