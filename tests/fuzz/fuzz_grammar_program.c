/* Any bytes as a program, with its hash put right: refused, or safe to run over any text, which the masks'
 * walk and the executor see alike. The first byte says how many of the last bytes are the text. */
#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 256 + 64 };

static bt_trie_kind kind(void *ud, size_t id)
{
    (void)ud;
    return id < TOKENS ? BT_TRIE_TEXT : BT_TRIE_END;
}

/* The bytes, and texts of two to five of them. */
static const char *text(void *ud, size_t id, size_t *ret_len)
{
    static char all[TOKENS][8];
    (void)ud;
    *ret_len = id < 256 ? 1 : 2 + id % 4;
    for (size_t k = 0; k < *ret_len; k++)
        all[id][k] = id < 256 ? (char)id : "ab\",{}"[(id * 7 + k * 5 + id / 9) % 6];
    return all[id];
}

static void run(const bt_program *p, const uint8_t *bytes, size_t len)
{
    static bt_trie *t;
    const bt_trie_source source = {TOKENS + 1, kind, text, NULL};
    uint64_t bits[(TOKENS + 64) / 64];
    bt_mask *m;
    bt_program_state s;
    if (!t && bt_trie_new(&t, &source, NULL) < 0) abort();
    if (bt_mask_new(&m, p, t, NULL) < 0) abort();
    bt_program_begin(&s, p);
    for (size_t i = 0; i < len; i++) {
        const bt_err e = bt_mask_fill(bits, m, &s, NULL);
        for (size_t id = 0; (e == BT_OK || e == BT_EFORMAT) && id < TOKENS; id++) {
            bt_program_state next = s;
            size_t n;
            const char *at = text(NULL, id, &n);
            const bt_err way = bt_program_accept(&next, p, at, n, NULL);
            if (way != BT_ELIMIT && (bits[id / 64] >> (id % 64) & 1) != (way == BT_OK)) abort();
        }
        if (bt_program_accept(&s, p, bytes + i, 1, NULL) < 0) break;
    }
    bt_mask_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_program *p = NULL;
    bt_fault f;
    if (len < 1 + BT_PROGRAM_HEADER_BYTES) return 0;
    const size_t most = len - 1 - BT_PROGRAM_HEADER_BYTES, tail = data[0] < most ? data[0] : most;
    const size_t n = len - 1 - tail;
    uint8_t *bytes = malloc(n);
    if (!bytes) abort();
    memcpy(bytes, data + 1, n);
    bt_hash_stream h;
    bt_hash_begin(&h);
    bt_hash_add(&h, bytes, 24);
    bt_hash_add(&h, bytes + BT_PROGRAM_HEADER_BYTES, n - BT_PROGRAM_HEADER_BYTES);
    bt_hash_end(bytes + 24, &h);
    if (bt_program_new(&p, bytes, n, &f) == BT_OK) run(p, data + len - tail, tail < 16 ? tail : 16);
    bt_program_free(p);
    free(bytes);
    return 0;
}
