/* Reads pairs of certificate and key, and says of each why it cannot be used. */
#include "gateway/http/tls.h"
#include "crypto/secret.h"

#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ID_BYTES = 32 };

struct gw_tls_pair {
    unsigned holders;
    gnutls_pcert_st certs[GW_TLS_MAX_CERTS];
    unsigned certs_len;
    gnutls_privkey_t key;
    gnutls_datum_t tickets; /* the key of its sessions' tickets */
    int64_t begins_s, ends_s;
};

struct gw_tls {
    const char *cert_path, *key_path;
    gw_tls_pair *pair;
    uint64_t taken, refused;
};

/* ---- pairs -------------------------------------------------------------------------------------- */

void gw_tls_give(gw_tls_pair *p)
{
    if (!p || --p->holders > 0) return;
    for (unsigned i = 0; i < p->certs_len; i++) gnutls_pcert_deinit(&p->certs[i]);
    if (p->key) gnutls_privkey_deinit(p->key);
    if (p->tickets.data) bt_secret_wipe(p->tickets.data, p->tickets.size);
    gnutls_free(p->tickets.data);
    free(p);
}

static bt_err read_dates(gw_tls_pair *p)
{
    gnutls_x509_crt_t own = NULL;
    const int r = gnutls_pcert_export_x509(&p->certs[0], &own);
    if (r < 0) return BT_EFORMAT;
    p->begins_s = (int64_t)gnutls_x509_crt_get_activation_time(own);
    p->ends_s = (int64_t)gnutls_x509_crt_get_expiration_time(own);
    gnutls_x509_crt_deinit(own);
    return BT_OK;
}

static bt_err read_certs(gw_tls_pair *p, const char *path, bt_fault *fault)
{
    char *text = NULL;
    size_t len;
    unsigned n = GW_TLS_MAX_CERTS;
    const bt_err e = bt_secret_read(&text, &len, path, GW_TLS_MAX_FILE_BYTES, true, fault);
    if (e < 0) return e;
    const gnutls_datum_t pem = {.data = (unsigned char *)text, .size = (unsigned)len};
    const int r = gnutls_pcert_list_import_x509_raw(p->certs, &n, &pem, GNUTLS_X509_FMT_PEM,
                                                    GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED |
                                                        GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    bt_secret_free(text);
    if (r == GNUTLS_E_SHORT_MEMORY_BUFFER)
        return bt_fail(fault, BT_ELIMIT, "'%s' has more than %d certificates, the limit", path,
                       GW_TLS_MAX_CERTS);
    if (r == GNUTLS_E_CERTIFICATE_LIST_UNSORTED)
        return bt_fail(fault, BT_EFORMAT,
                       "'%s' has certificates out of order: behind each must stand the one that signed it",
                       path);
    if (r == GNUTLS_E_NO_CERTIFICATE_FOUND || (r >= 0 && n == 0))
        return bt_fail(fault, BT_EFORMAT, "'%s' has no certificate in PEM form", path);
    if (r < 0)
        return bt_fail(fault, BT_EFORMAT, "the certificate in '%s' cannot be read: %s", path,
                       gnutls_strerror(r));
    p->certs_len = n;
    return read_dates(p) == BT_OK
               ? BT_OK
               : bt_fail(fault, BT_EFORMAT, "the certificate in '%s' has no dates that can be read", path);
}

static bt_err read_key(gw_tls_pair *p, const char *path, bt_fault *fault)
{
    char *text = NULL;
    size_t len;
    const bt_err e = bt_secret_read(&text, &len, path, GW_TLS_MAX_FILE_BYTES, false, fault);
    if (e < 0) return e;
    const gnutls_datum_t pem = {.data = (unsigned char *)text, .size = (unsigned)len};
    int r = gnutls_privkey_init(&p->key);
    if (r >= 0) r = gnutls_privkey_import_x509_raw(p->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    bt_secret_free(text);
    if (r >= 0) return BT_OK;
    if (r == GNUTLS_E_DECRYPTION_FAILED)
        return bt_fail(fault, BT_EFORMAT, "the key in '%s' has a passphrase: give one without", path);
    return bt_fail(fault, BT_EFORMAT, "the private key in '%s' cannot be read: %s", path, gnutls_strerror(r));
}

static bool belong_together(gw_tls_pair *p)
{
    gnutls_pubkey_t of_key = NULL;
    unsigned char a[KEY_ID_BYTES], b[KEY_ID_BYTES];
    size_t a_len = sizeof a, b_len = sizeof b;
    const unsigned how = GNUTLS_KEYID_USE_SHA256;
    const bool are_known = gnutls_pubkey_init(&of_key) >= 0 &&
                           gnutls_pubkey_import_privkey(of_key, p->key, 0, 0) >= 0 &&
                           gnutls_pubkey_get_key_id(of_key, how, a, &a_len) >= 0 &&
                           gnutls_pubkey_get_key_id(p->certs[0].pubkey, how, b, &b_len) >= 0;
    if (of_key) gnutls_pubkey_deinit(of_key);
    return are_known && a_len == b_len && memcmp(a, b, a_len) == 0;
}

static bt_err read_pair(gw_tls_pair **ret, const char *cert_path, const char *key_path, bt_fault *fault)
{
    gw_tls_pair *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for a certificate");
    p->holders = 1;
    bt_err e = read_certs(p, cert_path, fault);
    if (e == BT_OK) e = read_key(p, key_path, fault);
    if (e == BT_OK && !belong_together(p))
        e = bt_fail(fault, BT_EFORMAT, "the key in '%.90s' does not belong to the certificate in '%.90s'",
                    key_path, cert_path);
    if (e == BT_OK && gnutls_session_ticket_key_generate(&p->tickets) < 0)
        e = bt_fail(fault, BT_ENOMEM, "GnuTLS makes no key for tickets");
    if (e < 0) gw_tls_give(p);
    else *ret = p;
    return e;
}

/* ---- the pair in use ---------------------------------------------------------------------------- */

bt_err gw_tls_open(gw_tls **ret, const char *cert_path, const char *key_path, bt_fault *fault)
{
    gw_tls *t = calloc(1, sizeof *t);
    if (!t) return bt_fail(fault, BT_ENOMEM, "out of memory for a certificate");
    t->cert_path = cert_path;
    t->key_path = key_path;
    const bt_err e = read_pair(&t->pair, cert_path, key_path, fault);
    if (e < 0) free(t);
    else *ret = t;
    return e;
}

bt_err gw_tls_reload(gw_tls *t, bt_fault *fault)
{
    gw_tls_pair *fresh = NULL;
    const bt_err e = read_pair(&fresh, t->cert_path, t->key_path, fault);
    if (e < 0) {
        t->refused++;
        return e;
    }
    gw_tls_give(t->pair);
    t->pair = fresh;
    t->taken++;
    return BT_OK;
}

void gw_tls_free(gw_tls *t)
{
    if (!t) return;
    gw_tls_give(t->pair);
    free(t);
}

gw_tls_facts gw_tls_facts_of(const gw_tls *t)
{
    return (gw_tls_facts){.begins_s = t->pair->begins_s, .ends_s = t->pair->ends_s, .taken = t->taken,
                          .refused = t->refused};
}

gw_tls_pair *gw_tls_hold(gw_tls *t, gnutls_session_t session)
{
    /* Without tickets no session is resumed, and all else works. */
    (void)gnutls_session_ticket_enable_server(session, &t->pair->tickets);
    t->pair->holders++;
    return t->pair;
}

int gw_tls_show(gw_tls_pair *p, gnutls_pcert_st **certs, unsigned *certs_len, gnutls_privkey_t *key)
{
    *certs = p->certs;
    *certs_len = p->certs_len;
    *key = p->key;
    return 0;
}
