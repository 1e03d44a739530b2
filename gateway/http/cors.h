#ifndef GW_CORS_H
#define GW_CORS_H
#include <stdbool.h>

/* The web pages that may read the gateway's answers: one origin, or `*`. */

/* `*`, or SCHEME://HOST[:PORT] without a path, as browsers send it. */
bool gw_cors_is_origin(const char *text);
/* Whether a page's Access-Control-Request-Headers may be given back unchanged: names, commas and blanks, and not too
 * many. */
bool gw_cors_is_header_list(const char *text);
#endif
