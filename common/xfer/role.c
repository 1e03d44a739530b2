/* Decides whether a node changes its role. */
#include "xfer/role.h"

#include <stdio.h>

static const char *name_of(bt_role r) { return r == BT_ROLE_PREFILL ? "prefill" : "decode"; }

bool bt_role_answer(bt_msg_role_answer *ret, bt_role *next, bt_role wanted, bt_role own, bt_role_may may,
                    bool draining)
{
    bool begins = false;
    *ret = (bt_msg_role_answer){.role = wanted};
    if (draining && *next != wanted && (*next || wanted != own)) {
        ret->code = BT_EAGAIN;
        if (*next)
            snprintf(ret->text, sizeof ret->text, "the node drains, to serve as %s; ask again when it does",
                     name_of(*next));
        else snprintf(ret->text, sizeof ret->text, "the node is leaving");
    } else if (wanted == own) {
        snprintf(ret->text, sizeof ret->text, "the node serves as %s already", name_of(own));
    } else if (draining) {
        snprintf(ret->text, sizeof ret->text, "the node drains, then serves as %s", name_of(wanted));
    } else if (may == BT_ROLE_MAY_NOT) {
        ret->code = BT_EAUTH;
        snprintf(ret->text, sizeof ret->text,
                 "the node's key does not have both roles; give its line of the allow file 'prefill,decode', "
                 "everywhere, and send SIGHUP");
    } else {
        *next = wanted;
        begins = true;
        snprintf(ret->text, sizeof ret->text, "the node drains, then serves as %s", name_of(wanted));
    }
    return begins;
}
