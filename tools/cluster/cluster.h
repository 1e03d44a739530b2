#ifndef BT_TOOLS_CLUSTER_H
#define BT_TOOLS_CLUSTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "tools/cluster/command.h"
#include "tools/cluster/supervise.h"

/* The processes of `baton up`: starts, watches and stops them as tools/cluster/supervise.h decides, and hears their
 * readiness. Private sockets and the readiness socket lie in a temporary directory that is removed in the end.
 * Children die with this process. */
typedef struct tool_cluster_config {
    tool_command *commands;
    size_t count;    /* the gateway first; at most TOOL_SUPERVISE_MAX */
    const char *dir; /* from tool_cluster_make_dir */
    int64_t drain_ms;
    void (*on_ready)(void *ud, const char *url); /* the gateway's first readiness */
    void *ud;
} tool_cluster_config;

/* A fresh private directory for sockets: ret holds cap bytes. tool_cluster_remove_dir takes it away with what is in it;
 * so that it gets its turn, SIGINT, SIGTERM and SIGHUP are blocked from here on and wait for tool_cluster_run. */
bt_err tool_cluster_make_dir(char *ret, size_t cap, bt_fault *fault);
void tool_cluster_remove_dir(const char *dir);

/* Runs until SIGINT or SIGTERM and the end of all children (BT_OK), or until a start failed (BT_EIO). SIGHUP is
 * passed on to all. */
bt_err tool_cluster_run(const tool_cluster_config *config, bt_fault *fault);
#endif
