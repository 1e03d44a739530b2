#ifndef BT_NPU_IMAGES_H
#define BT_NPU_IMAGES_H
#include "base/err.h"
#include "npu/pkg/pkg.h"

/* What a device would map of a package, session by session, as files, for whoever builds a loader for the device. Made
 * from the package alone. docs/package-format.md has the bytes: each matrix that the NPU reads in whole tiles of the
 * device's matrix unit (device/tile.h), its scales and sums, then the KV state and the arena, which are zeros.
 *
 * Writes DIR/session-N.img for each session N, and deletes such files of more sessions than there are. DIR is made
 * where it is not there. A file appears under its name only when it is whole; one is written at a time, in memory of a
 * row of tiles. Its size is the session's mapped_bytes: the bytes are added up as they are written, and BT_EFORMAT says
 * both numbers where they differ. BT_EIO: a disk that is full, a folder that cannot be written; BT_ENOMEM. The package
 * was opened by bt_pkg_open. */
bt_err bt_images_write(const bt_pkg *p, const char *dir, bt_fault *fault);
#endif
