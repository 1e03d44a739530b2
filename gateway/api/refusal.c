/* One row for each reason of gateway/http/framing.h. */
#include "gateway/api/refusal.h"

_Static_assert(GW_FRAMING_MAX_LINE_BYTES == 8192 && GW_FRAMING_MAX_HEAD_BYTES == 32768 &&
                   GW_FRAMING_MAX_FIELDS == 128,
               "the limits that the texts name");

static const struct refusal {
    int status;
    const char *code, *text;
} refusals[GW_HTTP_REFUSALS] = {
    [GW_HTTP_BAD_LINE] = {400, "bad_request", "The first line is not 'METHOD PATH HTTP/1.1'."},
    [GW_HTTP_BAD_VERSION] = {505, "http_version", "The versions served are HTTP/1.0 and HTTP/1.1."},
    [GW_HTTP_BAD_FIELD] = {400, "bad_request",
                           "A header's name is no word, or its value holds control characters."},
    [GW_HTTP_BAD_LAYOUT] = {400, "bad_request",
                            "A header goes on in the next line, holds a NUL, or does not end with CR LF."},
    [GW_HTTP_BAD_HOST] = {400, "bad_request",
                          "There must be one Host header, and its value must be the name of a host."},
    [GW_HTTP_BAD_LENGTH] = {400, "bad_request",
                            "There may be one Content-Length at most, and its value must be a number."},
    [GW_HTTP_BAD_CODING] = {400, "bad_request",
                            "There may be one Transfer-Encoding at most, 'chunked', and only in HTTP/1.1."},
    [GW_HTTP_TWO_FRAMINGS] = {400, "bad_request", "Content-Length and Transfer-Encoding exclude each other."},
    [GW_HTTP_LINE_TOO_LONG] = {414, "uri_too_long", "The first line is longer than 8192 bytes."},
    [GW_HTTP_HEAD_TOO_LONG] = {431, "headers_too_large",
                               "The headers have more than 32768 bytes, or are more than 128."},
    [GW_HTTP_ENCODED] = {415, "unsupported_encoding",
                         "The body must be plain JSON, without a Content-Encoding."},
    [GW_HTTP_TOO_LARGE] = {413, "body_too_large", "The body is too large."},
    [GW_HTTP_TOO_BUSY] = {503, "overloaded", "Too many large requests at once; try again."},
    [GW_HTTP_NO_PLACE] = {503, "overloaded", "Too many connections at once; try again."},
};

bool gw_refusal_tell(gw_error *ret, gw_http_refusal why, uint64_t body_max_bytes)
{
    if (why <= GW_HTTP_FINE || why >= GW_HTTP_REFUSALS) return false;
    const struct refusal *r = &refusals[why];
    if (why == GW_HTTP_TOO_LARGE)
        (void)gw_error_say(ret, r->status, r->code, NULL, "The body is larger than %llu bytes.",
                           (unsigned long long)body_max_bytes);
    else (void)gw_error_say(ret, r->status, r->code, NULL, "%s", r->text);
    if (r->status == 503) ret->retry_after_s = 1;
    return true;
}
