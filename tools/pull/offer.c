/* Fetching by any name, and offering to. */
#include "model/hub.h"
#include "model/store.h"
#include "tools/pull/pull.h"

#include <stdio.h>
#include <unistd.h>

bt_err tool_offer_pull(tool_pulled *ret, const bt_known_table *t, const char *name, const tool_pull_config *c,
                       bt_fault *fault)
{
    if (bt_hub_is_ref(name)) return tool_pull_hub(ret, name, c, fault);
    const bt_known *m = bt_known_find(t, name);
    return m ? tool_pull_model(ret, m, c, fault)
             : bt_fail(fault, BT_EARG, "no model is called '%.60s'; 'baton list' has the known names", name);
}

/* Whether somebody at the terminal says yes. */
static bool is_wanted(const bt_known *m)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return false;
    fprintf(stderr, "The model %s is not here. Fetch it (%.1f MB, licence: %s)? [y/N] ", m->name,
            (double)m->bytes / 1e6, m->licence);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

bt_err tool_offer_model(const char *name, const tool_pull_config *c, bt_fault *fault)
{
    bt_known_table t;
    tool_pulled got;
    char path[4096];
    if (c->is_offline) return BT_OK;
    if (bt_hub_is_ref(name))
        return bt_hub_find(path, sizeof path, name, NULL) == BT_OK ? BT_OK
                                                                   : tool_pull_hub(&got, name, c, fault);
    bt_err e = bt_known_load(&t, c->table, fault);
    if (e < 0) return e;
    const bt_known *m = bt_known_find(&t, name);
    if (m && bt_store_path(path, sizeof path, m->file, "", NULL) == BT_OK && access(path, F_OK) < 0 &&
        is_wanted(m))
        e = tool_pull_model(&got, m, c, fault);
    bt_known_done(&t);
    return e;
}
