/* The allow list and the ZAP answer. */
#include "crypto/peer_auth.h"
#include "base/buf.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX   10000
#define FILE_BYTES (1u << 20)

typedef struct entry { char key[BT_KEYS_Z85_BYTES]; unsigned roles; } entry;
struct bt_peer_allow {
    size_t count;
    entry  entries[];
};

static const struct { const char *name; unsigned bit; } role_names[] = {
    { "gateway", BT_PEER_GATEWAY }, { "prefill", BT_PEER_PREFILL }, { "decode", BT_PEER_DECODE },
};

static unsigned role_bit(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
        if (strlen(role_names[i].name) == len && !memcmp(role_names[i].name, name, len)) return role_names[i].bit;
    return 0;
}

unsigned bt_peer_auth_role_of_name(const char *name) { return role_bit(name, strcspn(name, "-")); }

/* "KEY role,role" of `len` bytes; false: it is not that. */
static bool parse_line(entry *ret, const char *line, size_t len)
{
    unsigned char raw[32];
    if (len < 42 || (line[40] != ' ' && line[40] != '\t')) return false;
    memcpy(ret->key, line, 40);
    ret->key[40] = 0;
    ret->roles = 0;
    if (bt_keys_from_z85(raw, ret->key, NULL) < 0) return false;
    const char *p = line + 40, *end = line + len;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    while (p < end) {
        size_t n = 0;
        while (p + n < end && p[n] != ',') n++;
        const unsigned bit = role_bit(p, n);
        if (!bit) return false;
        ret->roles |= bit;
        p += n + (p + n < end);
    }
    return ret->roles != 0;
}

bt_err bt_peer_auth_parse(bt_peer_allow **ret, const char *text, bt_fault *fault)
{
    size_t lines = 1, number = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    bt_peer_allow *a = lines > KEYS_MAX * 2 ? NULL : calloc(1, sizeof *a + lines * sizeof *a->entries);
    if (!a) return bt_fail(fault, lines > KEYS_MAX * 2 ? BT_ELIMIT : BT_ENOMEM, "allow list of %zu lines", lines);
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        const char *next = p + len + (p[len] == '\n');
        number++;
        while (len && strchr(" \t\r", p[len - 1])) len--;
        if (len && p[0] != '#' && !parse_line(&a->entries[a->count++], p, len)) {
            bt_peer_auth_free(a);
            return bt_fail(fault, BT_EFORMAT, "line %zu of the allow list is not 'KEY role[,role]' with roles gateway, prefill, "
                           "decode", number);
        }
        p = next;
    }
    if (a->count > KEYS_MAX) {
        bt_peer_auth_free(a);
        return bt_fail(fault, BT_ELIMIT, "allow list of more than %d keys", KEYS_MAX);
    }
    *ret = a;
    return BT_OK;
}

bt_err bt_peer_auth_load(bt_peer_allow **ret, const char *path, bt_fault *fault)
{
    bt_buf text;
    bt_buf_init(&text, FILE_BYTES);
    bt_err e = bt_file_read(&text, path, fault);
    if (e == BT_OK && memchr(bt_buf_text(&text), 0, text.len))
        e = bt_fail(fault, BT_EFORMAT, "'%s' holds a zero byte", path);
    if (e == BT_OK) e = bt_peer_auth_parse(ret, bt_buf_text(&text), fault);
    bt_buf_done(&text);
    return e;
}

void bt_peer_auth_free(bt_peer_allow *allow) { free(allow); }

unsigned bt_peer_auth_roles(const bt_peer_allow *allow, const char *public_key)
{
    unsigned roles = 0;
    for (size_t i = 0; i < allow->count; i++)
        if (!strcmp(allow->entries[i].key, public_key)) roles |= allow->entries[i].roles;
    return roles;
}

static bool is(bt_peer_frame f, const char *text) { return f.size == strlen(text) && !memcmp(f.data, text, f.size); }
static bt_peer_frame constant(const char *text) { return (bt_peer_frame){ (const uint8_t *)text, strlen(text) }; }

bt_err bt_peer_auth_answer(bt_peer_auth_reply *ret, const bt_peer_allow *allow, const bt_peer_frame *frames, size_t count)
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
        text = "a CURVE request has one key of 32 bytes";
    } else {
        bt_keys_to_z85(ret->user_id, frames[6].data);
        if (!bt_peer_auth_roles(allow, ret->user_id)) {
            ret->user_id[0] = 0;
            status = "400";
            text = "key is not in the allow list";
        }
    }
    if (frames[1].size) memcpy(ret->request_id, frames[1].data, frames[1].size);
    ret->frames[0] = constant("1.0");
    ret->frames[1] = (bt_peer_frame){ ret->request_id, frames[1].size };
    ret->frames[2] = constant(status);
    ret->frames[3] = constant(text);
    ret->frames[4] = constant(ret->user_id);
    ret->frames[5] = constant("");
    return BT_OK;
}
