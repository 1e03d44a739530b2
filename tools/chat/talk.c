/* See talk.h. The messages are kept as the JSON that goes into each request. */
#include "tools/chat/talk.h"
#include "base/buf.h"
#include "base/wait.h"
#include "tools/cluster/ask.h"
#include "tools/cluster/http.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tool_talk {
    const char *url, *api_key;
    json_t *request;  /* the wishes, and messages */
    json_t *messages; /* of the request; the system message, where there is one, is the first */
    bool prints_figures;
};

static const char *role_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "role"));
}
static bool has_system(const tool_talk *t) { return tool_talk_system(t) != NULL; }

/* thoughts NULL: none. The model's template says whether it sees them in later turns. */
static bt_err add(tool_talk *t, const char *role, const char *text, size_t len, const bt_buf *thoughts,
                  bt_fault *fault)
{
    json_t *content = json_stringn(text, len);
    if (!content) return bt_fail(fault, BT_EARG, "not sent: that is not valid UTF-8");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    int rc = 0;
    if (message && thoughts && thoughts->len > 0)
        rc = json_object_set_new(message, "reasoning_content",
                                 json_stringn(bt_buf_text(thoughts), thoughts->len));
    rc |= json_array_append_new(t->messages, message);
    return rc == 0 ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for the conversation");
}

bt_err tool_talk_open(tool_talk **ret, const tool_talk_with *with, bt_fault *fault)
{
    tool_talk *t = calloc(1, sizeof *t);
    if (!t) return bt_fail(fault, BT_ENOMEM, "out of memory for the conversation");
    t->url = with->url;
    t->api_key = with->api_key;
    t->prints_figures = with->prints_figures;
    t->request = json_deep_copy(with->wishes);
    t->messages = json_array();
    bt_err e = t->request && json_object_set(t->request, "messages", t->messages) == 0
                   ? BT_OK
                   : bt_fail(fault, BT_ENOMEM, "out of memory for the conversation");
    if (e == BT_OK && with->system) e = tool_talk_set_system(t, with->system, fault);
    if (e < 0) tool_talk_close(t);
    else *ret = t;
    return e;
}

void tool_talk_close(tool_talk *t)
{
    if (!t) return;
    json_decref(t->request);
    json_decref(t->messages);
    free(t);
}

static void drop_last(tool_talk *t) { json_array_remove(t->messages, json_array_size(t->messages) - 1); }

static void drop_nuls(bt_buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i]) text->data[n++] = text->data[i];
    text->len = n;
}

/* Asks with the messages as they are, whose last is the question. stays: an answer joined them. */
static bt_err ask_for_answer(tool_talk *t, bool *ret_stays, bt_fault *fault)
{
    tool_answer a = {0};
    const tool_ask ask = {
        .url = t->url, .path = "/v1/chat/completions",      .api_key = t->api_key, .request = t->request,
        .echo = true,  .shows_thoughts = t->prints_figures, .stop = &tool_stop};
    bt_err e = tool_ask_send(&a, &ask, fault);
    const bool is_stopped = e == BT_ECANCEL;
    *ret_stays = e == BT_OK || (is_stopped && a.text.len > 0);
    putchar('\n');
    if (bt_opt_flush() != 0 && e == BT_OK) e = bt_fail(fault, BT_EIO, "cannot write to stdout");
    drop_nuls(&a.text); /* a gateway takes none back */
    drop_nuls(&a.thoughts);
    if (*ret_stays && add(t, "assistant", bt_buf_text(&a.text), a.text.len, &a.thoughts, fault) < 0) {
        *ret_stays = false;
        e = BT_ENOMEM;
    }
    if ((e == BT_OK || is_stopped) && t->prints_figures) tool_answer_print_figures(&a);
    tool_answer_done(&a);
    return e;
}

bt_err tool_talk_say(tool_talk *t, const char *text, size_t len, bt_fault *fault)
{
    bool stays = false;
    bt_err e = add(t, "user", text, len, NULL, fault);
    if (e < 0) return e;
    e = ask_for_answer(t, &stays, fault);
    if (!stays) drop_last(t);
    if (e == BT_ECANCEL) bt_fail(fault, e, stays ? "stopped" : "stopped; the question is taken back");
    return e;
}

bt_err tool_talk_again(tool_talk *t, bt_fault *fault)
{
    bool stays = false;
    const size_t n = json_array_size(t->messages);
    json_t *old = n > 0 ? json_array_get(t->messages, n - 1) : NULL;
    if (!old || strcmp(role_of(old), "assistant") != 0)
        return bt_fail(fault, BT_EARG, "there is no answer yet");
    json_incref(old);
    drop_last(t);
    const bt_err e = ask_for_answer(t, &stays, fault);
    if (!stays && json_array_append(t->messages, old) < 0) tool_talk_clear(t); /* out of memory */
    json_decref(old);
    if (e == BT_ECANCEL) bt_fail(fault, e, stays ? "stopped" : "stopped; the old answer stays");
    return e;
}

void tool_talk_clear(tool_talk *t)
{
    while (json_array_size(t->messages) > (has_system(t) ? 1 : 0)) drop_last(t);
}

const char *tool_talk_system(const tool_talk *t)
{
    const json_t *first = json_array_get(t->messages, 0);
    const char *role = role_of(first);
    return role && strcmp(role, "system") == 0 ? json_string_value(json_object_get(first, "content")) : NULL;
}

bt_err tool_talk_set_system(tool_talk *t, const char *text, bt_fault *fault)
{
    json_t *message = *text ? json_pack("{s:s, s:s}", "role", "system", "content", text) : NULL;
    if (*text && !message) return bt_fail(fault, BT_EARG, "the system message is not valid UTF-8");
    if (has_system(t)) json_array_remove(t->messages, 0);
    if (message && json_array_insert_new(t->messages, 0, message) < 0)
        return bt_fail(fault, BT_ENOMEM, "out of memory for the conversation");
    return BT_OK;
}

bt_err tool_talk_save(const tool_talk *t, const char *path, bt_fault *fault)
{
    char full[4096];
    const char *home = getenv("HOME");
    const bool is_home = strncmp(path, "~/", 2) == 0 && home;
    if ((size_t)snprintf(full, sizeof full, "%s%s", is_home ? home : "", path + is_home) >= sizeof full)
        return bt_fail(fault, BT_EIO, "the file's name is longer than %zu bytes", sizeof full - 1);
    const int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        if (fd >= 0) close(fd);
        return bt_fail(fault, BT_EIO, "not saved: '%.150s': %s", full, strerror(errno));
    }
    for (size_t i = 0; i < json_array_size(t->messages); i++) {
        const json_t *m = json_array_get(t->messages, i);
        fprintf(f, "%s## %s\n\n%s\n", i ? "\n" : "", role_of(m),
                json_string_value(json_object_get(m, "content")));
    }
    const bool was_written = !ferror(f);
    if (fclose(f) == 0 && was_written) return BT_OK;
    (void)unlink(full);
    return bt_fail(fault, BT_EIO, "not saved: '%.150s' cannot be written", full);
}

/* Each name once; one that does not fit is left out. set NULL: none was. */
static void list_name(tool_talk_models *m, const char *name, const char *set)
{
    size_t i = 0;
    if (!name || strlen(name) >= TOOL_TALK_MODEL_BYTES) return;
    while (i < m->count && strcmp(m->id[i], name) != 0) i++;
    if (i < m->count || m->count == TOOL_TALK_MAX_MODELS) return;
    if (set && strcmp(name, set) == 0) m->used = m->count;
    snprintf(m->id[m->count++], TOOL_TALK_MODEL_BYTES, "%s", name);
}

bt_err tool_talk_list(tool_talk_models *ret, const tool_talk *t, bt_fault *fault)
{
    bt_buf body;
    long status = 0;
    size_t i, k;
    const json_t *model, *alias;
    const char *set = json_string_value(json_object_get(t->request, "model"));
    bt_buf_init(&body, 1 << 20);
    bt_wait_tell(NULL, "waiting for the gateway's answer", 0, 0);
    bt_err e = tool_http_get(&status, &body, t->url, "/v1/models", t->api_key, &tool_stop, fault);
    bt_wait_end();
    json_t *root = e == BT_OK ? json_loadb(bt_buf_text(&body), body.len, 0, NULL) : NULL;
    ret->count = ret->used = 0;
    json_array_foreach(json_object_get(root, "data"), i, model) {
        list_name(ret, json_string_value(json_object_get(model, "id")), set);
        json_array_foreach(json_object_get(model, "aliases"), k, alias)
            list_name(ret, json_string_value(alias), set);
    }
    if (e == BT_OK && ret->count == 0) {
        char text[sizeof fault->text];
        tool_http_error_text(text, sizeof text, status, &body);
        e = bt_fail(fault, BT_EIO, "%s", text);
    }
    json_decref(root);
    bt_buf_done(&body);
    return e;
}

bt_err tool_talk_set_model(tool_talk *t, const char *id, bt_fault *fault)
{
    char names[sizeof fault->text] = "";
    size_t len = 0;
    tool_talk_models *all = malloc(sizeof *all);
    if (!all) return bt_fail(fault, BT_ENOMEM, "out of memory for the models' names");
    bt_err e = tool_talk_list(all, t, fault);
    bool is_there = false;
    for (size_t i = 0; e == BT_OK && i < all->count; i++) {
        is_there |= strcmp(all->id[i], id) == 0;
        if (len < sizeof names)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s'%s'", i ? ", " : "", all->id[i]);
    }
    free(all);
    if (e == BT_OK && !is_there)
        return bt_fail(fault, BT_EARG, "there is no model '%.60s' here, but %.160s", id, names);
    if (e == BT_OK && json_object_set_new(t->request, "model", json_string(id)) < 0)
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the model's name");
    return e;
}
