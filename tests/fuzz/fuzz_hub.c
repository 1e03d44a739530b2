/* Any bytes as a hub's reply: what is accepted leads out of no folder, and what a quant chooses are all parts
 * of one model, each once. The first bytes up to a NUL are the quant. */
#include "model/hub.h"
#include "model/known.h"

#include <stdlib.h>
#include <string.h>

static void check_choice(const bt_hub_repo *r, const char *const *path, const char *quant)
{
    size_t chosen[BT_GGUF_MAX_PARTS], n = 0, stem, part, parts;
    bt_fault fault = {""};
    if (bt_hub_choose(chosen, &n, path, r->count, quant, &fault) < 0) {
        if (!fault.text[0]) abort();
        return;
    }
    if (!n || n > BT_GGUF_MAX_PARTS) abort();
    for (size_t i = 0; i < n; i++) {
        if (chosen[i] >= r->count || !bt_hub_is_one_model(path[chosen[0]], path[chosen[i]])) abort();
        (void)bt_hub_quant_of(path[chosen[i]], &stem, &part, &parts);
        if (part != i + 1 || parts != n) abort();
    }
}

static void check_files(const bt_hub_repo *r, const char *quant)
{
    char name[BT_HUB_PATH_BYTES];
    const char **path = calloc(r->count + 1, sizeof *path);
    if (!path) return;
    for (size_t i = 0; i < r->count; i++) {
        path[i] = r->file[i].path;
        bt_hub_file_name(name, path[i]);
        if (!bt_known_is_file_path(path[i]) || strchr(name, '/') || name[0] == '.') abort();
        if (!r->file[i].bytes || strlen(r->file[i].sha256) != 64) abort();
        if (i && strcmp(path[i - 1], path[i]) >= 0) abort();
    }
    check_choice(r, path, "");
    check_choice(r, path, quant);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_hub_repo r;
    bt_fault fault = {""};
    char quant[BT_HUB_MAX_QUANT + 1] = "";
    const size_t n = strnlen((const char *)data, len), skip = n < len ? n + 1 : 0;
    if (skip && n <= BT_HUB_MAX_QUANT) memcpy(quant, data, n);
    if (bt_hub_repo_parse(&r, (const char *)data + skip, len - skip, &fault) < 0) {
        for (const char *c = fault.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) abort(); /* it goes to a terminal */
        return 0;
    }
    if (strlen(r.commit) != 40 || !r.licence[0]) abort();
    check_files(&r, quant);
    bt_hub_repo_done(&r);
    return 0;
}
