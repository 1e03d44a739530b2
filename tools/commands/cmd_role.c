/* baton role: asks a node to serve in the other role, and waits until it does. */
#include "base/clock.h"
#include "base/wait.h"
#include "tools/cluster/http.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_EVERY_MS = 200 };

typedef struct config {
    const char *url, *api_key_file, *ca_file;
    int64_t wait_ms;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_server_opts, .name = "url", BT_OPT_AT(config, url), .def = "http://127.0.0.1:8080"},
    {.of = &tool_server_opts, .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .name = "ca-file", BT_OPT_AT(config, ca_file)},
    {.group = "Gateway", .name = "wait", .value = "TIME", BT_OPT_AT(config, wait_ms), .type = BT_OPT_DURATION,
     .def = "120s", .lo = 0, .hi = 3600000,
     .help = "how long the change may take, its drain included; 0: only ask for it"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: id, role, state, incarnation"},
};

const bt_opt_program tool_role_program = {
    .name = "baton role",
    .summary = "let a node serve in the other role, and back",
    .usage = "NODE prefill|decode [options]",
    .normal = "baton role decode-1 prefill",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 2,
    .args_max = 2,
    .args_name = "NODE ROLE",
};

typedef struct job {
    const config *c;
    const char *id, *role;
    char *key;
    int64_t end_us;
    long status;
} job; /* status: HTTP, of the last answer */

/* Asks the gateway. Returns its answer, which the caller owns; NULL and words when that is no JSON object, or
 * an error. */
static json_t *ask(job *j, const char *path, const char *post, bt_fault *fault)
{
    bt_buf body;
    json_t *root = NULL;
    bt_buf_init(&body, 4 << 20);
    j->status = 0;
    const bt_err e = post ? tool_http_stream(&j->status, &body, j->c->url, path, j->key, post, NULL, NULL,
                                             &tool_stop, fault)
                          : tool_http_get(&j->status, &body, j->c->url, path, j->key, &tool_stop, fault);
    if (e == BT_OK && j->status == 200) root = json_loadb(bt_buf_text(&body), body.len, 0, NULL);
    if (e == BT_OK && !json_is_object(root)) {
        tool_http_error_text(fault->text, sizeof fault->text, j->status, &body);
        json_decref(root);
        root = NULL;
    }
    bt_buf_done(&body);
    return root;
}

/* The node as /v1/status has it, or NULL; borrowed from status. */
static const json_t *find_node(const json_t *status, const char *id)
{
    size_t i;
    const json_t *n;
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        const char *own = json_string_value(json_object_get(n, "id"));
        if (own && strcmp(own, id) == 0) return n;
    }
    return NULL;
}

static bool is(const json_t *node, const char *key, const char *value)
{
    const char *s = json_string_value(json_object_get(node, key));
    return s && strcmp(s, value) == 0;
}

/* Escapes characters that a name may hold and a path may not. */
static bt_err make_path(char *ret, size_t cap, const char *id, bt_fault *fault)
{
    size_t at = (size_t)snprintf(ret, cap, "/v1/nodes/");
    for (const char *p = id; *p && at + 16 < cap; p++) {
        const bool is_plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
                              (*p >= 'A' && *p <= 'Z') || *p == '-' || *p == '_' || *p == '.';
        at += (size_t)(is_plain ? snprintf(ret + at, cap - at, "%c", *p)
                                : snprintf(ret + at, cap - at, "%%%02X", (unsigned)(unsigned char)*p));
    }
    if (strlen(id) > 64 || !*id)
        return bt_fail(fault, BT_EARG, "'%.80s' is not a node's name, which has 1 to 64 characters", id);
    snprintf(ret + at, cap - at, "/role");
    return BT_OK;
}

static int show(const job *j, const json_t *node, const char *words)
{
    bt_wait_end();
    if (j->c->json)
        return tool_print_json("role", json_pack("{s:s,s:s,s:O?,s:O?}", "id", j->id, "role", j->role, "state",
                                                 json_object_get(node, "state"), "incarnation",
                                                 json_object_get(node, "incarnation")));
    printf("%s %s %s\n", j->id, words, j->role);
    return bt_opt_flush() != 0;
}

/* The gateway has been asked, and the command stops looking. */
static int not_yet(const job *j, bt_fault *fault)
{
    bt_fail(fault, BT_EAGAIN, "%s does not serve as %s yet; it goes on with the change, see 'baton status'",
            j->id, j->role);
    (void)tool_fail("role", fault);
    return tool_stop ? TOOL_INTERRUPTED : 1;
}

/* Waits until the node serves as wanted, has come back in its old role, or the time is over. */
static int wait_for_it(job *j, const char *old_incarnation, bt_fault *fault)
{
    int rc = -1;
    while (rc < 0) {
        json_t *status = ask(j, "/v1/status", NULL, fault);
        if (!status) return tool_stop ? not_yet(j, fault) : tool_fail("role", fault);
        const json_t *n = find_node(status, j->id);
        const bool is_ready = n && is(n, "state", "ready"), is_wanted = is_ready && is(n, "role", j->role);
        if (is_wanted) {
            rc = show(j, n, "serves as");
        } else if (is_ready && !is(n, "incarnation", old_incarnation)) {
            bt_fail(fault, BT_EIO, "%s could not serve as %s and is what it was; its own log says why", j->id,
                    j->role);
            rc = tool_fail("role", fault);
        } else if (tool_stop || bt_clock_us() >= j->end_us) {
            rc = not_yet(j, fault);
        }
        json_decref(status);
        if (rc < 0) (void)poll(NULL, 0, LOOK_EVERY_MS);
    }
    return rc;
}

/* Asks a node. One in the middle of a change cannot be asked; it is asked again while there is time.
 * incarnation: the node that was asked. */
static json_t *ask_node(job *j, char incarnation[40], bt_fault *fault)
{
    char path[256], post[64];
    if (make_path(path, sizeof path, j->id, fault) < 0) return NULL;
    snprintf(post, sizeof post, "{\"role\":\"%s\"}", j->role);
    for (;;) {
        json_t *status = ask(j, "/v1/status", NULL, fault);
        if (!status) return NULL;
        const char *own = json_string_value(json_object_get(find_node(status, j->id), "incarnation"));
        snprintf(incarnation, 40, "%s", own ? own : "");
        json_decref(status);
        json_t *answer = ask(j, path, post, fault);
        if (answer || (j->status != 503 && j->status != 504) || tool_stop || bt_clock_us() >= j->end_us)
            return answer;
        (void)poll(NULL, 0, LOOK_EVERY_MS);
    }
}

static int change(job *j, bt_fault *fault)
{
    char incarnation[40], words[128];
    snprintf(words, sizeof words, "waiting for %.64s to drain and serve as %.16s", j->id, j->role);
    bt_wait_tell(NULL, words, 0, 0);
    json_t *answer = ask_node(j, incarnation, fault);
    if (!answer && tool_stop)
        bt_fail(fault, BT_ECANCEL,
                "interrupted; whether %s was asked to change is not known, see 'baton status'", j->id);
    if (!answer) return tool_fail("role", fault), tool_stop ? TOOL_INTERRUPTED : 1;
    const int rc =
        j->c->wait_ms == 0 ? show(j, answer, "drains, then serves as") : wait_for_it(j, incarnation, fault);
    json_decref(answer);
    return rc;
}

int tool_role_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_role_program, argc, argv, &c);
    if (rc >= 0) return rc;
    job j = {.c = &c, .id = args.args[0], .role = args.args[1], .end_us = bt_clock_us() + c.wait_ms * 1000};
    if (strcmp(j.role, "prefill") != 0 && strcmp(j.role, "decode") != 0) {
        bt_fail(&fault, BT_EARG, "'%.40s' is not a role: prefill or decode", j.role);
        bt_opt_usage_error("baton role", &fault);
        rc = 2;
    } else if (tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("role", &fault);
    } else {
        tool_catch_signals();
        rc = tool_read_key(&j.key, c.api_key_file, &fault) < 0 ? tool_fail("role", &fault)
                                                               : change(&j, &fault);
        tool_free_key(j.key);
        tool_http_cleanup();
    }
    bt_opt_done(&args);
    return rc;
}
