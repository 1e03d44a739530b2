/* GGUF files: mapped, with the other parts of the model where it has some, and named by their state. */
#include "model/gguf_private.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TAIL_BYTES = 32 };

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- one file ---- */

static bt_err open_one(bt_gguf **ret, const char *path, bool is_head, bt_fault *fault)
{
    bt_err e = BT_OK;
    bt_fault why = {""};
    void *map = MAP_FAILED;
    size_t len = 0;
    bt_gguf *g = NULL;
    bt_file_state state;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open %.150s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) < 0 || bt_file_state_of(&state, fd, NULL) < 0) {
        e = bt_fail(fault, BT_EIO, "cannot read %.150s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= 0) {
        e = bt_fail(fault, S_ISREG(st.st_mode) ? BT_EFORMAT : BT_EIO, "%.150s is %s", path,
                    S_ISREG(st.st_mode) ? "empty" : "not a regular file");
        goto out;
    }
    e = bt_file_fits(path, (uint64_t)st.st_size, fault);
    if (e != BT_OK) goto out;
    len = (size_t)st.st_size;
    map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        e = bt_fail(fault, errno == ENOMEM ? BT_ENOMEM : BT_EIO, "cannot map the %zu MiB of %.100s: %s",
                    len >> 20, path, strerror(errno));
        goto out;
    }
    e = bt_gguf_parse(&g, map, len, is_head, &why);
    if (e != BT_OK) {
        bt_fail(fault, e, "%.60s: %.180s", name_of(path), why.text);
        goto out;
    }
    g->mapped = true;
    g->state = state;
    *ret = g;
out:
    if (e < 0 && map != MAP_FAILED) munmap(map, len);
    close(fd);
    return e;
}

/* ---- parts ---- */

/* How many parts the model has (1: it is whole) and which this is. */
static bt_err read_split(uint64_t *ret_no, uint64_t *ret_count, const bt_gguf *g, bt_fault *fault)
{
    bt_err e = bt_gguf_u64_or(ret_count, g, "split.count", 1, fault);
    if (e == BT_OK) e = bt_gguf_u64_or(ret_no, g, "split.no", 0, fault);
    if (e != BT_OK) return e;
    if (*ret_count > BT_GGUF_MAX_PARTS)
        return bt_fail(fault, BT_ELIMIT, "split.count is %llu; at most %d parts are allowed",
                       (unsigned long long)*ret_count, BT_GGUF_MAX_PARTS);
    return BT_OK;
}

static bt_err check_parts(size_t *ret_tensors, bt_gguf *const *part, size_t n, bt_fault *fault)
{
    uint64_t no, count, said;
    *ret_tensors = 0;
    for (size_t i = 0; i < n; i++) {
        const bt_err e = read_split(&no, &count, part[i], fault);
        if (e != BT_OK) return e;
        if (no != i || count != n)
            return bt_fail(fault, BT_EFORMAT, "where part %zu of %zu belongs is part %llu of %llu", i + 1, n,
                           (unsigned long long)no + 1, (unsigned long long)count);
        *ret_tensors += part[i]->own_tensors; /* 512 times 65,536 at most */
    }
    const bt_err e = bt_gguf_u64_or(&said, part[0], "split.tensors.count", *ret_tensors, fault);
    if (e != BT_OK) return e;
    if (said != *ret_tensors)
        return bt_fail(fault, BT_EFORMAT, "split.tensors.count is %llu; the %zu parts have %zu",
                       (unsigned long long)said, n, *ret_tensors);
    if (*ret_tensors > BT_GGUF_MAX_TENSORS)
        return bt_fail(fault, BT_ELIMIT, "%zu tensors in %zu parts; at most %d are allowed", *ret_tensors, n,
                       BT_GGUF_MAX_TENSORS);
    return BT_OK;
}

bt_err bt_gguf_join(bt_gguf **part, size_t n, bt_fault *fault)
{
    bt_gguf *g = part[0];
    size_t tensors, at = 0;
    bt_err e = check_parts(&tensors, part, n, fault);
    bt_gguf_tensor *all = calloc(tensors + 1, sizeof *all);
    gguf_index *index = calloc(tensors + 1, sizeof *index);
    bt_gguf **others = calloc(n, sizeof *others);
    if (e == BT_OK && (!all || !index || !others))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for %zu tensors", tensors);
    if (e != BT_OK) {
        for (size_t i = 0; i < n; i++) bt_gguf_close(part[i]);
        free(all);
        free(index);
        free(others);
        return e;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(all + at, part[i]->tensors, part[i]->own_tensors * sizeof *all);
        at += part[i]->own_tensors;
    }
    free(g->tensors);
    free(g->tensor_index);
    g->tensors = all;
    g->tensor_index = index;
    g->tensor_count = tensors;
    memcpy(others, part + 1, (n - 1) * sizeof(bt_gguf *));
    g->part = others;
    g->parts = n - 1;
    if ((e = bt_gguf_index_tensors(g, fault)) < 0) bt_gguf_close(g);
    return e;
}

/* The state of all parts. */
static void join_states(bt_gguf *g)
{
    bt_hash_stream s;
    bt_hash_begin(&s);
    bt_hash_add(&s, g->state.name, sizeof g->state.name);
    for (size_t i = 0; i < g->parts; i++) {
        bt_hash_add(&s, g->part[i]->state.name, sizeof g->state.name);
        g->state.is_settled = g->state.is_settled && g->part[i]->state.is_settled;
    }
    bt_hash_end(g->state.name, &s);
}

/* Opens the other parts beside the first, whose name gives theirs. */
static bt_err open_parts(bt_gguf *first, const char *path, size_t n, bool is_head, bt_fault *fault)
{
    char tail[TAIL_BYTES], other[PATH_BYTES];
    bt_fault why = {""};
    const size_t len = strlen(path),
                 tail_len = (size_t)snprintf(tail, sizeof tail, "-00001-of-%05zu.gguf", n);
    bt_gguf *part[BT_GGUF_MAX_PARTS] = {first};
    size_t opened = 1;
    bt_err e = BT_OK;
    if (len < tail_len || len >= sizeof other || strcmp(path + len - tail_len, tail) != 0)
        e = bt_fail(fault, BT_EFORMAT,
                    "%.60s is the first of %zu parts: its name must end with %s, as those of the others",
                    name_of(path), n, tail);
    for (; e == BT_OK && opened < n; opened += e == BT_OK) {
        snprintf(other, sizeof other, "%.*s-%05zu-of-%05zu.gguf", (int)(len - tail_len), path, opened + 1, n);
        e = open_one(&part[opened], other, is_head, fault);
    }
    if (e != BT_OK) {
        for (size_t i = 0; i < opened; i++) bt_gguf_close(part[i]);
        return e;
    }
    if ((e = bt_gguf_join(part, n, &why)) < 0)
        return bt_fail(fault, e, "%.60s: %.180s", name_of(path), why.text);
    join_states(first);
    return BT_OK;
}

static bt_err open_path(bt_gguf **ret, const char *path, bool is_head, bt_fault *fault)
{
    bt_gguf *g;
    uint64_t no, count;
    bt_fault why = {""};
    bt_err e = open_one(&g, path, is_head, fault);
    if (e != BT_OK) return e;
    e = read_split(&no, &count, g, &why);
    if (e == BT_OK && no > 0)
        e = bt_fail(&why, BT_EFORMAT,
                    "this is part %llu of %llu: open the first, which ends with -00001-of-%05llu.gguf",
                    (unsigned long long)no + 1, (unsigned long long)count, (unsigned long long)count);
    if (e != BT_OK) {
        bt_gguf_close(g);
        return bt_fail(fault, e, "%.60s: %.180s", name_of(path), why.text);
    }
    if (count > 1 && (e = open_parts(g, path, (size_t)count, is_head, fault)) < 0) return e;
    *ret = g;
    return BT_OK;
}

bt_err bt_gguf_open(bt_gguf **ret, const char *path, bt_fault *fault)
{
    return open_path(ret, path, false, fault);
}

bt_err bt_gguf_open_head(bt_gguf **ret, const char *path, bt_fault *fault)
{
    return open_path(ret, path, true, fault);
}

/* ---- what the files are ---- */

size_t bt_gguf_file_bytes(const bt_gguf *g)
{
    size_t bytes = g->len; /* all are mapped: no overflow */
    for (size_t i = 0; i < g->parts; i++) bytes += g->part[i]->len;
    return bytes;
}

const uint8_t *bt_gguf_state(const bt_gguf *g) { return g->state.is_settled ? g->state.name : NULL; }

const uint8_t *bt_gguf_head(size_t *ret_bytes, const bt_gguf *g)
{
    *ret_bytes = g->len;
    for (size_t i = 0; i < g->own_tensors; i++)
        if ((size_t)(g->tensors[i].data - g->base) < *ret_bytes)
            *ret_bytes = (size_t)(g->tensors[i].data - g->base);
    return g->base;
}

void bt_gguf_let_go(const bt_gguf *g, const uint8_t *begin, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)begin / page * page;
    bool is_in_file = begin >= g->base && begin < g->base + g->len;
    for (size_t i = 0; i < g->parts; i++)
        is_in_file = is_in_file || (begin >= g->part[i]->base && begin < g->part[i]->base + g->part[i]->len);
    if (g->mapped && bytes && is_in_file)
        (void)madvise((void *)at, (uintptr_t)begin + bytes - at, MADV_DONTNEED);
}
