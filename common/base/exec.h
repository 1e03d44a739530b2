#ifndef BT_BASE_EXEC_H
#define BT_BASE_EXEC_H

/* This process becomes the program at `path`, as execv does, for children between fork and their program. Where the
 * environment has BATON_RUNNER, its words (split at spaces, at most 15) go in front: an emulator, for programs built
 * for another machine (make CROSS=aarch64). Then argv[0] of the program is its path. argv: at most 200 words. Returns
 * only on failure; errno says why. Allocates nothing. */
void bt_exec(const char *path, const char *const *argv);
#endif
