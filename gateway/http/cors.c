/* Checks text that goes into a header of every answer: no character may end that header. */
#include "gateway/http/cors.h"

#include <string.h>

enum { MAX_BYTES = 1024 };
static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static bool is_of(const char *text, const char *others)
{
    for (; *text; text++)
        if (!strchr(LETTERS, *text) && !strchr(others, *text)) return false;
    return true;
}

bool gw_cors_is_origin(const char *text)
{
    const char *host = strstr(text, "://");
    if (strcmp(text, "*") == 0) return true;
    return host && host > text && host[3] && strlen(text) <= MAX_BYTES && is_of(text, "+-.:/[]") &&
           !strchr(host + 3, '/');
}

bool gw_cors_is_header_list(const char *text) { return strlen(text) <= MAX_BYTES && is_of(text, "-_, "); }
