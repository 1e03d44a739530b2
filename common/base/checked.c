/* Marks of files whose content has been compared with its hashes. */
#include "base/checked.h"
#include "base/buf.h"
#include "base/cache.h"
#include "base/hash.h"

#include <string.h>

typedef struct checking {
    const bt_file_state *state;
    bt_err (*check)(void *ud, bt_fault *fault);
    void *ud;
    bt_err found; /* what check gave, where it ran */
    bool ran;
} checking;

/* A mark holds the name of its state. */
static bt_err open_mark(void **ret, void *ud, const char *path, bt_fault *fault)
{
    checking *c = ud;
    bt_buf b;
    bt_buf_init(&b, sizeof c->state->name);
    bt_err e = bt_file_read(&b, path, fault);
    if (e == BT_OK && (b.len != sizeof c->state->name || memcmp(b.data, c->state->name, b.len) != 0))
        e = BT_EFORMAT;
    if (e == BT_OK) *ret = c;
    bt_buf_done(&b);
    return e;
}

static bt_err make_mark(void *ud, const char *path, bt_fault *fault)
{
    checking *c = ud;
    c->ran = true;
    c->found = c->check(c->ud, fault);
    return c->found < 0 ? c->found
                        : bt_file_replace(path, c->state->name, sizeof c->state->name, 0644, fault);
}

bt_err bt_checked_once(bool *ret_ran, const bt_file_state *state, bt_err (*check)(void *ud, bt_fault *fault),
                       void *ud, bt_fault *fault)
{
    checking c = {.state = state, .check = check, .ud = ud};
    char key[BT_HASH_HEX_CHARS];
    void *marked;
    *ret_ran = true;
    if (!state->is_settled) return check(ud, fault);
    const bt_cache_request r = {.kind = &bt_cache_files_checked, .key = bt_hash_hex(key, state->name),
                                .open = open_mark, .make = make_mark, .ud = &c};
    const bt_err e = bt_cache_open(&marked, NULL, &r, fault);
    if (c.ran) return c.found;
    *ret_ran = e < 0;
    return e < 0 ? check(ud, fault) : BT_OK; /* no cache here: checked all the same */
}
