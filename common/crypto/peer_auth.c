/* The allow list and the ZAP answer. */
#include "crypto/peer_auth.h"
#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEYS_MAX   10000
#define FILE_BYTES (1u << 20)

typedef struct entry {
    uint8_t key[32];
    unsigned roles;
    char name[BT_KEYS_NAME_BYTES];
} entry;
struct bt_peer_allow {
    size_t count;
    entry *entries; /* by key */
};

static const struct {
    const char *name;
    unsigned bit;
} role_names[] = {
    {"gateway", BT_PEER_GATEWAY},
    {"prefill", BT_PEER_PREFILL},
    {"decode", BT_PEER_DECODE},
};

static unsigned role_bit(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
        if (strlen(role_names[i].name) == len && !memcmp(role_names[i].name, name, len))
            return role_names[i].bit;
    return 0;
}

unsigned bt_peer_auth_role_of_name(const char *name) { return role_bit(name, strcspn(name, "-")); }

unsigned bt_peer_auth_role_list(const char *text, size_t len)
{
    unsigned roles = 0;
    for (size_t begin = 0; begin <= len;) {
        size_t n = 0;
        while (begin + n < len && text[begin + n] != ',') n++;
        const unsigned bit = role_bit(text + begin, n);
        if (!bit) return 0;
        roles |= bit;
        begin += n + 1;
    }
    return roles;
}

/* The next word of line[*at .. len). */
static size_t word(const char **ret, const char *line, size_t len, size_t *at)
{
    size_t i = *at;
    while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
    *ret = line + i;
    const size_t begin = i;
    while (i < len && line[i] != ' ' && line[i] != '\t') i++;
    *at = i;
    return i - begin;
}

/* "KEY role,role name" of `len` bytes; false: it is not that. */
static bool parse_line(entry *ret, const char *line, size_t len)
{
    static const uint8_t no_key[32];
    const char *key, *roles, *name, *rest;
    char z85[BT_KEYS_Z85_BYTES] = "";
    size_t at = 0;
    if (word(&key, line, len, &at) != 40 || key != line) return false;
    memcpy(z85, key, 40);
    if (bt_keys_from_z85(ret->key, z85, NULL) < 0 || !memcmp(ret->key, no_key, sizeof no_key)) return false;
    const size_t roles_len = word(&roles, line, len, &at);
    if (!(ret->roles = bt_peer_auth_role_list(roles, roles_len))) return false;
    const size_t name_len = word(&name, line, len, &at);
    if (name_len >= sizeof ret->name) return false;
    memcpy(ret->name, name, name_len);
    ret->name[name_len] = 0;
    return (name_len == 0 || bt_keys_is_name(ret->name)) && word(&rest, line, len, &at) == 0;
}

static int by_key(const void *a, const void *b)
{
    return memcmp(((const entry *)a)->key, ((const entry *)b)->key, 32);
}
static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Leaves the list in order of keys. */
static bt_err refuse_twins(bt_peer_allow *a, bt_fault *fault)
{
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_name);
    for (size_t i = 1; i < a->count; i++)
        if (a->entries[i].name[0] && !by_name(&a->entries[i - 1], &a->entries[i]))
            return bt_fail(fault, BT_EFORMAT, "the allow list has two keys of the name '%s'",
                           a->entries[i].name);
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_key);
    for (size_t i = 1; i < a->count; i++)
        if (!by_key(&a->entries[i - 1], &a->entries[i]))
            return bt_fail(fault, BT_EFORMAT, "the allow list names a key on two lines ('%s' and '%s')",
                           a->entries[i - 1].name, a->entries[i].name);
    return BT_OK;
}

bt_err bt_peer_auth_parse(bt_peer_allow **ret, const char *text, bt_fault *fault)
{
    size_t lines = 1, number = 0;
    bt_err e = BT_OK;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    if (lines > KEYS_MAX * 2)
        return bt_fail(fault, BT_ELIMIT, "the allow list has %zu lines; at most %d are allowed", lines,
                       KEYS_MAX * 2);
    bt_peer_allow *a = calloc(1, sizeof *a);
    if (!a || !(a->entries = calloc(lines, sizeof *a->entries)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for an allow list of %zu lines", lines);
    for (const char *p = text; e == BT_OK && *p;) {
        size_t len = strcspn(p, "\n");
        const char *next = p + len + (p[len] == '\n');
        number++;
        while (len && strchr(" \t\r", p[len - 1])) len--;
        if (len && p[0] != '#' && !parse_line(&a->entries[a->count++], p, len))
            e = bt_fail(fault, BT_EFORMAT,
                        "line %zu of the allow list is not 'KEY role[,role] [name]' with roles gateway, "
                        "prefill, decode",
                        number);
        p = next;
    }
    if (e == BT_OK && a->count > KEYS_MAX)
        e = bt_fail(fault, BT_ELIMIT, "the allow list has more than %d keys, its limit", KEYS_MAX);
    if (e == BT_OK) e = refuse_twins(a, fault);
    if (e < 0) bt_peer_auth_free(a);
    else *ret = a;
    return e;
}

bt_err bt_peer_auth_check_writers(const char *path, bt_fault *fault)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return bt_fail(fault, BT_EIO, "cannot open '%.160s': %s; make keys with 'baton keygen'", path,
                       strerror(errno));
    if (st.st_mode & 022)
        return bt_fail(fault, BT_EAUTH,
                       "'%.120s' can be written by others (mode %04o); run 'chmod go-w' on it", path,
                       (unsigned)(st.st_mode & 07777));
    return BT_OK;
}

bt_err bt_peer_auth_load(bt_peer_allow **ret, const char *dir, bt_fault *fault)
{
    char path[BT_KEYS_PATH_BYTES];
    bt_buf text;
    bt_buf_init(&text, FILE_BYTES);
    bt_err e = bt_keys_path(path, dir, "allow", "", fault);
    if (e == BT_OK) e = bt_peer_auth_check_writers(dir, fault);
    if (e == BT_OK) e = bt_peer_auth_check_writers(path, fault);
    if (e == BT_OK) e = bt_file_read(&text, path, fault);
    if (e == BT_OK && memchr(bt_buf_text(&text), 0, text.len))
        e = bt_fail(fault, BT_EFORMAT, "'%s' holds a zero byte", path);
    if (e == BT_OK) e = bt_peer_auth_parse(ret, bt_buf_text(&text), fault);
    bt_buf_done(&text);
    return e;
}

bt_err bt_peer_auth_reload(bt_peer_allow *allow, const char *dir, bt_fault *fault)
{
    bt_peer_allow *fresh = NULL;
    const bt_err e = bt_peer_auth_load(&fresh, dir, fault);
    if (e != BT_OK) return e;
    const bt_peer_allow old = *allow;
    *allow = *fresh;
    *fresh = old;
    bt_peer_auth_free(fresh);
    return BT_OK;
}

void bt_peer_auth_free(bt_peer_allow *allow)
{
    if (!allow) return;
    free(allow->entries);
    free(allow);
}

size_t bt_peer_auth_count(const bt_peer_allow *allow) { return allow->count; }

static const entry *find(const bt_peer_allow *a, const uint8_t key[32])
{
    size_t low = 0, high = a->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int c = memcmp(a->entries[middle].key, key, 32);
        if (c == 0) return &a->entries[middle];
        if (c < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

unsigned bt_peer_auth_roles(const bt_peer_allow *allow, const uint8_t key[32])
{
    const entry *e = find(allow, key);
    return e ? e->roles : 0;
}

const char *bt_peer_auth_name(const bt_peer_allow *allow, const uint8_t key[32])
{
    const entry *e = find(allow, key);
    return e ? e->name : "";
}

bool bt_peer_auth_has_name(const bt_peer_allow *allow, const char *name)
{
    for (size_t i = 0; i < allow->count; i++)
        if (!strcmp(allow->entries[i].name, name)) return true;
    return false;
}

static const char *name_of_role(unsigned roles)
{
    for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
        if (roles & role_names[i].bit) return role_names[i].name;
    return "no";
}

bt_err bt_peer_auth_find(uint8_t ret[32], const bt_peer_allow *a, unsigned roles, const char *name,
                         bt_fault *fault)
{
    const entry *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < a->count; i++) {
        const entry *e = &a->entries[i];
        if (name ? strcmp(e->name, name) != 0 : !(e->roles & roles)) continue;
        found = e;
        count++;
    }
    if (name && !found)
        return bt_fail(fault, BT_EAUTH, "the allow list has no key of the name '%.40s'", name);
    if (name && !(found->roles & roles))
        return bt_fail(fault, BT_EAUTH, "the allow list does not give the key '%.40s' the role %s", name,
                       name_of_role(roles));
    if (count != 1)
        return bt_fail(
            fault, BT_EAUTH,
            "the allow list has %zu keys of the role %s, not one: name the key, as in ENDPOINT@NAME", count,
            name_of_role(roles));
    memcpy(ret, found->key, 32);
    return BT_OK;
}

static bool is(bt_peer_frame f, const char *text)
{
    return f.size == strlen(text) && !memcmp(f.data, text, f.size);
}
static bt_peer_frame constant(const char *text)
{
    return (bt_peer_frame){(const uint8_t *)text, strlen(text)};
}

bt_err bt_peer_auth_answer(bt_peer_auth_reply *ret, const bt_peer_allow *allow, const bt_peer_frame *frames,
                           size_t count)
{
    if (count < 2 || frames[1].size > sizeof ret->request_id) return BT_EFORMAT;
    const char *status = "200", *text = "OK";
    ret->user_id[0] = 0;
    if (!is(frames[0], "1.0") || count < 6) {
        status = "500";
        text = "not a ZAP 1.0 request";
    } else if (!is(frames[5], "CURVE")) {
        status = "400";
        text = "only CURVE peers may connect";
    } else if (count != 7 || frames[6].size != 32) {
        status = "500";
        text = "a CURVE request must have one key of 32 bytes";
    } else {
        bt_keys_to_z85(ret->user_id, frames[6].data);
        if (!bt_peer_auth_roles(allow, frames[6].data)) {
            ret->user_id[0] = 0;
            status = "400";
            text = "key is not in the allow list";
        }
    }
    if (frames[1].size) memcpy(ret->request_id, frames[1].data, frames[1].size);
    ret->frames[0] = constant("1.0");
    ret->frames[1] = (bt_peer_frame){ret->request_id, frames[1].size};
    ret->frames[2] = constant(status);
    ret->frames[3] = constant(text);
    ret->frames[4] = constant(ret->user_id);
    ret->frames[5] = constant("");
    return BT_OK;
}
