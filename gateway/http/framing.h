#ifndef GW_FRAMING_H
#define GW_FRAMING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where does a request end? A proxy in front of the gateway and the gateway itself must give the same answer, or a
 * stranger's bytes become the next request of somebody else (request smuggling). So any head that two programs could
 * read in two ways is refused here, before any of the body is read. Pure: heads come in, verdicts go out. */

/* Why the HTTP layer does not serve a request. The handler words the answer. The connection is closed after it, except
 * for TOO_BUSY and NO_PLACE where a body of known length was read to its end. */
typedef enum gw_http_refusal {
    GW_HTTP_FINE,
    GW_HTTP_BAD_LINE,      /* the first line is not METHOD SP TARGET SP VERSION, with CR LF */
    GW_HTTP_BAD_VERSION,   /* not HTTP/1.0 or HTTP/1.1 */
    GW_HTTP_BAD_FIELD,     /* a header's name is no word, or its value holds control characters */
    GW_HTTP_BAD_LAYOUT,    /* a folded header, a line without CR LF, a NUL */
    GW_HTTP_BAD_HOST,      /* no Host where one is needed, two of them, or one that names no host */
    GW_HTTP_BAD_LENGTH,    /* two Content-Length, or one that is no number */
    GW_HTTP_BAD_CODING,    /* a Transfer-Encoding that is not exactly `chunked`, or two */
    GW_HTTP_TWO_FRAMINGS,  /* Content-Length and Transfer-Encoding */
    GW_HTTP_LINE_TOO_LONG, /* the first line, GW_FRAMING_MAX_LINE_BYTES */
    GW_HTTP_HEAD_TOO_LONG, /* GW_FRAMING_MAX_HEAD_BYTES, GW_FRAMING_MAX_FIELDS */
    GW_HTTP_ENCODED,       /* a body with a Content-Encoding */
    GW_HTTP_TOO_LARGE,     /* a body past its limit */
    GW_HTTP_TOO_BUSY,      /* all bodies together past theirs */
    GW_HTTP_NO_PLACE,      /* every place for connections is taken */
    GW_HTTP_REFUSALS       /* how many there are */
} gw_http_refusal;

enum {
    GW_FRAMING_MAX_LINE_BYTES = 8 << 10,
    GW_FRAMING_MAX_HEAD_BYTES = 32 << 10,
    GW_FRAMING_MAX_FIELDS = 128,
    GW_FRAMING_MAX_CHUNK_LINE_BYTES = 16 << 10, /* extensions and trailers too; what is longer is cut off */
};

/* A head as libmicrohttpd leaves it in its buffer: the bytes as they came, each separator (the first space and the last
 * one of the first line, the colons, CR and LF) made 0, and a pointer to each part. */
typedef struct gw_framing_field {
    const char *name, *value;
    size_t name_len, value_len;
} gw_framing_field;
typedef struct gw_framing_head {
    const char *method, *target, *version; /* in the buffer; the head begins with the method */
    size_t len;                            /* up to the body */
    const gw_framing_field *fields;
    size_t fields_len;
    bool has_more_fields; /* than GW_FRAMING_MAX_FIELDS, left out */
} gw_framing_head;

typedef struct gw_framing {
    bool is_chunked;
    uint64_t body_bytes; /* 0 when chunked */
    bool is_encoded;     /* a Content-Encoding other than identity */
    bool has_expect;     /* the client waits for 100 Continue */
} gw_framing;

/* *ret is zero where the verdict is not GW_HTTP_FINE. Never returns ENCODED or a value behind it in the list. */
gw_http_refusal gw_framing_check(gw_framing *ret, const gw_framing_head *head);

/* Turns %XX into its byte, in place, and gives the new length. These stay as they are: %00, which would end the path,
 * and a % without two hex digits. */
size_t gw_framing_unescape(char *target);

/* The path in a request target: without http://HOST, and without the slashes at its end, which are cut off in place. */
const char *gw_framing_path(char *target);
#endif
