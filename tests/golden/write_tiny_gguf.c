/* Writes a small model with random weights, the same bytes on every machine: write_tiny_gguf FILE */
#include "tests/helpers/model/tiny_gguf.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: write_tiny_gguf FILE\n", stderr);
        return 2;
    }
    const tiny_gguf_spec spec = tiny_gguf_default();
    tiny_gguf_write(&spec, argv[1]);
    return 0;
}
