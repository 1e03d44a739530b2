/* Spans are written as they are read, so that a million of them need no memory of their own. */
#include "lab/timeline/timeline.h"
#include "base/file.h"
#include "lab/timeline/pftrace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char page[] =
#include "lab/timeline/page.html.h"
    ;
static const char data_mark[] = "@DATA@\n";

/* A JSON string that may also stand inside a script of a page: no "</" is in it. false: memory is out, or the
 * text is no UTF-8. */
static bool put_text(FILE *f, const char *text)
{
    json_t *s = json_string(text);
    char *out = s ? json_dumps(s, JSON_ENCODE_ANY | JSON_ESCAPE_SLASH) : NULL;
    const bool ok = out && fputs(out, f) >= 0;
    free(out);
    json_decref(s);
    return ok;
}

static bool put_texts(FILE *f, const char *name, const char *const *text, size_t n)
{
    fprintf(f, ",\n\"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        if ((i && fputs(", ", f) < 0) || !put_text(f, text[i])) return false;
    return fputs("]", f) >= 0;
}

static bool put_page(FILE *f, const tool_timeline *t)
{
    const char *mark = strstr(page, data_mark);
    fwrite(page, 1, (size_t)(mark - page), f);
    fputs("{\"title\": ", f);
    if (!put_text(f, t->title) || fputs(",\n\"subtitle\": ", f) < 0 || !put_text(f, t->subtitle) ||
        fputs(",\n\"unit\": ", f) < 0 || !put_text(f, t->unit) ||
        !put_texts(f, "tracks", t->track, t->tracks) || !put_texts(f, "kinds", t->kind, t->kinds))
        return false;
    fputs(",\n\"facts\": [", f);
    for (size_t i = 0; i < t->facts; i++) {
        fputs(i ? ", [" : "[", f);
        if (!put_text(f, t->fact[i].name) || fputs(", ", f) < 0 || !put_text(f, t->fact[i].value))
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
    if (!put_text(f, t->subtitle)) return false;
    for (size_t i = 0; i < t->facts; i++) {
        fputs(", ", f);
        if (!put_text(f, t->fact[i].name) || fputs(": ", f) < 0 || !put_text(f, t->fact[i].value))
            return false;
    }
    fputs("},\n\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"tid\": 0, "
          "\"args\": {\"name\": ",
          f);
    if (!put_text(f, t->title)) return false;
    fputs("}}", f);
    for (size_t i = 0; i < t->tracks; i++) {
        fprintf(
            f,
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": %zu, \"args\": {\"name\": ",
            i + 1);
        if (!put_text(f, t->track[i])) return false;
        fputs("}}", f);
    }
    for (size_t i = 0; i < t->spans; i++) {
        const tool_timeline_span *s = &t->span[i];
        fputs(",\n{\"ph\": \"X\", \"name\": ", f);
        if (!put_text(f, t->kind[s->kind])) return false;
        fprintf(f, ", \"cat\": \"baton\", \"pid\": 1, \"tid\": %u", s->track + 1);
        put_us(f, "ts", s->begin_ns);
        put_us(f, "dur", s->end_ns - s->begin_ns);
        fputs(", \"args\": {", f);
        if (s->chunk >= 0) {
            if (!put_text(f, t->unit)) return false;
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

static bool ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

static const struct {
    const char *ending;
    bool (*put)(FILE *f, const tool_timeline *t);
} forms[] = {{".html", put_page}, {".json", put_events}, {".pftrace", tool_pftrace_put}};
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
    return bt_fail(fault, BT_EARG, "'%.150s' should end in .html (a page), .pftrace or .json (for Perfetto)",
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
        e = bt_fail(fault, BT_EIO, "'%.150s': %s", path, strerror(errno));
        goto out;
    }
    ok = forms[form].put(f, t);
    ok = !ferror(f) && ok;
    if (fclose(f) != 0 || !ok)
        e = bt_fail(fault, BT_EIO, "'%.150s' cannot be written: %s", path, strerror(errno));
    else e = bt_file_keep(&out, 0644, fault);
out:
    bt_file_done(&out);
    return e;
}
