/* A model of a file in memory. See tiny_model.h. */
#include "model/gguf.h"
#include "tests/helpers/model/tiny_model.h"

#include <stdlib.h>

tiny_model tiny_model_open(const tiny_gguf_spec *spec)
{
    tiny_model o = {.fault = {""}};
    size_t len;
    bt_gguf *g = NULL;
    o.bytes = tiny_gguf_build(spec, &len);
    o.e = bt_gguf_open_bytes(&g, o.bytes, len, &o.fault);
    if (o.e == BT_OK) o.e = bt_model_from_gguf(&o.m, g, &o.fault);
    return o;
}

void tiny_model_close(tiny_model *o)
{
    bt_model_close(o->m);
    free(o->bytes);
}
