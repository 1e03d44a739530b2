#ifndef GW_CORS_H
#define GW_CORS_H
#include <stdbool.h>

/* Which web pages may read the gateway's answers: one origin, or `*`. */

/* `*`, or SCHEME://HOST[:PORT] without a path, as browsers send it. */
bool gw_cors_is_origin(const char *text);
/* What a page asks to send (Access-Control-Request-Headers) may be given back as it is: names, commas and blanks, and
 * not too many of them. */
bool gw_cors_is_header_list(const char *text);
#endif
