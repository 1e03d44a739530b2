#ifndef GW_DEBTS_H
#define GW_DEBTS_H
#include "base/order.h"
#include "wire/msg.h"

/* Debts of nodes: an attempt was left without waiting for the node, whose ABORT_ACK is still to come. Pure; holds no
 * request. The table is bounded: a debt that finds no room takes the place of the one that would end first, whose node
 * frees its attempt when the lease ends all the same. Orders find debts and those due, so no step looks at all of them.
 */
typedef struct gw_debt {
    bt_incarnation node;
    uint64_t number;
    uint32_t attempt;
    bool is_long;     /* counted in the node's long attempts */
    int64_t due_us;   /* when ABORT goes again */
    int64_t until_us; /* when the node's lease is over */
    uint64_t arrival; /* set by gw_debts_add */
} gw_debt;

typedef struct gw_debts {
    gw_debt *items;
    uint32_t len, cap, used; /* used: places that were ever taken */
    uint64_t arrivals;
    bt_order due;  /* debts that are due, by time; ripe ones, by arrival */
    bt_order ends; /* by until_us and arrival; free places */
    bt_order by_attempt, by_node;
} gw_debts;

bt_err gw_debts_init(gw_debts *ret, uint32_t cap); /* cap 1..; BT_ENOMEM */
void gw_debts_done(gw_debts *d);

/* Notes a debt. True: *ret_forgotten is the debt that lost its place. */
bool gw_debts_add(gw_debts *d, gw_debt *ret_forgotten, const gw_debt *debt);
/* The debt of this node for this attempt, or NULL. */
const gw_debt *gw_debts_find(const gw_debts *d, const bt_incarnation *node, uint64_t number, uint32_t attempt);
void gw_debts_remove(gw_debts *d, const gw_debt *debt);
/* Forgets the debts of a process that is no more. Returns their number, *ret_long of them with is_long. */
uint32_t gw_debts_forget(gw_debts *d, uint32_t *ret_long, const bt_incarnation *node);
int64_t gw_debts_due_us(const gw_debts *d); /* the least due_us and until_us; INT64_MAX none */

/* gw_debts_ripen makes debts due by now_us ripe; then gw_debts_next_ripe gives the ripe ones in order of arrival. The
 * caller sets when a debt is due again, or removes it. NULL: no more. */
void gw_debts_ripen(gw_debts *d, int64_t now_us);
const gw_debt *gw_debts_next_ripe(const gw_debts *d);
void gw_debts_wait(gw_debts *d, const gw_debt *debt, int64_t due_us);
#endif
