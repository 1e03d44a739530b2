/* Any bytes as an allow file, and as the frames of a ZAP request: an accepted list knows each of its keys in
 * some role and never the key of zeros, and whatever is asked, only a key of the list is let in. The first
 * byte chooses; a request's frames are a length byte and so many bytes. */
#include "crypto/peer_auth.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 8 };

static const char list[] = "HelloWorldHelloWorldHelloWorldHelloWorld prefill,decode "
                           "east-2\nrq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 gateway\n";

static void parse(const uint8_t *data, size_t len)
{
    static const uint8_t none[32];
    bt_peer_allow *a = NULL;
    uint8_t key[32];
    char *text = malloc(len + 1);
    if (!text) return;
    memcpy(text, data, len);
    text[len] = 0;
    if (bt_peer_auth_parse(&a, text, NULL) == BT_OK) {
        if (bt_peer_auth_roles(a, none) != 0) abort();
        for (unsigned role = 1; role <= 4; role *= 2)
            if (bt_peer_auth_find(key, a, role, NULL, NULL) == BT_OK && !(bt_peer_auth_roles(a, key) & role))
                abort();
        bt_peer_auth_free(a);
    }
    free(text);
}

static void ask(const uint8_t *data, size_t len)
{
    bt_peer_frame frames[MAX_FRAMES];
    uint8_t *exact[MAX_FRAMES];
    size_t n = 0;
    bt_peer_allow *a = NULL;
    bt_peer_auth_reply reply;
    if (bt_peer_auth_parse(&a, list, NULL) < 0) abort();
    while (len > 0 && n < MAX_FRAMES) {
        const size_t size = data[0] < len - 1 ? data[0] : len - 1;
        if (!(exact[n] = malloc(size ? size : 1))) abort();
        memcpy(exact[n], data + 1, size);
        frames[n] = (bt_peer_frame){exact[n], size};
        n++;
        data += size + 1;
        len -= size + 1;
    }
    if (bt_peer_auth_answer(&reply, a, frames, n) == BT_OK) {
        const bool is_in = reply.frames[2].size == 3 && memcmp(reply.frames[2].data, "200", 3) == 0;
        if (is_in != (reply.user_id[0] != 0)) abort();
        if (is_in && (n != 7 || frames[6].size != 32 || !bt_peer_auth_roles(a, frames[6].data))) abort();
    }
    for (size_t i = 0; i < n; i++) free(exact[i]);
    bt_peer_auth_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    if (data[0] & 1) ask(data + 1, len - 1);
    else parse(data + 1, len - 1);
    return 0;
}
