/* A message is put together in a small buffer, since its length stands before it. Fields come in the order of
 * their numbers, so that the bytes are those of any other encoder. */
#include "lab/timeline/pftrace.h"

#include <stdlib.h>
#include <string.h>

/* Field numbers of Perfetto's messages. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    TRACK_UUID = 1,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    ANNOTATION_INT = 4,
    ANNOTATION_NAME = 10
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, STATE_CLEARED = 1, PID = 1, PROCESS = 1, TEXT_MAX = 512 };

typedef struct message {
    uint8_t bytes[4 * TEXT_MAX];
    size_t len;
} message;

static void put_varint(message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) m->bytes[m->len++] = (uint8_t)(v | 0x80);
    m->bytes[m->len++] = (uint8_t)v;
}

static void put_int(message *m, unsigned field, uint64_t v)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, v);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t len)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, len);
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

/* At most TEXT_MAX bytes of it, whole characters of UTF-8. */
static void put_text(message *m, unsigned field, const char *text)
{
    size_t n = strlen(text);
    if (n > TEXT_MAX)
        for (n = TEXT_MAX; n && ((uint8_t)text[n] & 0xc0) == 0x80;) n--;
    put_bytes(m, field, text, n);
}

static void put_message(message *m, unsigned field, const message *inner)
{
    put_bytes(m, field, inner->bytes, inner->len);
}

static bool write_packet(FILE *f, const message *packet)
{
    message head = {.len = 0};
    put_varint(&head, TRACE_PACKET << 3 | 2);
    put_varint(&head, packet->len);
    return fwrite(head.bytes, 1, head.len, f) == head.len &&
           fwrite(packet->bytes, 1, packet->len, f) == packet->len;
}

static uint64_t uuid_of(size_t track) { return PROCESS + 1 + track; }

static bool put_tracks(FILE *f, const tool_timeline *t)
{
    message packet = {.len = 0}, track = {.len = 0}, process = {.len = 0};
    put_int(&process, PROCESS_PID, PID);
    put_text(&process, PROCESS_NAME, t->title);
    put_int(&track, TRACK_UUID, PROCESS);
    put_message(&track, TRACK_PROCESS, &process);
    put_int(&packet, PACKET_SEQUENCE, 1);
    put_int(&packet, PACKET_FLAGS, STATE_CLEARED);
    put_message(&packet, PACKET_TRACK, &track);
    if (!write_packet(f, &packet)) return false;
    for (size_t i = 0; i < t->tracks; i++) {
        message thread = {.len = 0};
        packet.len = track.len = 0;
        put_int(&thread, THREAD_PID, PID);
        put_int(&thread, THREAD_TID, uuid_of(i));
        put_text(&thread, THREAD_NAME, t->track[i]);
        put_int(&track, TRACK_UUID, uuid_of(i));
        put_message(&track, TRACK_THREAD, &thread);
        put_int(&track, TRACK_PARENT, PROCESS);
        put_int(&packet, PACKET_SEQUENCE, 1);
        put_message(&packet, PACKET_TRACK, &track);
        if (!write_packet(f, &packet)) return false;
    }
    return true;
}

static void put_annotation(message *event, const char *name, int32_t value)
{
    message a = {.len = 0};
    if (value < 0) return;
    put_int(&a, ANNOTATION_INT, (uint64_t)value);
    put_text(&a, ANNOTATION_NAME, name);
    put_message(event, EVENT_ANNOTATION, &a);
}

static bool put_event(FILE *f, const tool_timeline *t, const tool_timeline_span *s, int type)
{
    message packet = {.len = 0}, event = {.len = 0};
    if (type == SLICE_BEGIN) put_annotation(&event, t->unit, s->chunk);
    if (type == SLICE_BEGIN) put_annotation(&event, "layer", s->layer);
    put_int(&event, EVENT_TYPE, (uint64_t)type);
    put_int(&event, EVENT_TRACK, uuid_of(s->track));
    if (type == SLICE_BEGIN) put_text(&event, EVENT_CATEGORY, "baton");
    if (type == SLICE_BEGIN) put_text(&event, EVENT_NAME, t->kind[s->kind]);
    put_int(&packet, PACKET_TIMESTAMP, type == SLICE_BEGIN ? s->begin_ns : s->end_ns);
    put_int(&packet, PACKET_SEQUENCE, 1);
    put_message(&packet, PACKET_EVENT, &event);
    return write_packet(f, &packet);
}

static int by_track_and_time(const void *a, const void *b)
{
    const tool_timeline_span *x = *(const tool_timeline_span *const *)a,
                             *y = *(const tool_timeline_span *const *)b;
    if (x->track != y->track) return x->track < y->track ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

bool tool_pftrace_put(FILE *f, const tool_timeline *t)
{
    const tool_timeline_span **order = malloc((t->spans + 1) * sizeof *order);
    bool ok = order && put_tracks(f, t);
    for (size_t i = 0; ok && i < t->spans; i++) order[i] = &t->span[i];
    if (ok) qsort(order, t->spans, sizeof *order, by_track_and_time);
    for (size_t i = 0; ok && i < t->spans; i++)
        ok = put_event(f, t, order[i], SLICE_BEGIN) && put_event(f, t, order[i], SLICE_END);
    free(order);
    return ok;
}
