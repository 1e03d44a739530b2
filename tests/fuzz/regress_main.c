/* Runs a fuzz target over files, with any compiler: every argument is a file, or a folder of files. Each
 * input sits in a heap block of exactly its size, so that reading past it is seen. */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static size_t inputs;

static int fail(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 1;
}

static int run_file(const char *path, size_t size)
{
    uint8_t *data = size ? malloc(size) : NULL;
    FILE *f = fopen(path, "rb");
    int rc;
    if (!f || (size && (!data || fread(data, 1, size, f) != size))) {
        rc = fail(path);
    } else {
        fprintf(stderr, "input %s\n", path); /* the last line tells which input broke it */
        rc = LLVMFuzzerTestOneInput(data, size);
        inputs++;
    }
    if (f) fclose(f);
    free(data);
    return rc;
}

static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) return fail(path);
    if (S_ISREG(st.st_mode)) return run_file(path, (size_t)st.st_size);
    struct dirent **names = NULL;
    const int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) return fail(path);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && stat(name, &st) == 0 && S_ISREG(st.st_mode))
            rc |= run_file(name, (size_t)st.st_size);
        free(names[i]);
    }
    free(names);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = 0;
    for (int i = 1; i < argc; i++) rc |= run_path(argv[i]);
    printf("%zu inputs\n", inputs);
    return rc || !inputs;
}
