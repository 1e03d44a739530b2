#ifndef BT_JINJA_JJ_NATIVES_H
#define BT_JINJA_JJ_NATIVES_H
#include "text/jinja/jj_value.h"

/* Names of a template; NULL: there is nothing of that name. A test gives a JJ_BOOL. */
const jj_native *bt_jj_filter_find(const char *name, size_t len);
const jj_native *bt_jj_test_find(const char *name, size_t len);
const jj_native *bt_jj_global_find(const char *name, size_t len);

/* The filters of lists and mappings, for jj_filter.c; the last has no name. */
extern const jj_native bt_jj_filter_seq[];
#endif
