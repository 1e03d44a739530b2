/* The nodes have told lengths and measured times; what they priced is priced again here, stage by stage,
 * because only sums travel. */
#include "tools/commands/run_timeline.h"
#include "base/wait.h"
#include "engine/costs.h"
#include "engine/overlap.h"
#include "kv/kv_dtype.h"
#include "lab/timeline/modelled.h"
#include "tools/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chunks that are under way together have lanes of their own. */
enum { LANES = BT_OVERLAP_WINDOW, HOST_PREFILL = TOOL_TRACKS, TRACKS = HOST_PREFILL + LANES + 2 };
/* No linear of a node is divided, so that kind is free. */
enum { KIND_EXPOSED = TOOL_KIND_DIVIDED, KIND_CHUNK = TOOL_KINDS, KIND_DECODE, KINDS };

bt_err tool_run_timeline_check(const tool_serve *s, const char *path, const char *url, bt_fault *fault)
{
    if (url)
        return bt_fail(fault, BT_EARG,
                       "--timeline draws the nodes that this command starts; leave out --url");
    if (!s->decode_profile)
        return bt_fail(fault, BT_EARG, "--timeline needs --decode-profile, and a --profile with a time");
    if (s->speculate)
        return bt_fail(
            fault, BT_EARG,
            "--timeline beside --speculate %d: how many steps a guess saves is in no answer; leave "
            "one of them out",
            (int)s->speculate);
    return tool_timeline_check_path(path, fault);
}

typedef struct subject {
    const tool_serve *s;
    const json_t *baton;
    bt_pkg *pkg;
    bt_profile npu, companion, decode;
    bt_link link;
    bt_price_model model;
    uint64_t kv_token_bytes;
    char name[64];
} subject;

static bt_err open_package(subject *x, const bt_model *m, bt_fault *fault)
{
    bt_pool *pool = NULL;
    bt_err e = bt_pool_new(&pool, (size_t)x->s->threads, fault);
    const bt_obtain_how how = {.ctx_tokens = (size_t)x->s->ctx_size, .pool = pool, .only_looks = false,
                               .allow_llm_int8 = true, .progress = bt_wait_tell};
    if (e == BT_OK) e = bt_obtain_open(&x->pkg, NULL, m, &x->s->want, &how, fault);
    bt_wait_end();
    bt_pool_free(pool);
    return e;
}

/* The profile of --profile where the package names it, else the one that it names. */
static bt_err open_profiles(subject *x, bt_fault *fault)
{
    const char *name = bt_pkg_header_of(x->pkg)->profile;
    bt_err e = BT_OK;
    if (bt_profile_load(&x->npu, x->s->want.profile, NULL) < 0 || strcmp(x->npu.name, name) != 0)
        e = bt_profile_load(&x->npu, name, fault);
    x->companion = x->npu;
    if (e == BT_OK && x->npu.time.companion[0]) e = bt_profile_companion(&x->companion, &x->npu, fault);
    if (e == BT_OK) e = bt_profile_load(&x->decode, x->s->decode_profile, fault);
    return e == BT_OK ? bt_link_parse(&x->link, x->s->link ? x->s->link : "10", fault) : e;
}

static bt_err open_subject(subject *x, bt_fault *fault)
{
    bt_model *m = NULL;
    bt_err e = tool_open_model(&m, NULL, x->s->model, fault);
    if (e == BT_OK) e = open_package(x, m, fault);
    if (e == BT_OK) e = open_profiles(x, fault);
    if (e == BT_OK) {
        const uint32_t wanted = bt_kv_dtype_wanted(x->s->kv_dtype), bytes = wanted ? wanted : 2;
        x->model = bt_costs_decode(m, (bt_form)x->s->weights, bytes);
        x->kv_token_bytes = x->model.kv_bytes;
        snprintf(x->name, sizeof x->name, "%.60s", m->name);
    }
    bt_model_close(m);
    return e;
}

/* ---- what is drawn ---- */

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static uint64_t ns_of(const json_t *o, const char *key)
{
    const double v = number(o, key);
    return v > 0 ? (uint64_t)(v * 1e6 + 0.5) : 0;
}

typedef struct picture {
    tool_timeline_span *span; /* with room for the host's */
    size_t spans;
    tool_timeline_fact fact[TOOL_TIMELINE_MAX_FACTS];
    size_t facts;
    uint32_t lanes; /* of measured chunks; the link and decode follow */
} picture;

static void add_span(picture *p, uint32_t track, uint32_t kind, int32_t chunk, uint64_t begin_ns,
                     uint64_t end_ns)
{
    if (end_ns > begin_ns)
        p->span[p->spans++] = (tool_timeline_span){.track = track, .kind = kind,         .chunk = chunk,
                                                   .layer = -1,    .begin_ns = begin_ns, .end_ns = end_ns};
}

/* Measured: chunks of the prompt, what was left to send, all steps. */
static bt_err add_host(picture *p, const json_t *baton, bt_fault *fault)
{
    const json_t *chunks = json_object_get(baton, "chunks"),
                 *host = json_object_get(json_object_get(baton, "device"), "host");
    const size_t n = json_array_size(chunks);
    tool_timeline_span *more = realloc(p->span, (p->spans + n + 2) * sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "a timeline");
    p->span = more;
    uint64_t free_ns[LANES] = {0};
    p->lanes = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(chunks, i);
        const uint64_t begin = ns_of(c, "begin_ms"), end = ns_of(c, "end_ms");
        uint32_t lane = 0;
        while (lane + 1 < LANES && free_ns[lane] > begin) lane++;
        add_span(p, HOST_PREFILL + lane, KIND_CHUNK, (int32_t)i,
                 free_ns[lane] > begin ? free_ns[lane] : begin, end);
        if (end > free_ns[lane]) free_ns[lane] = end;
        if (lane >= p->lanes) p->lanes = lane + 1;
    }
    const uint64_t prefill = ns_of(host, "prefill_ms"), sent = prefill + ns_of(host, "exposed_transfer_ms");
    if (!n) add_span(p, HOST_PREFILL, KIND_CHUNK, -1, 0, prefill);
    add_span(p, HOST_PREFILL + p->lanes, KIND_EXPOSED, -1, prefill, sent);
    add_span(p, HOST_PREFILL + p->lanes + 1, KIND_DECODE, -1, sent, sent + ns_of(host, "decode_ms"));
    return BT_OK;
}

static void add_fact(picture *p, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_fact(picture *p, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->fact[p->facts].name = name;
    vsnprintf(p->fact[p->facts].value, sizeof p->fact->value, fmt, ap);
    va_end(ap);
    p->facts++;
}

static double ms(uint64_t ns) { return (double)ns / 1e6; }

static void add_facts(picture *p, const subject *x, const tool_modelled_result *r)
{
    const json_t *host = json_object_get(json_object_get(x->baton, "device"), "host");
    const bt_schedule_result *s = &r->schedule[r->policy];
    add_fact(p, "device", "%.60s", x->npu.name);
    add_fact(p, "schedule", "%s", bt_engine_schedules[x->s->schedule]);
    add_fact(p, "modelled prefill", "%.3f ms", ms(r->ttft_ns));
    add_fact(p, "  NPU's bubbles", "%.3f ms", ms(s->makespan_ns - s->busy_ns[BT_SCHEDULE_NPU]));
    add_fact(p, "  companion's bubbles", "%.3f ms", ms(s->makespan_ns - s->busy_ns[BT_SCHEDULE_COMPANION]));
    add_fact(p, "modelled transfer exposed", "%.3f ms", ms(r->exposed_ns));
    add_fact(p, "modelled decode", "%.3f ms", ms(r->decode_ns));
    add_fact(p, "measured prefill", "%.3f ms", number(host, "prefill_ms"));
    add_fact(p, "measured transfer exposed", "%.3f ms", number(host, "exposed_transfer_ms"));
    add_fact(p, "measured decode", "%.3f ms", number(host, "decode_ms"));
    if (strcmp(x->s->pace, "off") != 0) add_fact(p, "pace of what is measured", "%.60s", x->s->pace);
}

static bt_err draw(picture *p, const subject *x, const char *path, bt_fault *fault)
{
    char track[TRACKS][96], title[160];
    const char *tracks[TRACKS];
    static const char *const kinds[KINDS] = {
        [TOOL_KIND_NPU] = "NPU",
        [TOOL_KIND_ATTENTION] = "attention",
        [TOOL_KIND_COMPANION] = "companion",
        [TOOL_KIND_TRANSFER] = "KV of a layer",
        [TOOL_KIND_STEP] = "decode step",
        [KIND_CHUNK] = "chunk on this host",
        [KIND_EXPOSED] = "KV after prefill on this host",
        [KIND_DECODE] = "decode on this host",
    };
    const char *const modelled[TOOL_TRACKS] = {x->npu.name, x->companion.name, "link", x->decode.name};
    static const char *const what[TOOL_TRACKS] = {"", "companion ", "", "decode "};
    const int kv = HOST_PREFILL + (int)p->lanes, count = kv + 2;
    for (int i = 0; i < count; i++) {
        if (i < TOOL_TRACKS) snprintf(track[i], sizeof track[i], "modelled: %s%.70s", what[i], modelled[i]);
        else if (i < kv) snprintf(track[i], sizeof track[i], "measured: prefill %d", i - HOST_PREFILL);
        else snprintf(track[i], sizeof track[i], "measured: %s", i == kv ? "KV exposed" : "decode");
        tracks[i] = track[i];
    }
    snprintf(title, sizeof title, "%s, %d + %d tokens", x->name, (int)number(x->baton, "prompt_tokens"),
             (int)number(x->baton, "completion_tokens"));
    const tool_timeline t = {.title = title,
                             .subtitle =
                                 "One run. Tracks that say modelled are computed from device profiles; "
                                 "those that say measured are what it took on this machine.",
                             .unit = "chunk or token",
                             .track = tracks,
                             .kind = kinds,
                             .tracks = (size_t)count,
                             .kinds = KINDS,
                             .fact = p->fact,
                             .facts = p->facts,
                             .span = p->span,
                             .spans = p->spans};
    return tool_timeline_write(path, &t, fault);
}

bt_err tool_run_timeline(const tool_serve *s, const json_t *baton, const char *path, bt_fault *fault)
{
    subject x = {.s = s, .baton = baton};
    picture p = {.span = NULL};
    tool_modelled_result r;
    const double tokens = number(baton, "prompt_tokens"), cached = number(baton, "cached_tokens");
    if (!json_is_string(json_object_get(json_object_get(baton, "device"), "profile")))
        return bt_fail(fault, BT_EARG,
                       "--timeline: no prefill device worked for this answer, so there is nothing to draw; a "
                       "prompt shorter than --local-prefill-below is computed where it is decoded");
    if (cached > 0)
        return bt_fail(fault, BT_EARG, "--timeline: %.0f tokens were kept from an earlier prompt", cached);
    bt_err e = open_subject(&x, fault);
    const tool_modelled_plan plan = {.pkg = x.pkg,
                                     .engines = {&x.npu, &x.companion},
                                     .link = x.link,
                                     .decode = &x.decode,
                                     .model = x.model,
                                     .kv_token_bytes = x.kv_token_bytes,
                                     .prompt_tokens = (size_t)tokens,
                                     .answer_tokens = (size_t)number(baton, "completion_tokens"),
                                     .window = BT_OVERLAP_WINDOW};
    if (e == BT_OK) e = tool_modelled_play(&r, &p.span, &p.spans, &plan, s->schedule, fault);
    if (e == BT_OK) e = add_host(&p, baton, fault);
    if (e == BT_OK) {
        add_facts(&p, &x, &r);
        e = draw(&p, &x, path, fault);
    }
    free(p.span);
    bt_pkg_close(x.pkg);
    return e;
}
