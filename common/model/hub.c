/* Names of a hub of models: strict reading of what the hub says, the choice of files, and where they lie
 * here. */
#include "model/hub.h"
#include "model/known.h"
#include "model/store.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHA256_DIGITS = 64, COMMIT_DIGITS = 40, PART_CHARS = 15 /* "-00001-of-00002" */, MAX_SHOWN = 6 };
static const char prefix[] = "hf:", ending[] = ".gguf", usual_quant[] = "q4_k_m";
static const uint64_t MAX_BYTES = UINT64_C(1) << 50;

/* ---- names ---- */

bool bt_hub_is_ref(const char *text) { return strncmp(text, prefix, sizeof prefix - 1) == 0; }

/* n characters of a text that can be the name of a file. */
static bool take(char *ret, size_t max, const char *text, size_t n)
{
    if (n < 1 || n > max) return false;
    memcpy(ret, text, n);
    ret[n] = '\0';
    return bt_known_is_file_name(ret) && !strchr(ret, '+');
}

bt_err bt_hub_ref_parse(bt_hub_ref *ret, const char *text, bt_fault *fault)
{
    bt_hub_ref r = {"", "", ""};
    const char *owner = text + sizeof prefix - 1;
    const size_t n = bt_hub_is_ref(text) ? strcspn(owner, "/") : 0, all = n ? strcspn(owner, ":") : 0;
    bool ok = n > 0 && owner[n] == '/' && all > n && take(r.owner, BT_HUB_MAX_NAME, owner, n) &&
              take(r.name, BT_HUB_MAX_NAME, owner + n + 1, all - n - 1);
    if (ok && owner[all] == ':')
        ok = take(r.quant, BT_HUB_MAX_QUANT, owner + all + 1, strlen(owner + all + 1));
    if (!ok)
        return bt_fail(fault, BT_EARG, "'%.60s' has not the form hf:OWNER/NAME or hf:OWNER/NAME:QUANT", text);
    *ret = r;
    return BT_OK;
}

/* ---- what the hub says ---- */

static bool is_hex(const char *s, size_t digits)
{
    return s && strlen(s) == digits && strspn(s, "0123456789abcdef") == digits;
}

static bool has_ending(const char *path)
{
    const size_t n = strlen(path);
    return n >= sizeof ending && strcmp(path + n - (sizeof ending - 1), ending) == 0;
}

/* Whether an entry of the reply is a GGUF file with all that is needed. */
static bool take_file(bt_hub_file *ret, const json_t *entry)
{
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(lfs, "size");
    const char *path = json_string_value(json_object_get(entry, "rfilename"));
    const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
    if (!path || !has_ending(path) || !bt_known_is_file_path(path) || !is_hex(sha256, SHA256_DIGITS))
        return false;
    const json_int_t n = json_integer_value(size);
    *ret = (bt_hub_file){path, sha256, (uint64_t)n};
    return json_is_integer(size) && n >= 1 && (uint64_t)n <= MAX_BYTES;
}

static int by_path(const void *a, const void *b)
{
    const bt_hub_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static bt_err read_files(bt_hub_repo *r, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return bt_fail(fault, BT_EFORMAT, "the hub's reply has no list of files");
    r->file = calloc(BT_HUB_MAX_FILES, sizeof *r->file);
    if (!r->file) return bt_fail(fault, BT_ENOMEM, "out of memory for a list of files");
    for (size_t i = 0; i < n; i++) {
        bt_hub_file f;
        if (!take_file(&f, json_array_get(list, i))) continue;
        if (r->count == BT_HUB_MAX_FILES)
            return bt_fail(fault, BT_ELIMIT, "the repository has more than %d GGUF files", BT_HUB_MAX_FILES);
        r->file[r->count++] = f;
    }
    if (r->count) qsort(r->file, r->count, sizeof *r->file, by_path);
    for (size_t i = 1; i < r->count; i++)
        if (strcmp(r->file[i - 1].path, r->file[i].path) == 0)
            return bt_fail(fault, BT_EFORMAT, "the hub's reply names %.100s twice", r->file[i].path);
    return BT_OK;
}

/* The licence of the model's card, as the hub has read it. */
static void read_licence(bt_hub_repo *r, const json_t *root)
{
    const char *s = json_string_value(json_object_get(json_object_get(root, "cardData"), "license"));
    bool ok = s && *s && strlen(s) < sizeof r->licence;
    for (const char *c = s; ok && *c; c++) ok = *c >= ' ' && *c <= '~';
    snprintf(r->licence, sizeof r->licence, "%s", ok ? s : "not stated");
}

bt_err bt_hub_repo_parse(bt_hub_repo *ret, const char *json, size_t len, bt_fault *fault)
{
    bt_hub_repo r = {"", "", NULL, 0, NULL};
    json_error_t je;
    if (len > BT_HUB_MAX_REPLY_BYTES)
        return bt_fail(fault, BT_ELIMIT, "the hub's reply has more than %d bytes", BT_HUB_MAX_REPLY_BYTES);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    r.root = root;
    const char *commit = json_string_value(json_object_get(root, "sha"));
    bt_err e = root ? BT_OK
                    : bt_fail(fault, BT_EFORMAT, "the hub's reply is not JSON: line %d, column %d", je.line,
                              je.column);
    if (e == BT_OK && !is_hex(commit, COMMIT_DIGITS))
        e = bt_fail(fault, BT_EFORMAT, "the hub's reply does not say which commit it is about");
    if (e == BT_OK) e = read_files(&r, json_object_get(root, "siblings"), fault);
    if (e == BT_OK) {
        memcpy(r.commit, commit, sizeof r.commit);
        read_licence(&r, root);
        *ret = r;
    } else {
        bt_hub_repo_done(&r);
    }
    return e;
}

void bt_hub_repo_done(bt_hub_repo *r)
{
    free(r->file);
    json_decref(r->root);
    *r = (bt_hub_repo){"", "", NULL, 0, NULL};
}

/* ---- the choice ---- */

static bool is_number(const char *s, size_t *ret)
{
    size_t v = 0;
    for (size_t i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)s[i])) return false;
        v = v * 10 + (size_t)(s[i] - '0');
    }
    *ret = v;
    return true;
}

const char *bt_hub_quant_of(const char *path, size_t *ret_stem, size_t *ret_part, size_t *ret_parts)
{
    size_t n = strlen(path) - (sizeof ending - 1), part = 1, parts = 1;
    const char *tail = n > PART_CHARS ? path + n - PART_CHARS : "";
    if (tail[0] == '-' && is_number(tail + 1, &part) && strncmp(tail + 6, "-of-", 4) == 0 &&
        is_number(tail + 10, &parts))
        n -= PART_CHARS;
    else part = parts = 1;
    *ret_stem = n;
    *ret_part = part;
    *ret_parts = parts;
    const char *at = path + n;
    while (at > path && at[-1] != '-' && at[-1] != '.' && at[-1] != '/' && at[-1] != '@') at--;
    return at;
}

typedef struct candidate {
    const char *path;
    size_t stem, part, parts;
} candidate;

static candidate look_at(const char *path)
{
    candidate c = {.path = path};
    (void)bt_hub_quant_of(path, &c.stem, &c.part, &c.parts);
    return c;
}

/* Whether the stem ends with the quant, as a word. */
static bool fits(const candidate *c, const char *quant)
{
    const size_t n = strlen(quant);
    if (!n) return true;
    if (n > c->stem || strncasecmp(c->path + c->stem - n, quant, n) != 0) return false;
    return n == c->stem || strchr("-._/@", c->path[c->stem - n - 1]);
}

static bool are_one_model(const candidate *a, const candidate *b)
{
    return a->stem == b->stem && a->parts == b->parts && strncmp(a->path, b->path, a->stem) == 0;
}

bool bt_hub_is_one_model(const char *a, const char *b)
{
    const candidate x = look_at(a), y = look_at(b);
    return are_one_model(&x, &y);
}

/* The models among the paths that fit, each by its first path; returns how many, at most max of them in ret.
 */
static size_t models_of(candidate *ret, size_t max, const char *const *path, size_t n, const char *quant)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const candidate c = look_at(path[i]);
        bool is_new = fits(&c, quant);
        for (size_t k = 0; k < found && k < max && is_new; k++) is_new = !are_one_model(&c, &ret[k]);
        if (!is_new) continue;
        if (found < max) ret[found] = c;
        found++;
    }
    return found;
}

/* All parts of a model, in order. */
static bt_err parts_of(size_t ret[BT_GGUF_MAX_PARTS], size_t *ret_n, const candidate *m,
                       const char *const *path, size_t n, bt_fault *fault)
{
    bool is_there[BT_GGUF_MAX_PARTS] = {false};
    if (m->parts < 1 || m->parts > BT_GGUF_MAX_PARTS)
        return bt_fail(fault, BT_ELIMIT, "%.100s has %zu parts; 1 to %d are allowed", m->path, m->parts,
                       BT_GGUF_MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        const candidate c = look_at(path[i]);
        if (!are_one_model(&c, m) || c.part < 1 || c.part > m->parts) continue;
        is_there[c.part - 1] = true;
        ret[c.part - 1] = i;
    }
    for (size_t k = 0; k < m->parts; k++)
        if (!is_there[k])
            return bt_fail(fault, BT_EFORMAT, "of %.100s part %zu of %zu is missing", m->path, k + 1,
                           m->parts);
    *ret_n = m->parts;
    return BT_OK;
}

bt_err bt_hub_choose(size_t ret[BT_GGUF_MAX_PARTS], size_t *ret_n, const char *const *path, size_t n,
                     const char *quant, bt_fault *fault)
{
    candidate m[MAX_SHOWN];
    char names[160] = "";
    size_t found = models_of(m, MAX_SHOWN, path, n, *quant ? quant : usual_quant);
    const bool is_found = found > 0;
    if (!is_found) found = models_of(m, MAX_SHOWN, path, n, "");
    if (found == 1 && (is_found || !*quant)) return parts_of(ret, ret_n, &m[0], path, n, fault);
    for (size_t i = 0, at = 0; i < found && i < MAX_SHOWN; i++) { /* 26 bytes each at most */
        const char *of = bt_hub_quant_of(m[i].path, &m[i].stem, &m[i].part, &m[i].parts);
        const size_t len = (size_t)(m[i].path + m[i].stem - of);
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%.*s", i ? ", " : "",
                               (int)(len < 24 ? len : 24), of);
    }
    return !found      ? bt_fail(fault, BT_EARG, "there is no GGUF file")
           : !is_found ? bt_fail(fault, BT_EARG, "no GGUF file fits '%.32s'; there are: %s%s",
                                 *quant ? quant : usual_quant, names, found > MAX_SHOWN ? ", ..." : "")
                       : bt_fail(fault, BT_EARG, "several models fit '%.32s': %s%s",
                                 *quant ? quant : usual_quant, names, found > MAX_SHOWN ? ", ..." : "");
}

/* ---- here ---- */

bt_err bt_hub_folder(char *ret, size_t cap, const bt_hub_ref *ref, bt_fault *fault)
{
    char name[2 * BT_HUB_MAX_NAME + 8];
    snprintf(name, sizeof name, "hf/%s/%s", ref->owner, ref->name);
    return bt_store_path(ret, cap, name, "", fault);
}

void bt_hub_file_name(char ret[BT_HUB_PATH_BYTES], const char *path)
{
    size_t n = 0;
    for (; path[n] && n + 1 < BT_HUB_PATH_BYTES; n++) ret[n] = path[n] == '/' ? '@' : path[n];
    ret[n] = '\0';
}

static int is_model(const struct dirent *e) { return e->d_name[0] != '.' && has_ending(e->d_name); }

bt_err bt_hub_find(char *ret, size_t cap, const char *text, bt_fault *fault)
{
    bt_hub_ref ref;
    char folder[BT_HUB_PATH_BYTES];
    struct dirent **entry = NULL;
    size_t chosen[BT_GGUF_MAX_PARTS], parts;
    bt_fault why = {""};
    bt_err e = bt_hub_ref_parse(&ref, text, fault);
    if (e == BT_OK) e = bt_hub_folder(folder, sizeof folder, &ref, fault);
    if (e < 0) return e;
    const int n = scandir(folder, &entry, is_model, alphasort);
    const char **path = calloc(n > 0 ? (size_t)n : 1, sizeof *path);
    if (!path) e = bt_fail(fault, BT_ENOMEM, "out of memory for a list of files");
    for (int i = 0; path && i < n; i++) path[i] = entry[i]->d_name;
    if (e == BT_OK && (n <= 0 || n > BT_HUB_MAX_FILES ||
                       bt_hub_choose(chosen, &parts, path, (size_t)n, ref.quant, &why) < 0))
        e = bt_fail(fault, BT_EIO, "%.80s is not here%s%.90s%s: run 'baton pull' with it to fetch it", text,
                    why.text[0] ? " (" : "", why.text, why.text[0] ? ")" : "");
    if (e == BT_OK) {
        const int len = snprintf(ret, cap, "%s/%s", folder, path[chosen[0]]);
        if (len < 0 || (size_t)len >= cap)
            e = bt_fail(fault, BT_ELIMIT, "the path of %.60s is too long", text);
    }
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    free(path);
    return e;
}
