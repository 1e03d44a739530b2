#ifndef BT_MODEL_OPTIONS_H
#define BT_MODEL_OPTIONS_H
#include "base/opt.h"

/* Rows that many programs have, used by their names; who uses one says where its value lies. */
extern const bt_opt_group bt_model_opts;    /* model, ctx-size, weights, chat-template */
extern const bt_opt_group bt_machine_opts;  /* threads, isa, kv-memory, memory, cache-limit */
extern const bt_opt_group bt_sampling_opts; /* temp, top-p, top-k, min-p, three penalties, n-predict */
#endif
