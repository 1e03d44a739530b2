#ifndef BT_ORDER_H
#define BT_ORDER_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Ordered sets of places: what is due next, who is loaded least, which place has this number. For tables whose entries
 * lie in an array and are known by their place there, 0..cap-1. A place has a key and is in one set at most; a set is
 * in order of key, then of place, so an order depends on what was put and never on addresses.
 *
 * Put, take and from cost a logarithm of the set's size; first is constant, next is on average. Nothing is allocated
 * after init, and the memory is touched only where places are used: 40 bytes a place, 8 a set. A treap, whose weights
 * are a function of the place. */
enum { BT_ORDER_NONE = -1 };

typedef struct bt_order_key {
    uint64_t hi, lo;
} bt_order_key;

typedef struct bt_order_item {
    bt_order_key key;
    uint32_t up, left, right; /* places + 1; 0: none */
    uint32_t set;             /* + 1; 0: in none */
} bt_order_item;

typedef struct bt_order {
    bt_order_item *items;
    struct {
        uint32_t root, first; /* places + 1; 0: none */
    } * of;                   /* [sets] */
    uint32_t cap, sets;
} bt_order;

bt_err bt_order_init(bt_order *ret, uint32_t cap, uint32_t sets); /* 1 or more of each; BT_ENOMEM */
void bt_order_done(bt_order *o);

/* Into the set under this key, wherever it was before. */
void bt_order_put(bt_order *o, uint32_t set, uint32_t place, bt_order_key key);
void bt_order_take(bt_order *o, uint32_t place); /* out of its set, where it is in one */
static inline bool bt_order_has(const bt_order *o, uint32_t set, uint32_t place)
{
    return o->items[place].set == set + 1;
}
static inline bt_order_key bt_order_key_of(const bt_order *o, int64_t place) { return o->items[place].key; }

/* A place, or BT_ORDER_NONE. */
static inline int64_t bt_order_first(const bt_order *o, uint32_t set) { return (int64_t)o->of[set].first - 1; }
int64_t bt_order_next(const bt_order *o, int64_t place);                  /* in the place's set */
int64_t bt_order_from(const bt_order *o, uint32_t set, bt_order_key key); /* the first whose key is not less */

/* Keys of times (in their order, also negative ones) and of numbers. */
static inline bt_order_key bt_order_time(int64_t us) { return (bt_order_key){(uint64_t)us ^ (uint64_t)1 << 63, 0}; }
static inline int64_t bt_order_us(bt_order_key k) { return (int64_t)(k.hi ^ (uint64_t)1 << 63); }
static inline bt_order_key bt_order_number(uint64_t n) { return (bt_order_key){n, 0}; }
#endif
