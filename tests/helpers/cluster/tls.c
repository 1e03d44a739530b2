/* See tls.h. */
#include "tests/helpers/cluster/tls.h"
#include "tests/helpers/cluster/raw_http.h"
#include "tests/helpers/cluster/spawn.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_BYTES = 20 << 10 };

struct tls {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
    bool keeps; /* what is pushed is kept, not sent */
    size_t kept, sent;
    unsigned char wire[RECORD_BYTES];
};

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "tls: %s\n", what);
    abort();
}

/* ---- certificates ------------------------------------------------------------------------------- */

static void write_private(const char *path, const gnutls_datum_t *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, text->data, text->size) == (ssize_t)text->size, path);
    close(fd);
}

static void make(tls_pair *ret, const char *name, gnutls_pk_algorithm_t kind, unsigned bits, int64_t begins_s,
                 int64_t ends_s)
{
    static unsigned count;
    static const unsigned char loopback[4] = {127, 0, 0, 1};
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t c;
    gnutls_datum_t pem;
    char file[64];
    const time_t now = time(NULL);
    *ret = (tls_pair){.serial = {1, 2, 3, 4, 5, 6, 7, (unsigned char)++count}};
    must(gnutls_x509_privkey_init(&key) >= 0 && gnutls_x509_crt_init(&c) >= 0 &&
             gnutls_x509_privkey_generate(key, kind, bits, 0) >= 0 &&
             gnutls_x509_crt_set_version(c, 3) >= 0 && gnutls_x509_crt_set_key(c, key) >= 0 &&
             gnutls_x509_crt_set_serial(c, ret->serial, sizeof ret->serial) >= 0 &&
             gnutls_x509_crt_set_activation_time(c, now + begins_s) >= 0 &&
             gnutls_x509_crt_set_expiration_time(c, now + ends_s) >= 0 &&
             gnutls_x509_crt_set_dn_by_oid(c, GNUTLS_OID_X520_COMMON_NAME, 0, "localhost", 9) >= 0 &&
             gnutls_x509_crt_set_subject_alt_name(c, GNUTLS_SAN_DNSNAME, "localhost", 9, GNUTLS_FSAN_SET) >=
                 0 &&
             gnutls_x509_crt_set_subject_alt_name(c, GNUTLS_SAN_IPADDRESS, loopback, sizeof loopback,
                                                  GNUTLS_FSAN_APPEND) >= 0 &&
             gnutls_x509_crt_set_basic_constraints(c, 1, 0) >= 0 &&
             gnutls_x509_crt_sign2(c, c, key, GNUTLS_DIG_SHA256, 0) >= 0,
         "a certificate");
    snprintf(file, sizeof file, "%s.cert.pem", name);
    snprintf(ret->cert, sizeof ret->cert, "%s", spawn_path(file));
    snprintf(file, sizeof file, "%s.key.pem", name);
    snprintf(ret->key, sizeof ret->key, "%s", spawn_path(file));
    must(gnutls_x509_crt_export2(c, GNUTLS_X509_FMT_PEM, &pem) >= 0, "a certificate's text");
    write_private(ret->cert, &pem);
    gnutls_free(pem.data);
    must(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem) >= 0, "a key's text");
    write_private(ret->key, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(c);
    gnutls_x509_privkey_deinit(key);
}

void tls_make_pair(tls_pair *ret, const char *name, int64_t begins_s, int64_t ends_s)
{
    make(ret, name, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), begins_s, ends_s);
}

void tls_make_rsa_pair(tls_pair *ret, const char *name) { make(ret, name, GNUTLS_PK_RSA, 2048, -60, 3600); }

/* ---- the client --------------------------------------------------------------------------------- */

static ssize_t push(gnutls_transport_ptr_t ud, const void *bytes, size_t len)
{
    tls *t = ud;
    if (!t->keeps) return send(t->fd, bytes, len, MSG_NOSIGNAL);
    must(len <= sizeof t->wire - t->kept, "a record that is too long");
    memcpy(t->wire + t->kept, bytes, len);
    t->kept += len;
    return (ssize_t)len;
}

static ssize_t pull(gnutls_transport_ptr_t ud, void *bytes, size_t len)
{
    return recv(((tls *)ud)->fd, bytes, len, 0);
}

static int may_pull(gnutls_transport_ptr_t ud, unsigned ms)
{
    struct pollfd p = {.fd = ((tls *)ud)->fd, .events = POLLIN};
    return poll(&p, 1, ms == GNUTLS_INDEFINITE_TIMEOUT ? -1 : (int)ms);
}

static tls *begin(const char *url, const char *cert)
{
    tls *t = calloc(1, sizeof *t);
    must(t && gnutls_certificate_allocate_credentials(&t->trust) >= 0 &&
             gnutls_init(&t->session, GNUTLS_CLIENT) >= 0 && gnutls_set_default_priority(t->session) >= 0 &&
             gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, t->trust) >= 0,
         "memory");
    if (cert) must(gnutls_certificate_set_x509_trust_file(t->trust, cert, GNUTLS_X509_FMT_PEM) > 0, "trust");
    gnutls_session_set_verify_cert(t->session, "localhost", 0);
    gnutls_transport_set_ptr(t->session, t);
    gnutls_transport_set_push_function(t->session, push);
    gnutls_transport_set_pull_function(t->session, pull);
    gnutls_transport_set_pull_timeout_function(t->session, may_pull);
    gnutls_handshake_set_timeout(t->session, (unsigned)spawn_patience(20000));
    t->fd = raw_dial(url);
    return t;
}

static void forget(tls *t)
{
    gnutls_deinit(t->session);
    gnutls_certificate_free_credentials(t->trust);
    free(t);
}

static tls *dial(const char *url, const char *cert, const gnutls_datum_t *ticket)
{
    tls *t = begin(url, cert);
    if (ticket) must(gnutls_session_set_data(t->session, ticket->data, ticket->size) >= 0, "a ticket");
    int r = t->fd < 0 ? -1 : GNUTLS_E_AGAIN;
    while (r < 0 && !gnutls_error_is_fatal(r) && t->fd >= 0) r = gnutls_handshake(t->session);
    if (r >= 0 && t->fd >= 0) return t;
    if (t->fd >= 0) close(t->fd);
    forget(t);
    return NULL;
}

tls *tls_dial(const char *url, const char *cert) { return dial(url, cert, NULL); }

tls *tls_dial_again(const char *url, const char *cert, tls *before)
{
    gnutls_datum_t ticket;
    must(gnutls_session_get_data2(before->session, &ticket) >= 0, "no ticket");
    tls *t = dial(url, cert, &ticket);
    gnutls_free(ticket.data);
    return t;
}

bool tls_is_resumed(tls *t) { return gnutls_session_is_resumed(t->session) != 0; }

int tls_begin(const char *url, size_t hello_bytes)
{
    tls *t = begin(url, NULL);
    const int fd = t->fd;
    must(fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "a connection");
    t->keeps = true;
    gnutls_handshake_set_timeout(t->session, 0); /* it waits for nothing */
    (void)gnutls_handshake(t->session);
    must(fcntl(fd, F_SETFL, 0) == 0, "a connection");
    if (hello_bytes == 0 || hello_bytes > t->kept) hello_bytes = t->kept;
    must(raw_say(fd, t->wire, hello_bytes), "the other side took nothing");
    forget(t);
    return fd;
}

bool tls_has_serial(tls *t, const tls_pair *p)
{
    unsigned n = 0;
    unsigned char serial[32];
    size_t len = sizeof serial;
    gnutls_x509_crt_t c;
    const gnutls_datum_t *der = gnutls_certificate_get_peers(t->session, &n);
    must(der && n > 0 && gnutls_x509_crt_init(&c) >= 0 &&
             gnutls_x509_crt_import(c, der, GNUTLS_X509_FMT_DER) >= 0 &&
             gnutls_x509_crt_get_serial(c, serial, &len) >= 0,
         "no certificate");
    gnutls_x509_crt_deinit(c);
    return len == sizeof p->serial && memcmp(serial, p->serial, len) == 0;
}

int tls_fd(const tls *t) { return t->fd; }

bool tls_say(tls *t, const void *bytes, size_t len)
{
    for (const char *at = bytes; len > 0;) {
        const ssize_t n = gnutls_record_send(t->session, at, len);
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) continue;
        if (n <= 0) return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

bool tls_say_part(tls *t, const void *bytes, size_t len, size_t most)
{
    t->keeps = true;
    t->kept = 0;
    must(gnutls_record_send(t->session, bytes, len) == (ssize_t)len && most <= t->kept, "not one record");
    t->keeps = false;
    t->sent = most;
    return raw_say(t->fd, t->wire, most);
}

bool tls_say_rest(tls *t) { return raw_say(t->fd, t->wire + t->sent, t->kept - t->sent); }

tls_heard tls_hear(tls *t, char *ret, size_t size, const char *words, int64_t ms)
{
    char rest[4096];
    size_t len = 0;
    ret[0] = 0;
    for (;;) {
        const bool is_full = len + 1 >= size;
        if (gnutls_record_check_pending(t->session) == 0 && may_pull(t, (unsigned)ms) <= 0) return TLS_SILENT;
        const ssize_t n = gnutls_record_recv(t->session, is_full ? rest : ret + len,
                                             is_full ? sizeof rest : size - 1 - len);
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) continue;
        if (n == 0) return TLS_ENDED;
        if (n < 0) return TLS_CUT;
        if (is_full) continue;
        len += (size_t)n;
        ret[len] = 0;
        if (words && strstr(ret, words)) return TLS_WORDS;
    }
}

void tls_half_close(tls *t)
{
    must(gnutls_bye(t->session, GNUTLS_SHUT_WR) >= 0 && shutdown(t->fd, SHUT_WR) == 0, "a half close");
}

void tls_close(tls *t, tls_leave how)
{
    const struct linger gently = {0, 0};
    if (how != TLS_LEAVES_BY_RESET) /* raw_dial's sockets reset otherwise */
        must(setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &gently, sizeof gently) == 0, "a socket");
    if (how == TLS_LEAVES_WELL) (void)gnutls_bye(t->session, GNUTLS_SHUT_WR);
    close(t->fd);
    forget(t);
}
