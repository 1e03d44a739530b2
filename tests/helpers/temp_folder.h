#ifndef TESTS_TEMP_FOLDER_H
#define TESTS_TEMP_FOLDER_H
#include <stdbool.h>

/* A folder of a test's own, below $TMPDIR; below /tmp where that is not set, or too long for the path of a socket. */
enum { TEMP_FOLDER_BYTES = 96 };

/* Makes the folder and writes its path. false: it cannot be made; errno says why. */
bool temp_folder_new(char ret[TEMP_FOLDER_BYTES]);
/* Removes it with all that is in it. 0, or -1: as a teardown gives it. */
int temp_folder_remove(const char *path);
#endif
