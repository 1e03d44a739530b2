#ifndef BT_TOOLS_SEARCH_HELD_OUT_H
#define BT_TOOLS_SEARCH_HELD_OUT_H
#include "base/pool.h"
#include "model/model.h"
#include "npu/compile/obtain.h"

/* Perplexity on the part of the calibration's text that calibrates nothing: windows of TOOL_HELD_OUT_WINDOW tokens
 * behind the first BT_COMPILE_MAX_CALIB, as many as there are and at most TOOL_HELD_OUT_WINDOWS, scored as baton
 * perplexity scores them. */
enum { TOOL_HELD_OUT_WINDOW = 512, TOOL_HELD_OUT_WINDOWS = 8, TOOL_HELD_OUT_LEAST = 2 };
typedef struct tool_held_out tool_held_out;
/* Runs the float engine, against whose perplexity losses are taken, and keeps its logits of one window. m, w and pool
 * are borrowed. BT_EARG: a text of less than TOOL_HELD_OUT_LEAST windows behind the calibration, with both numbers. */
bt_err tool_held_out_new(tool_held_out **ret, const bt_model *m, const bt_obtain_want *w, bt_pool *pool,
                         bt_fault *fault);
void tool_held_out_free(tool_held_out *h); /* NULL is fine */
double tool_held_out_float(const tool_held_out *h);
size_t tool_held_out_tokens(const tool_held_out *h); /* scored */
/* *ret_kl: mean divergence of the first window from floats. *ret_loss: perplexity / that of floats - 1; NULL: only the
 * first window is run. */
bt_err tool_held_out_measure(double *ret_loss, double *ret_kl, tool_held_out *h, const bt_pkg *p, bt_fault *fault);
#endif
