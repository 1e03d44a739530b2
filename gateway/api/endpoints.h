#ifndef GW_ENDPOINTS_H
#define GW_ENDPOINTS_H
#include "gateway/api/dialect.h"

/* The endpoints of endpoints_table.h, without what serves them. */
typedef enum gw_right {
    GW_RIGHT_OPEN,   /* all */
    GW_RIGHT_CLIENT, /* keys with the role client or admin */
    GW_RIGHT_ADMIN,  /* keys with the role admin */
    GW_RIGHT_METRICS /* as --metrics says: all, or keys with the role metrics or admin */
} gw_right;
typedef enum gw_method { GW_GET, GW_POST } gw_method;

typedef struct gw_endpoint {
    const char *path;
    gw_method method;
    gw_right right;
    const gw_dialect *dialect;
    const char *summary, *request, *answer;
} gw_endpoint;

extern const gw_endpoint gw_endpoints[];
extern const size_t gw_endpoints_len;

/* The place of the first row whose path fits; gw_endpoints_len: none does. */
size_t gw_endpoints_find(const char *path);
/* The dialect of a path; where there is nothing, that of the clients whose paths begin like it, or else OpenAI's. */
const gw_dialect *gw_endpoints_dialect(const char *path);
void gw_endpoints_list(bt_buf *out); /* adds all paths */
/* A 404 that says what there is beside what was asked for. */
void gw_endpoints_tell(gw_error *err, const char *path);
#endif
