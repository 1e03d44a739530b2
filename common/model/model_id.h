#ifndef BT_MODEL_MODEL_ID_H
#define BT_MODEL_MODEL_ID_H
#include "base/err.h"
#include "model/model.h"

/* Sets m->id from hyper-parameters and every byte of the tensors. Reading all tensors takes longer than anything else
 * at the start of a process, so the id of a file is kept in the folder `ids` of the cache (base/cache.h) until the file
 * changes. All other fields of m are set before. BT_ENOMEM. */
bt_err bt_model_id_find(bt_model *m, bt_fault *fault);
#endif
