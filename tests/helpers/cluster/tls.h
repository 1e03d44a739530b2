#ifndef TESTS_TLS_H
#define TESTS_TLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Certificates for tests, and a client that speaks TLS to a gateway and may break its rules. Failures of the helper
 * itself abort. */

/* A certificate for localhost and 127.0.0.1, signed by itself, and its key: DIR/NAME.cert.pem and DIR/NAME.key.pem in
 * the directory of spawn.h, readable by their owner alone. It is good from now + begins_s to now + ends_s. */
typedef struct tls_pair {
    char cert[256], key[256];
    unsigned char serial[8];
} tls_pair;
void tls_make_pair(tls_pair *ret, const char *name, int64_t begins_s, int64_t ends_s); /* of P-256 */
void tls_make_rsa_pair(tls_pair *ret, const char *name); /* RSA, 2,048 bits, good for an hour */

typedef struct tls tls;
/* Connects to https://127.0.0.1:PORT and trusts what `cert` has; NULL: no connection, or no trust. tls_begin says only
 * the first `hello_bytes` bytes of the handshake, 0 all of its first message, and returns the socket. */
tls *tls_dial(const char *url, const char *cert);
int tls_begin(const char *url, size_t hello_bytes);
/* The same with the ticket that `before` has got with an answer. */
tls *tls_dial_again(const char *url, const char *cert, tls *before);
bool tls_is_resumed(tls *t);
bool tls_has_serial(tls *t, const tls_pair *p); /* the server showed this certificate */
int tls_fd(const tls *t);

bool tls_say(tls *t, const void *bytes, size_t len); /* false: not all of it was taken */
/* One record of these bytes, whose first `most` bytes on the wire go out and whose rest is kept for tls_say_rest. */
bool tls_say_part(tls *t, const void *bytes, size_t len, size_t most);
bool tls_say_rest(tls *t);
/* Reads until `words` came (NULL: until the end); bytes that fit are kept, with a 0 behind them. CUT: the stream ended
 * without a word of TLS, or with a reset. SILENT: nothing came for ms. */
typedef enum tls_heard { TLS_WORDS, TLS_ENDED, TLS_CUT, TLS_SILENT } tls_heard;
tls_heard tls_hear(tls *t, char *ret, size_t size, const char *words, int64_t ms);

/* Says that no more comes, and shuts the socket's sending side; the client may read on. */
void tls_half_close(tls *t);
/* How a client leaves: with TLS's last word, without it, or with a reset. */
typedef enum tls_leave { TLS_LEAVES_WELL, TLS_LEAVES_BARE, TLS_LEAVES_BY_RESET } tls_leave;
void tls_close(tls *t, tls_leave how);
#endif
