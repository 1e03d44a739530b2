#ifndef BT_CRYPTO_SECRET_H
#define BT_CRYPTO_SECRET_H
#include <stdbool.h>
#include <stddef.h>

/* For bytes that are secret, such as API keys. */
bool bt_secret_equal(const void *a, const void *b, size_t n); /* takes the same time whatever the bytes are */
void bt_secret_wipe(void *bytes, size_t n);                   /* the compiler does not leave it out */
#endif
