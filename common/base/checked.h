#ifndef BT_BASE_CHECKED_H
#define BT_BASE_CHECKED_H
#include "base/err.h"
#include "base/file.h"

/* Large files carry hashes of their content. Comparing the hashes takes longer than all else at the start of a process,
 * so a file is compared once in each of its states: after that the folder `checked` of the cache (base/cache.h) has a
 * mark of the state. When several processes open a file together, one compares and the others wait. A mark does not
 * notice a disk that returns other bytes than it was given. */

/* Runs check(ud), unless it has succeeded for this state before. Where the state is not settled or the cache cannot be
 * written, check always runs. Returns the errors of check. */
bt_err bt_checked_once(bool *ret_ran, const bt_file_state *state, bt_err (*check)(void *ud, bt_fault *fault), void *ud,
                       bt_fault *fault);
#endif
