/* baton status: the nodes a gateway knows, as people or scripts want them. */
#include "base/num.h"
#include "base/wait.h"
#include "tools/cluster/http.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <string.h>

typedef struct config {
    const char *url, *api_key_file, *ca_file;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_server_opts, .name = "url", BT_OPT_AT(config, url), .def = "http://127.0.0.1:8080"},
    {.of = &tool_server_opts, .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .name = "ca-file", BT_OPT_AT(config, ca_file)},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: nodes[]"},
};

const bt_opt_program tool_status_program = {
    .name = "baton status", .summary = "list the nodes behind a gateway",
    .usage = "[options]",   .normal = "baton status --url http://127.0.0.1:8080",
    .opts = opts,           .opt_count = BT_OPT_COUNT(opts),
};

static const char *text_of(const json_t *node, const char *key)
{
    const char *s = json_string_value(json_object_get(node, key));
    return s ? s : "-";
}

static long long number_of(const json_t *node, const char *key)
{
    return json_integer_value(json_object_get(node, key));
}

/* Pages that are used and cached, of window layers behind the others' where the node has such layers. */
static const char *pages_text(char ret[static 64], const json_t *node, const char *key, const char *windows)
{
    snprintf(ret, 64, "%lld", number_of(node, key));
    if (number_of(node, "window_pages_total"))
        snprintf(ret, 64, "%lld+%lld", number_of(node, key), number_of(node, windows));
    return ret;
}

static void print_table(const json_t *nodes)
{
    size_t i;
    const json_t *n;
    printf("%-16s %-8s %-9s %8s %11s %11s %7s %10s  %s\n", "id", "role", "state", "pid", "pages", "cached",
           "leases", "memory", "endpoint");
    json_array_foreach(nodes, i, n) {
        char pid[24] = "-", rss[24], pages[64], cached[64];
        if (json_is_integer(json_object_get(n, "pid")))
            snprintf(pid, sizeof pid, "%lld", number_of(n, "pid"));
        bt_num_size_text(rss, sizeof rss, (uint64_t)number_of(n, "rss_bytes"));
        printf("%-16s %-8s %-9s %8s %11s %11s %7lld %10s  %s\n", text_of(n, "id"), text_of(n, "role"),
               text_of(n, "state"), pid, pages_text(pages, n, "pages_used", "window_pages_used"),
               pages_text(cached, n, "pages_cached", "window_pages_cached"), number_of(n, "leases"), rss,
               text_of(n, "endpoint"));
    }
}

/* How late nodes are that keep a device's pace. */
static void print_pace(const json_t *nodes)
{
    size_t i;
    const json_t *n;
    json_array_foreach(nodes, i, n) {
        const json_t *d = json_object_get(n, "device");
        const double paced = json_number_value(json_object_get(d, "paced_ms")),
                     late = json_number_value(json_object_get(d, "late_ms"));
        if (paced <= 0) continue;
        printf("%-16s %.2f %% later than %g times %s%s\n", text_of(n, "id"), 100 * late / paced,
               json_number_value(json_object_get(d, "pace")), text_of(d, "profile"),
               late > paced / 100 ? ": LATE, the host is measured instead; take a larger K" : "");
    }
}

static int show(const config *c)
{
    bt_fault fault = {""};
    bt_buf body;
    char *key = NULL;
    long status = 0;
    int rc = 1;
    bt_buf_init(&body, 4 << 20);
    json_t *root = NULL;
    bt_wait_tell(NULL, "waiting for the gateway's answer", 0, 0);
    bt_err e = tool_read_key(&key, c->api_key_file, &fault);
    if (e == BT_OK) e = tool_http_get(&status, &body, c->url, "/v1/status", key, NULL, &fault);
    bt_wait_end();
    if (e < 0) {
        tool_fail("status", &fault);
        goto out;
    }
    root = json_loadb(bt_buf_text(&body), body.len, 0, NULL);
    const json_t *nodes = json_object_get(root, "nodes"), *own = json_object_get(root, "key");
    if (status == 200 && json_is_object(own)) { /* a key that may see the outer part only */
        bt_fail(&fault, BT_EAUTH,
                "the nodes are shown to API keys with role=admin; the key '%.80s' has role=%.20s",
                text_of(own, "name"), text_of(own, "role"));
        tool_fail("status", &fault);
        goto out;
    }
    if (status != 200 || !json_is_array(nodes)) {
        tool_http_error_text(fault.text, sizeof fault.text, status, &body);
        tool_fail("status", &fault);
        goto out;
    }
    if (c->json) {
        rc = tool_print_json("status", json_incref(root));
    } else {
        print_table(nodes);
        print_pace(nodes);
        rc = bt_opt_flush() != 0;
    }
out:
    json_decref(root);
    tool_free_key(key);
    bt_buf_done(&body);
    return rc;
}

int tool_status_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault;
    int rc = bt_opt_start(&args, &tool_status_program, argc, argv, &c);
    if (rc >= 0) return rc;
    if (tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("status", &fault);
    } else {
        rc = show(&c);
        tool_http_cleanup();
    }
    bt_opt_done(&args);
    return rc;
}
