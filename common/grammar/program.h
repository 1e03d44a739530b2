#ifndef BT_GRAMMAR_PROGRAM_H
#define BT_GRAMMAR_PROGRAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

/* A pushdown program over bytes: the texts that an answer may be. Compilers (compile.h) make it;
 * whoever runs it compiles nothing and trusts nothing of it.
 *
 * A program has rules, rule 0 is the whole. A rule is a deterministic automaton over bytes, whose states may also call
 * rules: call (rule, min, max, next) reads `rule` min to max times, then goes on at `next`. A stack is a state and the
 * calls around it, each a frame (call, count of times begun). For a byte b, a stack (s, frames) becomes:
 *   1. (t, frames) where s has a range with b, which leads to t;
 *   2. for each call c of s: what (start of c.rule, frames + (c, 1)) becomes;
 *   3. where s ends its rule and (c, n) is the last frame: if n < c.max, what (start of c.rule, (c, n + 1) in its
 *      place) becomes; if n >= c.min, what (c.next, frames without it) becomes.
 * A frame that could only return is left out: after the last of its times, where c.next ends its rule and reads nothing
 * more. So lists that are written by recursion at their end need no levels. Where max is BT_PROGRAM_NO_END, n stops
 * at min.
 *
 * The state is the set of all stacks, a function of (program, bytes accepted so far). It may end where one of them
 * has an ending state and frames that may all be left (rule 3). At most BT_PROGRAM_STACKS are kept: text that needs
 * more at once is refused with BT_ELIMIT. A stack has at most BT_PROGRAM_LEVELS frames: text that nests deeper does
 * not belong to the program.
 *
 * The bytes, all numbers little-endian:
 *   0 "BTPD"   4 u16 version 1   6 u16 flags (1: the empty text belongs to it)
 *   8 u16 rules   10 u16 states   12 u32 ranges   16 u32 calls   20 u32 zero
 *   24 XXH3-128 of bytes 0 to 23 and all from 40 on
 *   40 u16 start of each rule
 *      u16 ranges of the state, u16 its calls + 32768 if it ends its rule; for each state, whose ranges and calls
 *      follow those of the state before
 *      u8 first, u8 last, u16 next for each range; those of a state ascend and have no byte in common
 *      u16 rule, u16 next, u16 min, u16 max for each call; 1 <= min <= max
 * The checker also asks that no rule reads the empty text (no start ends its rule), that calls of starts form no circle
 * and no chain over BT_PROGRAM_LEVELS (left recursion), and that rules 1 and 2 try at most BT_PROGRAM_WIDTH states from
 * any one. So a byte costs at most STACKS * (LEVELS + 1) * 2 * WIDTH looks at a table, mostly one to three. */
enum {
    BT_PROGRAM_BYTES = 262144,
    BT_PROGRAM_LEVELS = 64,
    BT_PROGRAM_STACKS = 32,
    BT_PROGRAM_WIDTH = 256,
    BT_PROGRAM_RULES = 4096,
    BT_PROGRAM_STATES = 16384,
    BT_PROGRAM_HEADER_BYTES = 40,
    BT_PROGRAM_NO_END = 65535,
};
#define BT_PROGRAM_NONE UINT16_MAX /* in place of a state */

typedef struct bt_program_call {
    uint16_t rule, next, min, max;
} bt_program_call;

/* A program that was checked, with a table for speed: states * classes of bytes, at most 8 MiB. Never changes; any
 * number of threads may use one. Fields are for this room. */
typedef struct bt_program {
    uint8_t hash[BT_HASH_BYTES];
    uint32_t rules, states, classes;
    bool is_empty_in;      /* the empty text belongs to it */
    uint8_t class_of[256]; /* bytes of one class are alike to every state */
    uint8_t byte_of[256];  /* one byte of each class */
    uint16_t *next;        /* [states][classes]; BT_PROGRAM_NONE: closed */
    uint16_t *start;       /* [rules] */
    bool *ends;            /* [states]: ends its rule */
    bool *returns;         /* [states]: ends its rule and does nothing else */
    uint32_t *call_at;     /* [states + 1] into calls */
    bt_program_call *calls;
} bt_program;

/* Checks the bytes and copies what it needs. BT_EVERSION, BT_EFORMAT (what is wrong and where) or BT_ELIMIT (the
 * limit); BT_ENOMEM. Time and memory are linear in len, but for the table. */
bt_err bt_program_new(bt_program **ret, const void *bytes, size_t len, bt_fault *fault);
void bt_program_free(bt_program *p); /* NULL is fine */

typedef struct bt_program_frame {
    uint16_t call, count;
} bt_program_frame;
typedef struct bt_program_stack {
    uint16_t state, depth;
    bt_program_frame frame[BT_PROGRAM_LEVELS]; /* the innermost last */
} bt_program_stack;
/* A plain value of 8 KiB: to go back (a rejected draft), keep a copy, or begin anew and accept the text again. */
typedef struct bt_program_state {
    uint32_t stacks;
    bool is_begun; /* accepted a byte */
    bt_program_stack stack[BT_PROGRAM_STACKS];
} bt_program_state;

void bt_program_begin(bt_program_state *ret, const bt_program *p);
/* *s moves over bytes[0 .. len). BT_EFORMAT names the first byte that is closed, BT_ELIMIT the one that needs too many
 * stacks; *s is then as before. */
bt_err bt_program_accept(bt_program_state *s, const bt_program *p, const void *bytes, size_t len, bt_fault *fault);
bool bt_program_may_end(const bt_program_state *s, const bt_program *p);
/* The same of one stack that has read a byte. */
bool bt_program_stack_may_end(const bt_program_stack *s, const bt_program *p);
/* Words for a message: "state 12, 3 levels, 1 stack". */
enum { BT_PROGRAM_WORDS = 64 };
char *bt_program_words(char ret[BT_PROGRAM_WORDS], const bt_program_state *s);

/* One step of one stack: calls found(ud, stack) for each that it becomes, some perhaps twice; the stack is the
 * callee's until it returns. */
typedef void bt_program_found(void *ud, const bt_program_stack *stack);
void bt_program_follow(const bt_program *p, const bt_program_stack *from, uint8_t byte, bt_program_found *found,
                       void *ud);
/* Calls found for what rule 3 leaves of a stack, before a byte, as if its state ended its rule: the stacks around it.
 */
void bt_program_leave(const bt_program *p, const bt_program_stack *from, bt_program_found *found, void *ud);
#endif
