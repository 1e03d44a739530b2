/* Any bytes as a table of models: no name of an accepted one leads out of a folder, and each model is found.
 */
#include "model/known.h"

#include <stdlib.h>
#include <string.h>

static void check_model(const bt_known_table *t, const bt_known *m)
{
    if (bt_known_find(t, m->name) != m || !bt_known_is_file_name(m->file) || strchr(m->file, '/')) abort();
    if (!m->bytes || m->bytes >> 50 > 1 || strlen(m->sha256) != 64 || !m->parts ||
        m->parts > BT_KNOWN_MAX_PARTS)
        abort();
    for (size_t i = 0; i < m->parts; i++) {
        const bt_known_part *p = &m->part[i];
        if (!bt_known_is_file_name(p->wheel) || !bt_known_is_file_path(p->member) || strstr(p->member, "/."))
            abort();
        if (!p->bytes || strlen(p->sha256) != 64 || !strchr(p->wheel, '-')) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_known_table t;
    bt_fault fault = {""};
    if (bt_known_parse(&t, (const char *)data, len, &fault) < 0) {
        for (const char *c = fault.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) abort(); /* it goes to a terminal */
        return 0;
    }
    for (size_t i = 0; i < t.count; i++) check_model(&t, &t.model[i]);
    bt_known_done(&t);
    return 0;
}
