/* Any bytes as a regular expression: a program that passes its check, or an error with words. */
#include "grammar/compile.h"

#include "grammar/program.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_buf out;
    bt_fault f = {""};
    bt_program *p = NULL;
    bt_buf_init(&out, BT_PROGRAM_BYTES);
    const bt_err e = bt_regex_compile(&out, (const char *)data, len, &f);
    if (e == BT_OK && bt_program_new(&p, out.data, out.len, &f) < 0) {
        /* The program's own limits may be met only there. */
        if (f.text[0] == '\0') abort();
    }
    if (e < 0 && ((e != BT_EARG && e != BT_ELIMIT) || f.text[0] == '\0')) abort();
    bt_program_free(p);
    bt_buf_done(&out);
    return 0;
}
