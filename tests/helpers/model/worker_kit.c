/* Models, pages and events for the tests of compute threads. See worker_kit.h. */
#include "tests/helpers/model/worker_kit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool is_so, const char *what)
{
    if (is_so) return;
    fprintf(stderr, "worker_kit: %s\n", what);
    abort();
}

bt_kv_pages *worker_kit_pages(const bt_model *m, uint32_t elem_bytes, uint32_t page_tokens, size_t tokens)
{
    bt_kv_pages *pages = NULL;
    bt_fault f = {""};
    const bt_hparams *h = &m->hp;
    must(bt_kv_pages_new(&pages, h->layers, h->kv_heads, h->head_dim, elem_bytes, page_tokens, tokens, &f) ==
             BT_OK,
         f.text);
    return pages;
}

void worker_kit_open(worker_kit *k, const tiny_gguf_spec *spec, uint32_t slots, size_t tokens)
{
    const tiny_gguf_spec plain = tiny_gguf_default();
    memset(k, 0, sizeof *k);
    must(slots <= WORKER_KIT_SLOTS, "more slots than the kit has");
    must(temp_folder_new(k->dir) && setenv("BATON_CACHE_DIR", k->dir, 1) == 0, "no folder for packages");
    k->own = engine_kit_of(spec ? spec : &plain);
    k->model = k->own.model;
    k->slots = slots;
    if (slots) k->pages = worker_kit_pages(k->model, 2, WORKER_KIT_PAGE_TOKENS, slots * tokens);
    for (uint32_t s = 0; s < slots; s++)
        must(bt_kv_pages_reserve(k->pages, &k->seq[s], tokens, NULL) == BT_OK, "no page left");
}

void worker_kit_close(worker_kit *k)
{
    for (uint32_t s = 0; s < k->slots; s++) bt_kv_pages_release(k->pages, &k->seq[s]);
    bt_kv_pages_free(k->pages);
    engine_kit_done(&k->own);
    must(temp_folder_remove(k->dir) == 0, "the folder of packages stays");
}

bt_kv_view worker_kit_view(const worker_kit *k, uint32_t slot)
{
    bt_kv_view v;
    bt_kv_pages_view(&v, k->pages, &k->seq[slot]);
    return v;
}

static void wait_for(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    must(poll(&p, 1, WORKER_KIT_DEADLINE_MS) == 1, "no event of the worker in time");
}

pf_worker_event worker_kit_computed(pf_worker *w)
{
    pf_worker_event ev;
    while (!pf_worker_next(w, &ev)) wait_for(pf_worker_fd(w));
    return ev;
}

dc_worker_event worker_kit_decoded(dc_worker *w)
{
    dc_worker_event ev;
    while (!dc_worker_next(w, &ev)) wait_for(dc_worker_fd(w));
    return ev;
}
