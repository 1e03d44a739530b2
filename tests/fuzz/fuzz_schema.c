/* Any bytes as a JSON Schema: a program that passes its check, or an error with words. */
#include "grammar/compile.h"

#include "grammar/program.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_t *schema = json_loadb((const char *)data, len, JSON_DECODE_ANY, NULL);
    bt_buf out;
    bt_fault f = {""};
    bt_program *p = NULL;
    if (!schema) return 0;
    bt_buf_init(&out, BT_PROGRAM_BYTES);
    const bt_err e = bt_schema_compile(&out, schema, &f);
    if (e == BT_OK && bt_program_new(&p, out.data, out.len, &f) < 0 && f.text[0] == '\0') abort();
    if (e < 0 && ((e != BT_EARG && e != BT_ELIMIT) || f.text[0] == '\0')) abort();
    bt_program_free(p);
    bt_buf_done(&out);
    json_decref(schema);
    return 0;
}
