#ifndef BT_CRYPTO_PEER_AUTH_H
#define BT_CRYPTO_PEER_AUTH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "crypto/keys.h"

/* Who may connect and as what, and the answer to libzmq's question (ZAP 1.0, RFC 27), as pure functions: no socket
 * here.
 *
 * The allow file has lines "KEY role[,role...] [name]": KEY in Z85, roles gateway, prefill, decode, the name for people
 * and for `--gateway ENDPOINT@NAME` (1 to 32 of a-z, 0-9 and '-'). A key and a name stand on one line only, so that
 * taking out the line takes out the key. The key of 32 zero bytes is refused: it stands for "no key". Empty lines are
 * skipped, and lines that start with '#' (no key does: five Z85 characters from '#' on exceed 32 bits). */
typedef enum bt_peer_role { BT_PEER_GATEWAY = 1, BT_PEER_PREFILL = 2, BT_PEER_DECODE = 4 } bt_peer_role;

typedef struct bt_peer_allow bt_peer_allow;
/* From DIR/allow. BT_EFORMAT names the line; BT_ELIMIT past 10,000 keys or 1 MiB; BT_EAUTH: others may write to the
 * file or to DIR; BT_EIO. */
bt_err bt_peer_auth_load(bt_peer_allow **ret, const char *dir, bt_fault *fault);
bt_err bt_peer_auth_parse(bt_peer_allow **ret, const char *text, bt_fault *fault);
/* Reads the list again in place: whoever holds it sees the new keys from then on. After an error the list is as it was.
 */
bt_err bt_peer_auth_reload(bt_peer_allow *allow, const char *dir, bt_fault *fault);
void bt_peer_auth_free(bt_peer_allow *allow);          /* NULL is fine */
size_t bt_peer_auth_count(const bt_peer_allow *allow); /* keys */

/* The roles (bits of bt_peer_role) of a key; 0: may not connect. */
unsigned bt_peer_auth_roles(const bt_peer_allow *allow, const uint8_t key[32]);
/* The name of a key, valid until the next reload; "": the key has none or is not in the list. */
const char *bt_peer_auth_name(const bt_peer_allow *allow, const uint8_t key[32]);
/* The key of this name, or where name is NULL the only key with a role of `roles`. The key must have a role of `roles`
 * either way. BT_EAUTH says what is wrong: no such key, another role, or more than one. */
bt_err bt_peer_auth_find(uint8_t ret[32], const bt_peer_allow *allow, unsigned roles, const char *name,
                         bt_fault *fault);
bool bt_peer_auth_has_name(const bt_peer_allow *allow, const char *name);
/* BT_EAUTH: others than its owner may write to this file or directory, and so decide who gets in. */
bt_err bt_peer_auth_check_writers(const char *path, bt_fault *fault);
/* The role bit that a name such as "prefill-2" stands for; 0: none. */
unsigned bt_peer_auth_role_of_name(const char *name);
/* The bits of "role[,role...]" of `len` bytes; 0: the text has another form. */
unsigned bt_peer_auth_role_list(const char *text, size_t len);

typedef struct bt_peer_frame {
    const uint8_t *data;
    size_t size;
} bt_peer_frame;

/* The six frames of the answer point into this struct or to constants; it must stay in place while they are used. */
#define BT_PEER_AUTH_REPLY_FRAMES 6u
typedef struct bt_peer_auth_reply {
    bt_peer_frame frames[BT_PEER_AUTH_REPLY_FRAMES]; /* version, request id, status, text, user id, metadata */
    uint8_t request_id[255];
    char user_id[BT_KEYS_Z85_BYTES]; /* the peer's key when it may connect, else empty */
} bt_peer_auth_reply;

/* frames: version, request id, domain, address, routing id, mechanism, credentials. Status 200 for a CURVE key of the
 * list, 400 for any other, 500 for a request that is not ZAP 1.0. BT_EFORMAT (no answer is possible): fewer than two
 * frames or a request id over 255 bytes. */
bt_err bt_peer_auth_answer(bt_peer_auth_reply *ret, const bt_peer_allow *allow, const bt_peer_frame *frames,
                           size_t count);
#endif
