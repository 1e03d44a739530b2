#ifndef BT_LAB_REPLAY_REPORT_H
#define BT_LAB_REPLAY_REPORT_H
#include "lab/replay/print.h"

/* A run as one HTML file, which needs nothing but a browser: figures, distributions, queues and nodes over time, a heat
 * map of the gaps between pieces of text, and every request with its waits. With more requests than the limit the page
 * has every k-th and says so. BT_EIO. */
enum { TOOL_REPLAY_REPORT_REQUESTS = 20000, TOOL_REPLAY_REPORT_SAMPLES = 600 };
bt_err tool_replay_report(const char *path, const tool_replay_outcome *r, bt_fault *fault);
#endif
