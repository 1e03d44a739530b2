/* Spans are written as they are read, so that a million of them need no memory of their own. */
#include "lab/timeline/timeline.h"
#include "base/file.h"
#include "lab/page/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char page[] =
#include "lab/timeline/page.html.h"
    ;
static const char data_mark[] = "@DATA@\n";

static bool put_texts(FILE *f, const char *name, const char *const *text, size_t n)
{
    fprintf(f, ",\n\"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        if ((i && fputs(", ", f) < 0) || !tool_page_text(f, text[i])) return false;
    return fputs("]", f) >= 0;
}

static bool put_page(FILE *f, const tool_timeline *t)
{
    const char *mark = strstr(page, data_mark);
    fwrite(page, 1, (size_t)(mark - page), f);
    fputs("{\"title\": ", f);
    if (!tool_page_text(f, t->title) || fputs(",\n\"subtitle\": ", f) < 0 ||
        !tool_page_text(f, t->subtitle) || fputs(",\n\"unit\": ", f) < 0 || !tool_page_text(f, t->unit) ||
        !put_texts(f, "tracks", t->track, t->tracks) || !put_texts(f, "kinds", t->kind, t->kinds))
        return false;
    fputs(",\n\"facts\": [", f);
    for (size_t i = 0; i < t->facts; i++) {
        fputs(i ? ", [" : "[", f);
        if (!tool_page_text(f, t->fact[i].name) || fputs(", ", f) < 0 || !tool_page_text(f, t->fact[i].value))
            return false;
        fputs("]", f);
    }
    fputs("],\n\"spans\": [", f);
    for (size_t i = 0; i < t->spans; i++) {
        const tool_timeline_span *s = &t->span[i];
        fprintf(f, "%s[%u,%u,%" PRIu64 ",%" PRIu64 ",%d,%d]", i ? ",\n" : "\n", s->track, s->kind,
                s->begin_ns, s->end_ns - s->begin_ns, s->chunk, s->layer);
    }
    fputs("\n]}\n", f);
    return fputs(mark + sizeof data_mark - 1, f) >= 0;
}

static void put_us(FILE *f, const char *name, uint64_t ns)
{
    fprintf(f, ", \"%s\": %" PRIu64 ".%03u", name, ns / 1000, (unsigned)(ns % 1000));
}

static bool put_events(FILE *f, const tool_timeline *t)
{
    fputs("{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"subtitle\": ", f);
    if (!tool_page_text(f, t->subtitle)) return false;
    for (size_t i = 0; i < t->facts; i++) {
        fputs(", ", f);
        if (!tool_page_text(f, t->fact[i].name) || fputs(": ", f) < 0 || !tool_page_text(f, t->fact[i].value))
            return false;
    }
    fputs("},\n\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"tid\": 0, "
          "\"args\": {\"name\": ",
          f);
    if (!tool_page_text(f, t->title)) return false;
    fputs("}}", f);
    for (size_t i = 0; i < t->tracks; i++) {
        fprintf(
            f,
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": %zu, \"args\": {\"name\": ",
            i + 1);
        if (!tool_page_text(f, t->track[i])) return false;
        fputs("}}", f);
    }
    for (size_t i = 0; i < t->spans; i++) {
        const tool_timeline_span *s = &t->span[i];
        fputs(",\n{\"ph\": \"X\", \"name\": ", f);
        if (!tool_page_text(f, t->kind[s->kind])) return false;
        fprintf(f, ", \"cat\": \"baton\", \"pid\": 1, \"tid\": %u", s->track + 1);
        put_us(f, "ts", s->begin_ns);
        put_us(f, "dur", s->end_ns - s->begin_ns);
        fputs(", \"args\": {", f);
        if (s->chunk >= 0) {
            if (!tool_page_text(f, t->unit)) return false;
            fprintf(f, ": %d%s", s->chunk, s->layer >= 0 ? ", " : "");
        }
        if (s->layer >= 0) fprintf(f, "\"layer\": %d", s->layer);
        fputs("}}", f);
    }
    return fputs("\n]}\n", f) >= 0;
}

static bt_err check(const tool_timeline *t, bt_fault *fault)
{
    if (t->spans > TOOL_TIMELINE_MAX_SPANS)
        return bt_fail(fault, BT_ELIMIT, "a timeline of %zu spans: at most %d, so take a shorter prompt",
                       t->spans, TOOL_TIMELINE_MAX_SPANS);
    if (t->tracks > TOOL_TIMELINE_MAX_TRACKS || t->facts > TOOL_TIMELINE_MAX_FACTS)
        return bt_fail(fault, BT_ELIMIT, "a timeline of %zu tracks and %zu facts: at most %d and %d",
                       t->tracks, t->facts, TOOL_TIMELINE_MAX_TRACKS, TOOL_TIMELINE_MAX_FACTS);
    return BT_OK;
}

/* ---- Perfetto ---- */

/* A timeline in Perfetto's own format: a protobuf message Trace, as its project defines it, times in
 * nanoseconds as they are. Packets, all of one sequence:
 *
 *   a TrackDescriptor of the process, named by the title, then one for each track, a thread of it
 *   for each span a TrackEvent SLICE_BEGIN with the kind's name, its chunk and layer as annotations, and a
 *   SLICE_END; track by track, in the order of time
 *
 * The few fields are encoded by hand: varints and length-delimited fields, all that the format has. A message
 * is put together in a small buffer, since its length stands before it. Fields come in the order of their
 * numbers, so that the bytes are those of any other encoder. */

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
enum { SLICE_BEGIN = 1, SLICE_END = 2, STATE_CLEARED = 1, PID = 1, PROCESS = 1, STRING_MAX = 512 };

typedef struct message {
    uint8_t bytes[4 * STRING_MAX];
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

/* At most STRING_MAX bytes of it, whole characters of UTF-8. */
static void put_string(message *m, unsigned field, const char *text)
{
    size_t n = strlen(text);
    if (n > STRING_MAX)
        for (n = STRING_MAX; n && ((uint8_t)text[n] & 0xc0) == 0x80;) n--;
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
    put_string(&process, PROCESS_NAME, t->title);
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
        put_string(&thread, THREAD_NAME, t->track[i]);
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
    put_string(&a, ANNOTATION_NAME, name);
    put_message(event, EVENT_ANNOTATION, &a);
}

static bool put_event(FILE *f, const tool_timeline *t, const tool_timeline_span *s, int type)
{
    message packet = {.len = 0}, event = {.len = 0};
    if (type == SLICE_BEGIN) put_annotation(&event, t->unit, s->chunk);
    if (type == SLICE_BEGIN) put_annotation(&event, "layer", s->layer);
    put_int(&event, EVENT_TYPE, (uint64_t)type);
    put_int(&event, EVENT_TRACK, uuid_of(s->track));
    if (type == SLICE_BEGIN) put_string(&event, EVENT_CATEGORY, "baton");
    if (type == SLICE_BEGIN) put_string(&event, EVENT_NAME, t->kind[s->kind]);
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

static bool put_pftrace(FILE *f, const tool_timeline *t)
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

/* ---- files ---- */

static bool ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

static const struct {
    const char *ending;
    bool (*put)(FILE *f, const tool_timeline *t);
} forms[] = {{".html", put_page}, {".json", put_events}, {".pftrace", put_pftrace}};
enum { FORMS = sizeof forms / sizeof *forms };

static size_t form_of(const char *path)
{
    size_t form = 0;
    while (form < FORMS && !ends_with(path, forms[form].ending)) form++;
    return form;
}

bt_err tool_timeline_check_path(const char *path, bt_fault *fault)
{
    if (form_of(path) < FORMS) return BT_OK;
    return bt_fail(fault, BT_EARG, "'%.150s' must end in .html (a page), .pftrace or .json (for Perfetto)",
                   path);
}

bt_err tool_timeline_write(const char *path, const tool_timeline *t, bt_fault *fault)
{
    const size_t form = form_of(path);
    if (form == FORMS) return tool_timeline_check_path(path, fault);
    bt_file_new out = {.fd = -1};
    FILE *f = NULL;
    bool ok;
    bt_err e = check(t, fault);
    if (e < 0) return e;
    if ((e = bt_file_begin(&out, path, fault)) < 0) goto out;
    const int fd = dup(out.fd); /* fclose closes its own */
    if (!(f = fd < 0 ? NULL : fdopen(fd, "w"))) {
        if (fd >= 0) close(fd);
        e = bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
        goto out;
    }
    ok = forms[form].put(f, t);
    ok = !ferror(f) && ok;
    if (fclose(f) != 0 || !ok) e = bt_fail(fault, BT_EIO, "cannot write '%.150s': %s", path, strerror(errno));
    else e = bt_file_keep(&out, 0644, fault);
out:
    bt_file_done(&out);
    return e;
}
