#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H
#include "model/model.h"
#include "tests/helpers/model/tiny_gguf.h"

/* A model opened from a file in memory, or why it was not. */
typedef struct tiny_model {
    uint8_t *bytes;
    bt_model *m; /* NULL after a failure */
    bt_err e;
    bt_fault fault;
} tiny_model;
tiny_model tiny_model_open(const tiny_gguf_spec *spec);
void tiny_model_close(tiny_model *o);
#endif
