/* Any bytes as the head of a request. A head that is found fine must be so to a reader of another make: one
 * that knows nothing but CR LF, looks at the bytes of the wire, and counts what says where the body ends. */
#include "tests/helpers/cluster/http_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool begins(const char *line, const char *end, const char *name)
{
    const size_t n = strlen(name);
    return (size_t)(end - line) > n && strncasecmp(line, name, n) == 0 && line[n] == ':';
}

static void read_again(const char *at, const char *end, const gw_framing *f)
{
    size_t lengths = 0, codings = 0, hosts = 0, lines = 0;
    /* A 0 in the target ends the path, and no more. Behind it, one beside a bare LF looks like CR LF in
     * memory, where both are 0: that is not for this reader. */
    const char *fields = memchr(at, '\n', (size_t)(end - at));
    if (!fields) abort();
    if (memchr(fields, 0, (size_t)(end - fields))) return;
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        if (!lf || lf == at || lf[-1] != '\r' || memchr(at, '\r', (size_t)(lf - 1 - at))) abort();
        if (lf == at + 1 && lf + 1 != end) abort(); /* an empty line is the last */
        if (*at == ' ' || *at == '\t') abort();
        if (lines++) {
            lengths += begins(at, lf, "content-length");
            codings += begins(at, lf, "transfer-encoding");
            hosts += begins(at, lf, "host");
        }
        at = lf + 1;
    }
    if (lengths + codings > 1 || hosts > 1 || f->is_chunked != (codings == 1)) abort();
    if (f->body_bytes > 0 && lengths != 1) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    http_head h;
    gw_framing f;
    if (http_head_parse(&h, (const char *)data, len) && gw_framing_check(&f, &h.head) == GW_HTTP_FINE) {
        const size_t skipped = (size_t)(h.head.method - h.bytes);
        read_again((const char *)data + skipped, (const char *)data + skipped + h.head.len, &f);
    }
    http_head_free(&h);
    char *target = malloc(len + 1);
    if (!target) return 0;
    if (len) memcpy(target, data, len);
    target[len] = 0;
    if (strlen(gw_framing_path(target)) > len + 1) abort();
    free(target);
    return 0;
}
