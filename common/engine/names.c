/* Finding an engine by its name, and the lists of names, which are made of the tables before main begins:
 * rows of option tables point to them. */
#include "engine/names.h"
#include "device/schedule.h"
#include "engine/decode_backend.h"
#include "engine/prefill_backend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *const bt_engine_schedules[] = {BT_SCHEDULE_NAMES, NULL};

const char *bt_engine_prefill_names[BT_ENGINE_LIST], *bt_engine_decode_names[BT_ENGINE_LIST];
const char *bt_engine_prefill_auto_names[BT_ENGINE_LIST], *bt_engine_decode_auto_names[BT_ENGINE_LIST];
const char *bt_engine_chunked_names[BT_ENGINE_LIST], *bt_engine_door_names[2 * BT_ENGINE_LIST];

#define DECODE_WORD "decode"
static char decode_word[BT_ENGINE_MOST][sizeof DECODE_WORD "-" + BT_ENGINE_NAME_BYTES];

int bt_engine_prefill_index(const char *name)
{
    for (int i = 0; bt_prefill_rows[i]; i++)
        if (!strcmp(bt_prefill_rows[i]->facts.name, name)) return i;
    return -1;
}

static int decode_index(const char *name)
{
    for (int i = 0; bt_decode_rows[i]; i++)
        if (!strcmp(bt_decode_rows[i]->facts.name, name)) return i;
    return -1;
}

const bt_prefill_backend *bt_prefill_backend_of(const char *name)
{
    const int i = bt_engine_prefill_index(name ? name : BT_ENGINE_DEFAULT_PREFILL);
    return i < 0 ? NULL : bt_prefill_rows[i];
}

const bt_decode_backend *bt_decode_backend_of(const char *name)
{
    const int i = decode_index(name ? name : BT_ENGINE_DEFAULT_DECODE);
    return i < 0 ? NULL : bt_decode_rows[i];
}

const bt_engine_facts *bt_engine_prefill(const char *name)
{
    const bt_prefill_backend *b = bt_prefill_backend_of(name);
    return b ? &b->facts : NULL;
}

const bt_engine_facts *bt_engine_decode(const char *name)
{
    const bt_decode_backend *b = bt_decode_backend_of(name);
    return b ? &b->facts : NULL;
}

bt_err bt_engine_unknown(const char *name, const char *const *names, bt_fault *fault)
{
    char list[BT_ENGINE_MOST * (BT_ENGINE_NAME_BYTES + 4)] = "";
    for (size_t i = 0, at = 0; names[i] && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                               !i             ? ""
                               : names[i + 1] ? ", "
                                              : " or ",
                               names[i]);
    return bt_fail(fault, BT_EARG, "engine '%s' is not one of %s", name, list);
}

bool bt_engine_shares_kv(const bt_engine_facts *a, const bt_engine_facts *b)
{
    for (int i = 0; i < 2; i++)
        if (a->kv_elem_bytes[i] && bt_engine_kv(b, a->kv_elem_bytes[i]) == a->kv_elem_bytes[i]) return true;
    return false;
}

int bt_engine_decode_beside(int auto_index, int prefill)
{
    const bt_engine_facts *p = &bt_prefill_rows[prefill]->facts;
    if (auto_index > 0) return auto_index - 1;
    const int first = decode_index(BT_ENGINE_DEFAULT_DECODE);
    if (bt_engine_shares_kv(&bt_decode_rows[first]->facts, p)) return first;
    for (int i = 0; bt_decode_rows[i]; i++)
        if (bt_engine_shares_kv(&bt_decode_rows[i]->facts, p)) return i;
    return first;
}

int bt_engine_prefill_beside(int auto_index, int decode)
{
    const bt_engine_facts *d = &bt_decode_rows[decode]->facts;
    if (auto_index > 0) return auto_index - 1;
    const int first = bt_engine_prefill_index(BT_ENGINE_DEFAULT_PREFILL);
    if (bt_engine_shares_kv(&bt_prefill_rows[first]->facts, d)) return first;
    for (int i = 0; bt_prefill_rows[i]; i++)
        if (bt_engine_shares_kv(&bt_prefill_rows[i]->facts, d)) return i;
    return first;
}

const bt_engine_facts *bt_engine_door_decode(const char *word)
{
    const size_t n = sizeof DECODE_WORD - 1;
    if (!strcmp(word, DECODE_WORD)) return bt_engine_decode(NULL);
    return !strncmp(word, DECODE_WORD "-", n + 1) ? bt_engine_decode(word + n + 1) : NULL;
}

__attribute__((constructor)) static void list_names(void)
{
    size_t chunked = 0, door = 0;
    bt_engine_prefill_auto_names[0] = bt_engine_decode_auto_names[0] = "auto";
    bt_engine_chunked_names[chunked++] = "off";
    bt_engine_door_names[door++] = "none";
    for (size_t i = 0; bt_prefill_rows[i]; i++) {
        const bt_engine_facts *f = &bt_prefill_rows[i]->facts;
        assert(i < BT_ENGINE_MOST);
        bt_engine_prefill_names[i] = bt_engine_prefill_auto_names[i + 1] = bt_engine_door_names[door++] =
            f->name;
        if (f->has_chunks) bt_engine_chunked_names[chunked++] = f->name;
    }
    bt_engine_door_names[door++] = DECODE_WORD;
    for (size_t i = 0; bt_decode_rows[i]; i++) {
        const bt_engine_facts *f = &bt_decode_rows[i]->facts;
        assert(i < BT_ENGINE_MOST);
        bt_engine_decode_names[i] = bt_engine_decode_auto_names[i + 1] = f->name;
        if (f == bt_engine_decode(NULL)) continue;
        snprintf(decode_word[i], sizeof decode_word[i], DECODE_WORD "-%s", f->name);
        bt_engine_door_names[door++] = decode_word[i];
    }
}
