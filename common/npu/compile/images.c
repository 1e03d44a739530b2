/* Writes a session's image: constants in the order of the tensor table, then zeros, which are a hole in the
 * file. */
#include "npu/compile/images.h"
#include "base/file.h"
#include "base/num.h"
#include "device/tile.h"
#include "kernels/int_kernels.h"
#include "npu/lower/plan.h"
#include "npu/lower/sessions.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, BUFFER_BYTES = 1 << 16 };

typedef struct images {
    const bt_pkg *p;
    const bt_pkg_header *h;
    const bt_pkg_tensor *tensor;
    uint8_t *is_mapped;   /* [tensors]: an instruction of the NPU reads it */
    uint32_t *mapped_by;  /* [constants]: 1 + the session whose image has it */
    uint64_t state_bytes; /* of a layer's KV state; 0 where the companion attends */
    bt_file_new file;
    uint64_t at; /* bytes of the image so far */
    uint8_t buffer[BUFFER_BYTES];
    size_t filled;
    uint32_t held;      /* bits of an unfinished byte */
    unsigned held_bits; /* how many */
} images;

/* ---- bytes ---- */

static bt_err flush(images *m, bt_fault *fault)
{
    if (bt_file_write(m->file.fd, m->buffer, m->filled) < 0)
        return bt_fail(fault, BT_EIO, "cannot write '%s': %s", m->file.path, strerror(errno));
    m->filled = 0;
    return BT_OK;
}

static bt_err put(images *m, const void *bytes, size_t n, bt_fault *fault)
{
    bt_err e = BT_OK;
    const uint8_t *from = bytes;
    while (n && e == BT_OK) {
        const size_t room = BUFFER_BYTES - m->filled, part = n < room ? n : room;
        memcpy(m->buffer + m->filled, from, part);
        m->filled += part;
        m->at += part;
        from += part;
        n -= part;
        if (m->filled == BUFFER_BYTES) e = flush(m, fault);
    }
    return e;
}

/* Puts elements of `bits` bits without gaps, the first in the lowest bits of a byte. */
static bt_err put_elems(images *m, const uint16_t *elem, size_t n, uint32_t bits, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        m->held |= (elem[i] & ((UINT32_C(1) << bits) - 1)) << m->held_bits;
        for (m->held_bits += bits; e == BT_OK && m->held_bits >= 8; m->held_bits -= 8, m->held >>= 8) {
            const uint8_t byte = (uint8_t)m->held;
            e = put(m, &byte, 1, fault);
        }
    }
    return e;
}

/* ---- matrices ---- */

/* A matrix of the package: a tensor, or one expert's part of it. */
typedef struct matrix {
    const bt_pkg_tensor *t;
    const uint8_t *panels, *oscale; /* oscale NULL: a matrix of floats */
    const int32_t *colsum;
    const void *groups; /* bt_int_group, or palettes */
} matrix;

static const void *part_of(const images *m, uint32_t constant, size_t expert, size_t bytes)
{
    const uint8_t *at = bt_pkg_const_at(m->p, constant);
    return at ? at + expert * bytes : NULL;
}

static matrix matrix_of(const images *m, const bt_pkg_tensor *t, size_t expert)
{
    const size_t panels = bt_int_panels(t->n),
                 palettes = t->palette_run ? panels * (t->k / t->palette_run) : 0;
    const size_t bytes =
        t->bits == 16 ? panels * 16 * t->k * sizeof(uint16_t) : panels * bt_int_panel_bytes(t->k, t->bits);
    const size_t groups = t->group ? panels * (t->k / t->group) * sizeof(bt_int_group) : palettes << t->bits;
    return (matrix){.t = t, .panels = part_of(m, t->panels, expert, bytes),
                    .oscale = part_of(m, t->oscale, expert, 16 * panels * sizeof(float)),
                    .colsum =
                        part_of(m, t->colsum, expert, (t->group ? 2 : 1) * 16 * panels * sizeof(int32_t)),
                    .groups = groups ? part_of(m, t->groups, expert, groups) : NULL};
}

static uint16_t element(const void *panels, const bt_pkg_tensor *t, size_t n, size_t k)
{
    if (t->palette_run) return (uint16_t)bt_int_index_at(panels, n, k, t->k, t->bits);
    if (t->bits == 16) return ((const uint16_t *)panels)[(n / 16 * t->k + k) * 16 + n % 16];
    return (uint16_t)bt_int_packed_at(panels, n, k, t->k, t->bits);
}

/* Puts a row of tiles: outputs from n0 on, all inputs. row: [rows of a tile][k]; elems: one tile. */
static bt_err put_band(images *m, const matrix *of, const bt_tile *tile, size_t n0, uint16_t *row,
                       uint16_t *elems, bt_fault *fault)
{
    const bt_pkg_tensor *t = of->t;
    const size_t rows = t->n - n0 < tile->rows ? t->n - n0 : tile->rows;
    bt_err e = BT_OK;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < t->k; k++) row[r * t->k + k] = element(of->panels, t, n0 + r, k);
    for (size_t k = 0; e == BT_OK && k < t->k; k += tile->cols) {
        bt_tile_pack(tile, elems, row + k, t->k, rows, t->k - k < tile->cols ? t->k - k : tile->cols);
        e = put_elems(m, elems, bt_tile_elems(tile), t->bits, fault);
    }
    return e;
}

/* Puts f32 or s32 [n]: the package's, or zeros for a matrix of floats. */
static bt_err put_words(images *m, const void *words, uint32_t n, bt_fault *fault)
{
    static const uint8_t none[4];
    bt_err e = BT_OK;
    if (words) return put(m, words, (size_t)n * 4, fault);
    for (uint32_t i = 0; e == BT_OK && i < n; i++) e = put(m, none, sizeof none, fault);
    return e;
}

/* Puts the sums of high planes, then s16 [n][k / group][2], the steps and offsets. */
static bt_err put_groups(images *m, const matrix *from, bt_fault *fault)
{
    const bt_pkg_tensor *t = from->t;
    const size_t groups = t->k / t->group;
    const bt_int_group *of = from->groups;
    bt_err e = put(m, from->colsum + 16 * bt_int_panels(t->n), t->n * sizeof *from->colsum, fault);
    for (size_t n = 0; n < t->n; n++)
        for (size_t g = 0; e == BT_OK && g < groups; g++) {
            const bt_int_group *one = &of[n / 16 * groups + g];
            uint8_t bytes[4];
            bt_put16(bytes, (uint16_t)one->step[n % 16]);
            bt_put16(bytes + 2, (uint16_t)one->offset[n % 16]);
            e = put(m, bytes, sizeof bytes, fault);
        }
    return e;
}

/* Puts s8 [(n + 15) / 16][k / palette_run][2^bits], as the package has them. */
static bt_err put_palettes(images *m, const matrix *of, bt_fault *fault)
{
    const bt_pkg_tensor *t = of->t;
    return put(m, of->groups, (bt_int_panels(t->n) * (t->k / t->palette_run)) << t->bits, fault);
}

static bt_err put_matrix(images *m, const matrix *of, bt_fault *fault)
{
    const bt_pkg_tensor *t = of->t;
    const bt_tile tile = bt_tile_of(m->h->layout.tile_rows, m->h->layout.tile_cols, t->k, t->bits);
    uint16_t *row = malloc((size_t)tile.rows * t->k * sizeof *row),
             *elems = malloc(bt_tile_elems(&tile) * sizeof *elems);
    bt_err e =
        row && elems ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for tiles of %u x %u", t->n, t->k);
    for (size_t n = 0; e == BT_OK && n < t->n; n += tile.rows)
        e = put_band(m, of, &tile, n, row, elems, fault);
    if (e == BT_OK && m->held_bits) {
        const uint8_t last = (uint8_t)m->held;
        m->held = 0;
        m->held_bits = 0;
        e = put(m, &last, 1, fault);
    }
    if (e == BT_OK) e = put_words(m, of->oscale, t->n, fault);
    if (e == BT_OK) e = put_words(m, of->colsum, t->n, fault);
    if (e == BT_OK && t->group) e = put_groups(m, of, fault);
    if (e == BT_OK && t->palette_run) e = put_palettes(m, of, fault);
    free(row);
    free(elems);
    return e;
}

/* ---- sessions ---- */

/* Puts the session's matrices, each constant once, in the order of the table. */
static bt_err put_session(images *m, uint32_t index, bt_fault *fault)
{
    const bt_pkg_session *s = &bt_pkg_sessions(m->p)[index];
    bt_err e = BT_OK;
    for (uint32_t i = 0; e == BT_OK && i < m->h->tensors.count; i++) {
        const uint32_t layer = i / BT_PKG_LAYER_TENSORS, part = layer < m->h->layers ? layer : m->h->layers;
        if (!m->is_mapped[i] || part < s->first_layer || part > s->last_layer) continue;
        uint32_t *mapped_by = &m->mapped_by[m->tensor[i].panels];
        if (*mapped_by == index + 1) continue;
        *mapped_by = index + 1;
        for (size_t n = 0; e == BT_OK && n < bt_pkg_matrices(m->h, m->tensor[i].weight); n++) {
            const matrix of = matrix_of(m, &m->tensor[i], n);
            e = put_matrix(m, &of, fault);
        }
    }
    return e == BT_OK ? flush(m, fault) : e;
}

/* Puts what stands behind the matrices: each layer's KV state, where the device holds it, and the arena. */
static bt_err put_zeros(images *m, uint32_t index, bt_fault *fault)
{
    const bt_pkg_session *s = &bt_pkg_sessions(m->p)[index];
    const uint64_t last = s->last_layer < m->h->layers ? s->last_layer + 1 : m->h->layers,
                   states = (last > s->first_layer ? last - s->first_layer : 0) * m->state_bytes,
                   least = m->at + m->h->arena_bytes;
    if (s->mapped_bytes != least && s->mapped_bytes != least + states)
        return bt_fail(
            fault, BT_EFORMAT,
            "session %u maps %llu bytes by the package, but its image has %llu%s: the package is not of "
            "this program's compiler",
            index, (unsigned long long)s->mapped_bytes, (unsigned long long)(least + states),
            states ? " with the KV state" : "");
    if (ftruncate(m->file.fd, (off_t)s->mapped_bytes) < 0)
        return bt_fail(fault, BT_EIO, "cannot write '%s': %s", m->file.path, strerror(errno));
    return BT_OK;
}

static bt_err write_session(images *m, const char *dir, uint32_t index, bt_fault *fault)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/session-%u.img", dir, index);
    bt_err e = bt_file_begin(&m->file, path, fault);
    if (e < 0) return e;
    m->at = m->filled = 0;
    m->held = 0;
    m->held_bits = 0;
    e = put_session(m, index, fault);
    if (e == BT_OK) e = put_zeros(m, index, fault);
    if (e == BT_OK) e = bt_file_keep(&m->file, 0644, fault);
    bt_file_done(&m->file);
    return e;
}

/* ---- the package ---- */

static bt_err look(images *m, bt_fault *fault)
{
    bt_plan_state state;
    uint64_t batch = 1;
    bool attends = false;
    for (uint32_t i = 0; i < m->h->programs.count; i++) {
        const bt_pkg_inst *inst = bt_pkg_code(m->p, i);
        for (uint32_t n = 0; n < bt_pkg_programs(m->p)[i].insts; n++) {
            if (inst[n].unit == BT_PKG_COMPANION) continue;
            attends = attends || bt_pkg_is_attention(&inst[n]);
            if (bt_pkg_is_linear(&inst[n])) m->is_mapped[inst[n].tensor] = 1;
        }
    }
    for (uint32_t i = 0; i < m->h->rows.count; i++)
        if (bt_pkg_rows(m->p)[i].batch > batch) batch = bt_pkg_rows(m->p)[i].batch;
    const bt_err e = bt_plan_state_of(&state, m->h, m->h->ctx_tokens, fault);
    if (e == BT_OK && attends) m->state_bytes = state.bytes / m->h->layers * batch;
    return e;
}

/* Deletes images of sessions from number `sessions` on, left by an earlier package. */
static void delete_later(const char *dir, uint32_t sessions)
{
    char path[PATH_BYTES];
    do snprintf(path, sizeof path, "%s/session-%u.img", dir, sessions++);
    while (unlink(path) == 0);
}

bt_err bt_images_write(const bt_pkg *p, const char *dir, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    bt_err e = BT_OK;
    if (strlen(dir) > PATH_BYTES - 64)
        return bt_fail(fault, BT_EARG, "the folder's name has %zu bytes; at most %d are allowed", strlen(dir),
                       PATH_BYTES - 64);
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return bt_fail(fault, BT_EIO, "cannot make the folder '%s': %s", dir, strerror(errno));
    images *m = malloc(sizeof *m);
    if (!m) return bt_fail(fault, BT_ENOMEM, "out of memory writing images of sessions");
    *m = (images){.p = p, .h = h, .tensor = bt_pkg_tensors(p)};
    m->is_mapped = calloc(h->tensors.count + 1, sizeof *m->is_mapped);
    m->mapped_by = calloc(h->consts.count + 1, sizeof *m->mapped_by);
    if (!m->is_mapped || !m->mapped_by)
        e = bt_fail(fault, BT_ENOMEM, "out of memory writing images of sessions");
    if (e == BT_OK) e = look(m, fault);
    for (uint32_t i = 0; e == BT_OK && i < h->sessions.count; i++) e = write_session(m, dir, i, fault);
    if (e == BT_OK) delete_later(dir, h->sessions.count);
    free(m->is_mapped);
    free(m->mapped_by);
    free(m);
    return e;
}
