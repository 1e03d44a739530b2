/* See endpoints.h. */
#include "gateway/api/endpoints.h"

#include <string.h>

const gw_endpoint gw_endpoints[] = {
#define X(path, method, right, dialect, serve, summary, request, answer) \
    {path, GW_##method, GW_RIGHT_##right, &gw_dialect_##dialect, summary, request, answer},
#include "gateway/api/endpoints_table.h"
#undef X
};
const size_t gw_endpoints_len = sizeof gw_endpoints / sizeof *gw_endpoints;

/* {id} of the pattern takes at least one character. */
static bool matches(const char *pattern, const char *path)
{
    const char *id = strchr(pattern, '{');
    if (!id) return strcmp(pattern, path) == 0;
    const size_t before = (size_t)(id - pattern), after = strlen(id + 4), len = strlen(path);
    return len > before + after && memcmp(pattern, path, before) == 0 &&
           strcmp(id + 4, path + len - after) == 0;
}

size_t gw_endpoints_find(const char *path)
{
    size_t i = 0;
    while (i < gw_endpoints_len && !matches(gw_endpoints[i].path, path)) i++;
    return i;
}

/* The dialect that an error has at a path that does not exist, by the path's beginning. */
static const struct {
    const char *prefix;
    const gw_dialect *dialect;
} families[] = {{"/v1/messages/", &gw_dialect_messages}, {"/api/", &gw_dialect_ollama_chat}};

const gw_dialect *gw_endpoints_dialect(const char *path)
{
    const size_t i = gw_endpoints_find(path);
    if (i < gw_endpoints_len) return gw_endpoints[i].dialect;
    for (size_t k = 0; k < sizeof families / sizeof *families; k++)
        if (strncmp(path, families[k].prefix, strlen(families[k].prefix)) == 0) return families[k].dialect;
    return &gw_dialect_chat;
}

void gw_endpoints_list(bt_buf *out)
{
    for (size_t i = 0; i < gw_endpoints_len; i++)
        (void)bt_buf_fmt(out, "%s%s", i ? ", " : "", gw_endpoints[i].path);
}

void gw_endpoints_tell(gw_error *err, const char *path)
{
    bt_buf list;
    bt_buf_init(&list, sizeof err->message);
    gw_endpoints_list(&list);
    (void)gw_error_say(err, 404, "not_found", NULL, "There is nothing at %.100s. There is: %s.", path,
                       bt_buf_text(&list));
    bt_buf_done(&list);
}
