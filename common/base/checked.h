#ifndef BT_BASE_CHECKED_H
#define BT_BASE_CHECKED_H
#include "base/err.h"
#include "base/file.h"

/* Large files carry hashes of their content. Comparing them takes longer than all else at the start of a process, so a
 * file is compared once for each state that it is in: after that the folder `checked` of the cache (base/cache.h) has a
 * mark of that state. Processes that open a file together compare it once; the others wait for that. What a mark does
 * not see is a disk that returns other bytes than it was given. */

/* Runs check(ud), unless it has succeeded for this state before. A state that is not settled, or a cache that cannot be
 * written, means that it runs. Errors of check. */
bt_err bt_checked_once(bool *ret_ran, const bt_file_state *state, bt_err (*check)(void *ud, bt_fault *fault), void *ud,
                       bt_fault *fault);
#endif
