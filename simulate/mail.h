#ifndef BT_SIMULATE_MAIL_H
#define BT_SIMULATE_MAIL_H
#include "wire/msg.h"

/* Messages under way, as structs: a copy with its arrays in one block, so that it outlives the step that made it. */
typedef struct sim_mail sim_mail;
bt_err sim_mail_new(sim_mail **ret);
void sim_mail_free(sim_mail *p);

/* Copies m; sim_mail_drop gives the copy back. times: when each token of a TOKENS with several tokens was made, kept
 * with the copy; len 0: no times. NULL: out of memory. */
bt_msg *sim_mail_copy(sim_mail *p, const bt_msg *m, const int64_t *times, size_t len);
const int64_t *sim_mail_times(const bt_msg *copy); /* NULL: none */
/* Cuts such a TOKENS: only its tokens from number `from` on, `len` of them, are left. */
void sim_mail_cut(bt_msg *copy, uint32_t from, uint32_t len);
bt_msg **sim_mail_next(bt_msg *copy); /* a copy's place for its caller's list of copies */
void sim_mail_drop(sim_mail *p, bt_msg *m);
/* About the bytes of m on a wire: its fields and arrays. */
uint64_t sim_mail_bytes(const bt_msg *m);
uint64_t sim_mail_token_bytes(void); /* the same for a TOKENS with one token */
#endif
