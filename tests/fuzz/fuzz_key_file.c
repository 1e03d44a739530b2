/* Any bytes as a file of API keys: what is taken is within its limits, each key and each name once, and found
 * where it stands; what is refused says which line, and shows nothing of it but a field's name. */
#include "gateway/http/key_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_within(const gw_key_line *k, const char *text, size_t len)
{
    const gw_key_facts *f = &k->facts;
    return k->secret >= text && k->secret + k->secret_len <= text + len && k->secret_len > 0 &&
           k->secret_len <= GW_KEY_MAX_BYTES && !memchr(k->secret, ' ', k->secret_len) && f->name[0] &&
           memchr(f->name, 0, sizeof f->name) && f->role >= GW_KEY_CLIENT && f->role < GW_KEY_ROLES &&
           f->weight >= 1 && f->weight <= GW_KEY_MAX_WEIGHT &&
           f->limits.requests_per_minute <= GW_KEY_MAX_PER_MINUTE &&
           f->limits.tokens_per_minute <= GW_KEY_MAX_PER_MINUTE && f->limits.at_once <= GW_KEY_MAX_AT_ONCE &&
           f->limits.context_tokens <= GW_KEY_MAX_CONTEXT && f->limits.context_tokens != 1;
}

static bool is_one(const gw_key_line *a, const gw_key_line *b)
{
    return strcmp(a->facts.name, b->facts.name) == 0 ||
           (a->secret_len == b->secret_len && memcmp(a->secret, b->secret, a->secret_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    gw_key_line *keys = NULL;
    size_t n = 0;
    bt_fault fault = {""};
    char *text = malloc(len ? len : 1); /* exact, so that a read past its end shows */
    if (!text) return 0;
    memcpy(text, data, len);
    if (gw_key_file_parse(&keys, &n, text, len, "F", &fault) == BT_OK) {
        if (n == 0 || n > GW_KEYS_MAX) abort();
        for (size_t i = 0; i < n; i++) {
            if (!is_within(&keys[i], text, len)) abort();
            for (size_t j = i + 1; j < n && j < i + 8; j++)
                if (is_one(&keys[i], &keys[j])) abort();
        }
    } else if (keys || strncmp(fault.text, "'F'", 3) != 0) {
        abort();
    }
    free(keys);
    free(text);
    return 0;
}
