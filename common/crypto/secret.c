/* Comparing and forgetting secrets, by libsodium. */
#include "crypto/secret.h"

#include <sodium.h>

bool bt_secret_equal(const void *a, const void *b, size_t n) { return sodium_memcmp(a, b, n) == 0; }
void bt_secret_wipe(void *bytes, size_t n) { sodium_memzero(bytes, n); }
