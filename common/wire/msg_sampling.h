#ifndef BT_WIRE_MSG_SAMPLING_H
#define BT_WIRE_MSG_SAMPLING_H
#include "wire/msg_body.h"

/* Private to common/wire: sampling parameters and log probabilities, to and from protobuf, and their ranges. Fields
 * that are read live as long as the message. */
void bt_msg_sampling_put(bt_msg_scratch *s, const bt_sampling *p); /* into s->sampling */
void bt_msg_sampling_get(bt_msg_checker *c, bt_sampling *ret, const Bt__Sampling *b);
void bt_msg_sampling_check(bt_msg_checker *c, const bt_sampling *p);

void bt_msg_sampling_put_logprob(Bt__Logprob *ret, const bt_msg_logprob *l);
void bt_msg_sampling_get_logprob(bt_msg_checker *c, bt_msg_logprob *ret, const Bt__Logprob *b);
void bt_msg_sampling_check_logprob(bt_msg_checker *c, const bt_msg_logprob *l);
/* The log probabilities of all ids of one Tokens. */
void bt_msg_sampling_put_logprobs(Bt__Tokens *ret, bt_msg_scratch *s, const bt_msg_tokens *t);
void bt_msg_sampling_get_logprobs(bt_msg_checker *c, bt_msg_tokens *ret, const Bt__Tokens *b);
#endif
