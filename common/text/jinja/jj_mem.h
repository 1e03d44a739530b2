#ifndef BT_JINJA_JJ_MEM_H
#define BT_JINJA_JJ_MEM_H
#include <stdbool.h>
#include <stddef.h>

/* Memory that is taken piece by piece and given back at once. */
typedef struct jj_chunk jj_chunk;
typedef struct jj_mem {
    jj_chunk *chunk;           /* the newest */
    size_t bytes, limit_bytes; /* of all chunks */
    bool is_full, is_out;      /* why the last bt_jj_mem_take gave NULL: the limit; the system */
} jj_mem;

void bt_jj_mem_init(jj_mem *m, size_t limit_bytes);
void bt_jj_mem_done(jj_mem *m);
/* Zeroed, aligned for any object; NULL past the limit or where the system has none. bytes may be 0. */
void *bt_jj_mem_take(jj_mem *m, size_t bytes);
/* A larger array with the old content; the old one stays as it is. */
void *bt_jj_mem_grow(jj_mem *m, const void *old, size_t old_bytes, size_t new_bytes);
#endif
