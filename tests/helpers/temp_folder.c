#include "tests/helpers/temp_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BASE_MAX_BYTES = 60, OPEN_MAX_FOLDERS = 16 };

bool temp_folder_new(char ret[TEMP_FOLDER_BYTES])
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base || strlen(base) > BASE_MAX_BYTES) base = "/tmp";
    (void)snprintf(ret, TEMP_FOLDER_BYTES, "%s/test-XXXXXX", base);
    return mkdtemp(ret) != NULL;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int temp_folder_remove(const char *path)
{
    return nftw(path, remove_entry, OPEN_MAX_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
