/* Fetching GGUF files of a hub of models. */
#include "tools/pull/pull.h"
#include "base/file.h"
#include "base/wait.h"
#include "model/hub.h"
#include "tools/pull/download.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    const tool_pull_config *c;
    bt_hub_ref ref;
    tool_download_server server;
    bt_hub_repo repo;
    size_t chosen[BT_GGUF_MAX_PARTS], parts;
    char folder[BT_HUB_PATH_BYTES];
    char base[1024], words[128];
    uint64_t done, total; /* bytes that are fetched */
} job;

static void got(void *ud, uint64_t bytes)
{
    job *j = ud;
    j->done += bytes;
    bt_wait_tell(NULL, j->words, j->done < j->total ? j->done : j->total, j->total);
}

/* ---- the hub and its token ---- */

static bt_err take_hub(job *j, bt_fault *fault)
{
    const char *environment = getenv("HF_ENDPOINT");
    const char *url = j->c->hub ? j->c->hub : environment && *environment ? environment : TOOL_PULL_HUB_URL;
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    if (n >= sizeof j->base)
        return bt_fail(fault, BT_EARG, "the hub's address has more than %zu characters", sizeof j->base - 1);
    memcpy(j->base, url, n);
    j->server.base = j->base;
    return tool_download_check(j->base, fault);
}

/* Printable, without spaces. The words never show it. */
static bool is_token(const char *s)
{
    const size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~') return false;
    return n >= 1 && n <= TOOL_DOWNLOAD_MAX_TOKEN;
}

/* *ret: for tool_free_key; NULL: there is none. */
static bt_err take_token(char **ret, const tool_pull_config *c, bt_fault *fault)
{
    const char *environment = getenv("HF_TOKEN");
    bt_err e = BT_OK;
    *ret = NULL;
    if (c->token_file) e = tool_read_key(ret, c->token_file, fault);
    else if (environment && *environment && !(*ret = strdup(environment)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for a token");
    if (e == BT_OK && *ret && !is_token(*ret))
        e = bt_fail(fault, BT_EARG, "the hub's token must be 1 to %d printable characters without spaces",
                    TOOL_DOWNLOAD_MAX_TOKEN);
    return e;
}

static bt_err ask_hub(job *j, bt_fault *fault)
{
    char path[2 * BT_HUB_MAX_NAME + 64];
    bt_buf body;
    long status = 0;
    bt_buf_init(&body, BT_HUB_MAX_REPLY_BYTES);
    snprintf(path, sizeof path, "/api/models/%s/%s?blobs=true", j->ref.owner, j->ref.name);
    bt_wait_tell(NULL, "asking the hub", 0, 0);
    bt_err e = tool_download_text(&status, &body, &j->server, path, fault);
    bt_wait_end();
    if (e == BT_OK && (status == 401 || status == 403 || status == 404))
        e = bt_fail(fault, BT_EAUTH,
                    "the hub has no repository %s/%s, or shows it only to whom has a token for it (HTTP %ld)",
                    j->ref.owner, j->ref.name, status);
    else if (e == BT_OK && status != 200) e = bt_fail(fault, BT_EIO, "the hub answers HTTP %ld", status);
    if (e == BT_OK) e = bt_hub_repo_parse(&j->repo, bt_buf_text(&body), body.len, fault);
    bt_buf_done(&body);
    return e;
}

/* ---- files ---- */

static bt_err choose(job *j, bt_fault *fault)
{
    bt_fault why = {""};
    const char **path = calloc(j->repo.count + 1, sizeof *path);
    if (!path) return bt_fail(fault, BT_ENOMEM, "out of memory for a list of files");
    for (size_t i = 0; i < j->repo.count; i++) path[i] = j->repo.file[i].path;
    const bt_err e = bt_hub_choose(j->chosen, &j->parts, path, j->repo.count, j->ref.quant, &why);
    free(path);
    return e < 0 ? bt_fail(fault, e, "%.60s/%.60s: %.120s", j->ref.owner, j->ref.name, why.text) : BT_OK;
}

static bt_err path_of(char ret[BT_HUB_PATH_BYTES], const job *j, const bt_hub_file *f, bt_fault *fault)
{
    char name[BT_HUB_PATH_BYTES];
    bt_hub_file_name(name, f->path);
    const int n = snprintf(ret, BT_HUB_PATH_BYTES, "%s/%s", j->folder, name);
    return n > 0 && n < BT_HUB_PATH_BYTES
               ? BT_OK
               : bt_fail(fault, BT_ELIMIT, "the path of %.60s is too long", f->path);
}

static bt_err get_one(job *j, const bt_hub_file *f, bt_fault *fault)
{
    char to[BT_HUB_PATH_BYTES], path[2 * BT_HUB_MAX_NAME + 512];
    bt_fault why = {""};
    bt_err e = path_of(to, j, f, fault);
    if (e < 0) return e;
    /* Each part of these is made of plain characters, so that nothing is to be escaped. '+' has no meaning in
     * a path. */
    snprintf(path, sizeof path, "/%s/%s/resolve/%s/%s", j->ref.owner, j->ref.name, j->repo.commit, f->path);
    bt_wait_tell(NULL, j->words, j->done, j->total);
    e = tool_download_file(to, &j->server, path, f->bytes, f->sha256, got, j, &why);
    return e < 0 ? bt_fail(fault, e, "%.80s cannot be fetched: %.150s", f->path, why.text) : BT_OK;
}

/* The files that are not here with the hub's hashes. */
static bt_err get_files(job *j, tool_pulled *ret, bt_fault *fault)
{
    bool is_here[BT_GGUF_MAX_PARTS];
    char path[BT_HUB_PATH_BYTES];
    bt_err e = BT_OK;
    bt_wait_tell(NULL, "checking the model (a new file is read whole, once)", 0, 0);
    for (size_t i = 0; e == BT_OK && i < j->parts; i++) {
        const bt_hub_file *f = &j->repo.file[j->chosen[i]];
        if ((e = path_of(path, j, f, fault)) < 0) break;
        is_here[i] = tool_pull_check(path, f->bytes, f->sha256, true, NULL) == BT_OK;
        ret->bytes += f->bytes;
        j->total += is_here[i] ? 0 : f->bytes;
    }
    bt_wait_end();
    if (e < 0 || !j->total) return e;
    if ((e = bt_file_room(path, j->total, fault)) < 0) return e;
    fprintf(stderr, "%s/%s: %zu file%s, %.1f MB; licence: %s\n", j->ref.owner, j->ref.name, j->parts,
            j->parts == 1 ? "" : "s", (double)j->total / 1e6, j->repo.licence);
    ret->is_fetched = true;
    for (size_t i = 0; e == BT_OK && i < j->parts; i++)
        if (!is_here[i]) e = get_one(j, &j->repo.file[j->chosen[i]], fault);
    bt_wait_end();
    return e;
}

static bt_err get_locked(job *j, tool_pulled *ret, bt_fault *fault)
{
    const bt_hub_file *first;
    bt_err e = ask_hub(j, fault);
    if (e == BT_OK) e = choose(j, fault);
    if (e == BT_OK) e = get_files(j, ret, fault);
    if (e < 0) return e;
    first = &j->repo.file[j->chosen[0]];
    snprintf(ret->licence, sizeof ret->licence, "%s", j->repo.licence);
    snprintf(ret->sha256, sizeof ret->sha256, "%s", j->parts == 1 ? first->sha256 : "");
    return path_of(ret->path, j, first, fault);
}

bt_err tool_pull_hub(tool_pulled *ret, const char *text, const tool_pull_config *c, bt_fault *fault)
{
    job *j = calloc(1, sizeof *j);
    char *token = NULL, lock[BT_HUB_PATH_BYTES + 8];
    int fd = -1;
    if (!j) return bt_fail(fault, BT_ENOMEM, "out of memory fetching a model");
    *ret = (tool_pulled){.is_fetched = false};
    j->c = c;
    snprintf(j->words, sizeof j->words, "fetching %.100s", text);
    bt_err e = bt_hub_ref_parse(&j->ref, text, fault);
    if (e == BT_OK && c->is_offline) {
        e = bt_hub_find(ret->path, sizeof ret->path, text, fault);
        goto out;
    }
    if (e == BT_OK) e = take_hub(j, fault);
    if (e == BT_OK) e = take_token(&token, c, fault);
    if (e == BT_OK) e = bt_hub_folder(j->folder, sizeof j->folder, &j->ref, fault);
    snprintf(lock, sizeof lock, "%s/.lock", j->folder);
    if (e == BT_OK) e = tool_pull_make_folders(lock, fault);
    if (e == BT_OK) e = tool_pull_lock(&fd, lock, true, fault);
    j->server.token = token;
    if (e == BT_OK) e = get_locked(j, ret, fault);
    if (fd >= 0) tool_pull_unlock(fd, lock);
    (void)rmdir(j->folder); /* where nothing came */
out:
    bt_hub_repo_done(&j->repo);
    tool_free_key(token);
    free(j);
    return e;
}
