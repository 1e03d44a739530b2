#ifndef BT_TOOLS_SIMULATE_SCALE_H
#define BT_TOOLS_SIMULATE_SCALE_H
#include "sim/cluster/scale.h"

/* How a simulated cluster changes, as --scale says it: "decode 2..16 when kv>0.8 for 10s, down when kv<0.3 for 60s;
 * role prefill 3 decode at 600s; start 30s".
 *
 *   prefill|decode A..B when FIGURE>X for TIME [, down when FIGURE<Y for TIME]   nodes join and leave by a rule
 *   role prefill|decode N prefill|decode at TIME [for TIME]                      a node changes its role; for: and back
 *   leave prefill|decode N at TIME [for TIME]                                    it drains and is off; for: joins again
 *   start TIME          from the start of a node that joins or changes its role until it greets
 *
 * FIGURE: kv and slots, shares of what the role's nodes have (0 to 1), or queue, requests that wait by node; three
 * decimals. Nodes are counted from 0 in the role that they begin in. Parts are separated by semicolons. */
enum { TOOL_SIMULATE_CHANGES = 256, TOOL_SIMULATE_RULES = 2 };
typedef struct tool_simulate_change {
    bt_role role, as; /* as: 0: it leaves */
    uint32_t number;
    int64_t at_us, for_us; /* for: 0: it stays so */
} tool_simulate_change;
typedef struct tool_simulate_scale {
    sim_scale_rule rule[TOOL_SIMULATE_RULES]; /* one a role */
    tool_simulate_change change[TOOL_SIMULATE_CHANGES];
    size_t rules, changes;
    int64_t start_us; /* -1: not said */
} tool_simulate_scale;

/* Any text is safe. BT_EARG: the column of the first word that does not fit, and what would. */
bt_err tool_simulate_scale_read(tool_simulate_scale *ret, const char *text, bt_fault *fault);
/* For a cluster that begins with so many nodes. BT_EARG: a node that it does not have, or a rule that does not allow
 * as many as it has. */
bt_err tool_simulate_scale_check(const tool_simulate_scale *s, uint32_t prefills, uint32_t decodes, bt_fault *fault);
/* The most nodes of a role that rules allow, `now` at least. */
uint32_t tool_simulate_scale_most(const tool_simulate_scale *s, bt_role role, uint32_t now);
#endif
