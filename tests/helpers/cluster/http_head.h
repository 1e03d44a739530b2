#ifndef TESTS_HTTP_HEAD_H
#define TESTS_HTTP_HEAD_H
#include <stdbool.h>
#include <stddef.h>
#include "gateway/http/framing.h"

/* The head of a request, from the bytes of the wire to what libmicrohttpd 0.9.75 leaves in memory: lines end at LF,
 * with CR before it or without; strings end at the first 0; a line that begins with a blank is joined to the NAME of
 * the header before it, in a place of its own; a line that begins with a 0 ends the head. */
enum { HTTP_HEAD_MAX_JOINED = 16 };
typedef struct http_head {
    char *bytes; /* as long as they may be read */
    char *joined[HTTP_HEAD_MAX_JOINED];
    size_t joined_len;
    gw_framing_field fields[GW_FRAMING_MAX_FIELDS];
    gw_framing_head head;
} http_head;

/* False: the head has not ended, or libmicrohttpd answers it itself. Free it in either case. */
bool http_head_parse(http_head *ret, const char *wire, size_t len);
void http_head_free(http_head *h);
#endif
