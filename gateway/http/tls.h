#ifndef GW_TLS_H
#define GW_TLS_H
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdint.h>
#include "base/err.h"

/* The certificate that the HTTP server shows, and its private key, from two PEM files that can be read again while the
 * server runs. A pair is taken only when the first file has certificates, the server's own first and behind each the
 * one that signed it, the second has a key without a passphrase, and the key belongs to the first certificate. Its
 * dates are not judged here. One thread. */
typedef struct gw_tls gw_tls;
typedef struct gw_tls_pair gw_tls_pair;

enum { GW_TLS_MAX_FILE_BYTES = 64 << 10, GW_TLS_MAX_CERTS = 8 };

/* TLS 1.2 and 1.3, and only with keys that a stolen certificate's key does not open later. */
#define GW_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA"

typedef struct gw_tls_facts {
    int64_t begins_s, ends_s; /* of the server's own certificate, in seconds since 1970 */
    uint64_t taken, refused;  /* pairs that gw_tls_reload read */
} gw_tls_facts;

/* The paths are borrowed. Errors name the file and the cause: BT_EIO, BT_EARG, BT_EAUTH and BT_ELIMIT as bt_secret_read
 * has them, where others may read the certificate and not the key; BT_EFORMAT: not a certificate, not a key, or a key
 * of another certificate. */
bt_err gw_tls_open(gw_tls **ret, const char *cert_path, const char *key_path, bt_fault *fault);
/* Connections that begin from now on are shown the new pair. Errors are those of gw_tls_open; the pair in use stays. */
bt_err gw_tls_reload(gw_tls *t, bt_fault *fault);
void gw_tls_free(gw_tls *t); /* NULL is fine; pairs that are held live on */
gw_tls_facts gw_tls_facts_of(const gw_tls *t);

/* The pair in use, for a session that begins; it lives until it is given back, whatever is loaded meanwhile. The client
 * gets tickets, which resume the session for as long as the pair is in use. give: NULL is fine. */
gw_tls_pair *gw_tls_hold(gw_tls *t, gnutls_session_t session);
void gw_tls_give(gw_tls_pair *p);
/* Answers what GnuTLS asks in a handshake; the answer lives as long as p. Returns 0. */
int gw_tls_show(gw_tls_pair *p, gnutls_pcert_st **certs, unsigned *certs_len, gnutls_privkey_t *key);
#endif
