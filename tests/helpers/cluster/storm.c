/* See storm.h. */
#include "tests/helpers/cluster/storm.h"
#include "base/rng.h"
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 240000, WORDS_TOLD = 4, PROMPT_BYTES = 16384 };

uint64_t storm_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

const char *storm_model(void)
{
    static char path[512];
    const char *given = getenv("BATON_TEST_MODEL");
    if (given && *given) return given;
    return bt_model_find(path, sizeof path, "smollm2", NULL) == BT_OK ? path : NULL;
}

uint64_t storm_draw(storm *s, uint64_t below)
{
    return (uint64_t)(bt_rng_uniform(s->seed, s->draws++) * (double)below);
}

static json_t *random_request(storm *s, int max_tokens, int max_words, json_t *with)
{
    static const char *const words[] = {"the ", "end ", "of ",  "day ",  "and ", "one ", "in ",
                                        "his ", "was ", "her ", "when ", "she ", "said "};
    char prompt[PROMPT_BYTES] = "";
    size_t at = 0;
    const uint64_t most = storm_draw(s, 3) ? (uint64_t)max_words / 8 + 1 : (uint64_t)max_words,
                   count = 1 + storm_draw(s, most);
    for (uint64_t i = 0; i < count && at + 8 < sizeof prompt; i++)
        at += (size_t)snprintf(prompt + at, sizeof prompt - at, "%s",
                               words[storm_draw(s, sizeof words / sizeof *words)]);
    json_t *r = cluster_request(prompt, 1 + (int)storm_draw(s, (uint64_t)max_tokens));
    if (storm_draw(s, 2)) {
        json_object_set_new(r, "temperature", json_real(0.9));
        json_object_set_new(r, "seed", json_integer((json_int_t)storm_draw(s, 1 << 20)));
    }
    (void)json_object_update(r, with);
    return r;
}

static json_t *ids_of(client *c) { return json_object_get(client_baton(c), "token_ids"); }

bool storm_learn(storm *s, const char *url, uint64_t seed, int max_tokens, int max_prompt_words, json_t *with)
{
    memset(s, 0, sizeof *s);
    snprintf(s->url, sizeof s->url, "%s", url);
    s->seed = seed;
    s->patience_ms = (int)spawn_patience(ANSWER_MS);
    for (size_t i = 0; i < STORM_KINDS && s->draws < 100000;) {
        storm_kind *k = &s->kinds[i];
        k->request = random_request(s, max_tokens, max_prompt_words, with);
        client *c = client_post(url, "/v1/completions", k->request);
        if (!client_wait(c, s->patience_ms) || client_status(c) != 200) {
            printf("alone: %ld %s\n", client_status(c), client_body(c));
            client_end(c);
            return false;
        }
        k->ids = json_deep_copy(ids_of(c));
        k->text = client_text(c);
        client_end(c);
        if (json_array_size(k->ids) > 2 || i % 4 == 0) {
            /* a random model may end at once; some such will do */
            i++;
            continue;
        }
        json_decref(k->request);
        json_decref(k->ids);
        free(k->text);
        *k = (storm_kind){NULL, NULL, NULL};
    }
    return s->kinds[STORM_KINDS - 1].request != NULL;
}

void storm_done(storm *s)
{
    for (size_t i = 0; i < STORM_KINDS; i++) {
        json_decref(s->kinds[i].request);
        json_decref(s->kinds[i].ids);
        free(s->kinds[i].text);
    }
}

static void begin(storm *s, storm_flight *f)
{
    *f = (storm_flight){.kind = storm_draw(s, STORM_KINDS), .is_stream = storm_draw(s, 2)};
    json_t *r = json_deep_copy(s->kinds[f->kind].request);
    if (f->is_stream) json_object_set_new(r, "stream", json_true());
    f->c = client_post(s->url, "/v1/completions", r);
    json_decref(r);
    s->sent++;
}

static void tell(storm *s, const storm_flight *f, const char *what)
{
    if (s->failed + s->altered > WORDS_TOLD) return;
    char *want = json_dumps(s->kinds[f->kind].ids, JSON_COMPACT),
         *request = json_dumps(s->kinds[f->kind].request, JSON_COMPACT);
    printf("seed %llu, request %llu of kind %zu, %s, %s after %lld ms: status %ld: %.2000s\nrequest: "
           "%.600s\nalone: %s\n",
           (unsigned long long)s->seed, (unsigned long long)s->sent, f->kind,
           f->is_stream ? "stream" : "whole", what, (long long)client_ms(f->c), client_status(f->c),
           client_body(f->c), request, want);
    free(want);
    free(request);
}

static void judge(storm *s, storm_flight *f)
{
    const bool is_late = !client_is_over(f->c);
    char *text = is_late ? NULL : client_text(f->c);
    if (is_late || client_status(f->c) != 200 || client_error(f->c) || !ids_of(f->c) ||
        (f->is_stream && !client_is_done(f->c))) {
        s->failed++;
        tell(s, f, is_late ? "no end" : "failed");
    } else if (!json_equal(ids_of(f->c), s->kinds[f->kind].ids) ||
               strcmp(text, s->kinds[f->kind].text) != 0) {
        s->altered++;
        tell(s, f, "altered");
    } else {
        s->whole++;
        s->again += json_integer_value(json_object_get(client_baton(f->c), "attempts")) > 1;
        if (client_ms(f->c) > s->slowest_ms) s->slowest_ms = client_ms(f->c);
    }
    free(text);
    client_end(f->c);
    f->c = NULL;
}

/* Events of a stream so far: each is a line of its own. */
static void look(storm *s, storm_flight *f)
{
    size_t events = 0;
    const int64_t now = spawn_now_ms();
    for (const char *at = client_body(f->c); (at = strstr(at, "data: "));) {
        events++;
        at += 6;
    }
    if (events == f->events) return;
    if (f->events && now - f->last_ms > s->slowest_gap_ms) s->slowest_gap_ms = now - f->last_ms;
    f->events = events;
    f->last_ms = now;
}

bool storm_step(storm *s, uint64_t until)
{
    bool is_busy = false;
    for (size_t i = 0; i < STORM_FLIGHTS; i++) {
        storm_flight *f = &s->flights[i];
        if (f->c && f->is_stream) look(s, f);
        if (f->c && (client_is_over(f->c) || client_ms(f->c) > s->patience_ms)) judge(s, f);
        if (!f->c && s->sent < until) begin(s, f);
        is_busy = is_busy || f->c;
    }
    client_step();
    return is_busy;
}

void storm_print(const storm *s, const char *what)
{
    printf("%s, seed %llu: %llu requests, %llu whole (%llu by a later attempt), %llu failed, %llu altered, "
           "slowest recovery "
           "%lld ms, slowest answer %lld ms\n",
           what, (unsigned long long)s->seed, (unsigned long long)s->sent, (unsigned long long)s->whole,
           (unsigned long long)s->again, (unsigned long long)s->failed, (unsigned long long)s->altered,
           (long long)s->slowest_gap_ms, (long long)s->slowest_ms);
}
