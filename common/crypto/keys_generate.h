#ifndef BT_CRYPTO_KEYS_GENERATE_H
#define BT_CRYPTO_KEYS_GENERATE_H
#include "base/err.h"

/* The files of new processes: for each of `specs` (ends with NULL; at most BT_KEYS_GENERATE_MAX), "NAME" or
 * "NAME:role[,role]", a secret (crypto/keys.h) and a line at the end of the allow file (crypto/peer_auth.h). Without
 * roles, a name's role is what stands before its first '-': "prefill-2" has the role prefill. Makes DIR (mode 0700),
 * the allow file, and with a gateway the file salt, if need be; existing files stay as they are. BT_EARG, and nothing
 * is written: a NAME.secret or the name in the allow file is there already. BT_EAUTH: others may write to DIR or the
 * allow file. */
enum { BT_KEYS_GENERATE_MAX = 4096 };
bt_err bt_keys_generate(const char *dir, const char *const *specs, bt_fault *fault);
#endif
