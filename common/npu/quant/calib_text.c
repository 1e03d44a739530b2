/* The text for calibration that ships with the project: calib.txt, of which the Makefile makes a string. */
#include "npu/quant/calib.h"

static const char text[] =
#include "npu/quant/calib.txt.h"
    ;

const char *bt_calib_text(size_t *ret_len)
{
    *ret_len = sizeof text - 1;
    return text;
}
