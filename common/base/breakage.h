#ifndef BT_BASE_BREAKAGE_H
#define BT_BASE_BREAKAGE_H

/* Brains broken on purpose, to see that the tests' virtual world finds the fault: BT_BREAK(NAME) in a brain is 0 and
 * costs nothing, except in objects built with -DBT_BREAKABLE (`make simtest BREAK=NAME`), where one fault can be chosen
 * at run time. */
#define BT_BREAKAGES(X) \
    X(late_block_accepted, "a decode node places blocks of an attempt that is not the one here") \
    X(credit_minted, "a decode node grants the bytes of a placed block twice") \
    X(repeat_credited, "a decode node grants the bytes of a block that the network repeats once more") \
    X(page_freed_early, "a decode node frees the pages of a sequence that its worker has not left") \
    X(token_repeated, "a gateway gives its client tokens that it has given before") \
    X(token_skipped, "a gateway accepts tokens behind a gap") \
    X(deadline_dropped, "a gateway does not look at a request's deadline") \
    X(cut_ignored, "a gateway does not care that connections end") \
    X(cut_at_once, "a gateway takes a node for lost as soon as its connection ends") \
    X(up_ignored, "a node says nothing when its connection is up again") \
    X(lease_ignored, "a decode node keeps an attempt whose lease is over") \
    X(stale_attempt_obeyed, "a decode node obeys RESERVE of an attempt lower than one it has seen") \
    X(abort_forgotten, "a decode node answers ABORT and goes on") \
    X(commit_without_check, "a decode node takes a prompt as complete although rows are missing") \
    X(overtaken_without_end, "a decode node lets reservations pass those that have waited enough") \
    X(line_forgotten, "a decode node does not look at its line again") \
    X(digest_ignored, "a decode node counts a block whose digest is wrong as placed") \
    X(ticket_ignored, "a decode node does not compare tickets and senders") \
    X(replay_without_prefix, "a decode node keeps rows that decoding made as the prefix of prompts") \
    X(wrong_class_shared, "a decode node shares rows of another class") \
    X(window_gone_early, "a decode node gives back rows that a window still sees") \
    X(decode_salt_ignored, "a decode node shares rows with prompts of another salt") \
    X(prefill_salt_ignored, "a prefill node shares rows with prompts of another salt") \
    X(salt_lost, "a gateway forgets the salt of a request that begins anew") \
    X(role_forgotten, "a node that drains for another role ends instead") \
    X(name_pushed_out, "a gateway gives the name of a node that answers to another process") \
    X(leaving_ignored, "a gateway gives work to nodes that say that they drain") \
    X(tokens_unshared, "a gateway gives nodes to one share for as long as it has requests") \
    X(slots_unshared, "a gateway gives a share more than its part of the slots while others wait") \
    X(room_unshared, "a gateway refuses whoever comes while one share has the whole waiting room") \
    X(smallest_first, "a gateway begins a share's small requests before large ones that came earlier") \
    X(priority_ignored, "a gateway does not look at a request's priority") \
    X(long_waits, "a prefill node lets short prompts run before a long one without a bound") \
    X(short_slots_taken, "a prefill node gives slots kept for short prompts to long ones") \
    X(prefix_herds, "a gateway sends prompts to a node that has had their beginning, whatever it has to do") \
    X(drain_loses, "a decode node that is asked to leave does so while attempts are here")

typedef enum bt_breakage {
    BT_BREAK_none = 0,
#define BT_BREAKAGE_NAME(name, words) BT_BREAK_##name,
    BT_BREAKAGES(BT_BREAKAGE_NAME)
#undef BT_BREAKAGE_NAME
} bt_breakage;

#ifdef BT_BREAKABLE
extern bt_breakage bt_breakage_now;
#define BT_BREAK(NAME) __builtin_expect(bt_breakage_now == BT_BREAK_##NAME, 0)
#else
#define BT_BREAK(NAME) (0 && BT_BREAK_##NAME != BT_BREAK_none)
#endif
#endif
