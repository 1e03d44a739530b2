#ifndef BT_NPU_IMAGES_H
#define BT_NPU_IMAGES_H
#include "base/err.h"
#include "npu/pkg/pkg.h"

/* The parts of a package that a device would map, as one file for each session, for whoever builds a loader for the
 * device. The images follow from the package alone. docs/package-format.md describes the bytes: each matrix that the
 * NPU reads, in whole tiles of the device's matrix unit (device/tile.h), its scales and sums; then the KV state and the
 * arena, which are zeros.
 *
 * bt_images_write writes DIR/session-N.img for each session N, makes DIR where it is missing, and deletes images of
 * sessions that the package does not have. A file gets its name only when it is whole. Files are written one at a time,
 * in memory of one row of tiles. A file's size is the session's mapped_bytes: written bytes are counted, and BT_EFORMAT
 * names both numbers where they differ. BT_EIO: a full disk, or a folder that cannot be written; BT_ENOMEM. The package
 * was opened by bt_pkg_open. */
bt_err bt_images_write(const bt_pkg *p, const char *dir, bt_fault *fault);
#endif
