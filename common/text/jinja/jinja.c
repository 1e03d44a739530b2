/* Parses a source to a template, and renders a template with variables to text. */
#include "text/jinja/jinja.h"

#include "text/jinja/jj_eval.h"
#include "text/jinja/jj_natives.h"
#include "text/jinja/jj_parse.h"

#include <stdlib.h>
#include <string.h>

/* The run's fault, with the place in front; what a template raised stands alone. */
static bt_err fail(bt_fault *fault, const jj_run *r)
{
    if (r->err == BT_EARG) return bt_fail(fault, r->err, "%s", r->fault.text);
    return bt_fail(fault, r->err, "line %u, column %u: %s", r->at.line, r->at.column, r->fault.text);
}

bt_err bt_jinja_parse(bt_jinja **ret, const char *source, size_t len, bt_fault *fault)
{
    jj_run r = {.max_steps = UINT64_MAX, .max_text_bytes = BT_JINJA_MAX_SOURCE_BYTES, .at = {1, 1}};
    bt_jj_mem_init(&r.mem, BT_JINJA_MAX_MEMORY_BYTES);
    bt_jinja *j = bt_jj_parse_template(&r, source, len);
    if (!j) {
        bt_jj_mem_done(&r.mem);
        return fail(fault, &r);
    }
    j->mem = r.mem;
    *ret = j;
    return BT_OK;
}

void bt_jinja_free(bt_jinja *j)
{
    if (!j) return;
    jj_mem mem = j->mem; /* j lies in it */
    bt_jj_mem_done(&mem);
}

bool bt_jinja_mentions(const bt_jinja *j, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < j->names; i++)
        if (jj_str_is(j->name[i], name, len) && i > j->kwargs) return true;
    for (size_t i = 0; i < j->members; i++)
        if (jj_str_is(j->member[i], name, len)) return true;
    return false;
}

static uint64_t limit(uint64_t asked, uint64_t most) { return asked > 0 && asked < most ? asked : most; }

/* Functions under their names, and variables over them. */
static bool set_globals(jj_world *w, const bt_jinja_input *in)
{
    const bt_jinja *j = w->j;
    if (!(w->global = bt_jj_take(&w->run, j->names * sizeof *w->global))) return false;
    for (size_t i = 0; i < j->names; i++) {
        const jj_native *n = bt_jj_global_find(j->name[i]->ptr, j->name[i]->len);
        jj_bound *b = n ? bt_jj_take(&w->run, sizeof *b) : NULL;
        if (n && !b) return false;
        if (!n) continue;
        b->native = n;
        w->global[i] = (jj_value){.kind = JJ_NATIVE, .is_template = true, .native = b};
    }
    for (size_t v = 0; v < in->vars; v++) {
        const bt_jinja_var *var = &in->var[v];
        const size_t len = strlen(var->name);
        for (size_t i = 0; i < j->names; i++)
            if (jj_str_is(j->name[i], var->name, len) &&
                !bt_jj_value_json(&w->run, &w->global[i], var->value, var->origin == BT_JINJA_TEMPLATE,
                                  var->origin == BT_JINJA_MESSAGES))
                return false;
    }
    return true;
}

/* Marks of bytes as runs of bytes. */
static bt_err take_text(bt_jinja_text *ret, const jj_buf *b)
{
    size_t runs = 0;
    for (size_t i = 0; i < b->len; i++) runs += i == 0 || b->mark[i] != b->mark[i - 1];
    char *text = malloc(b->len + 1);
    bt_jinja_run *run = malloc((runs + 1) * sizeof *run);
    if (!text || !run) {
        free(text);
        free(run);
        return BT_ENOMEM;
    }
    if (b->len) memcpy(text, b->ptr, b->len);
    text[b->len] = '\0';
    for (size_t i = 0, begin = 0, n = 0; i < b->len; i++)
        if (i + 1 == b->len || b->mark[i + 1] != b->mark[i]) {
            run[n++] = (bt_jinja_run){i + 1 - begin, b->mark[i] != 0};
            begin = i + 1;
        }
    *ret = (bt_jinja_text){.text = text, .len = b->len, .run = run, .runs = runs};
    return BT_OK;
}

bt_err bt_jinja_render(bt_jinja_text *ret, const bt_jinja *j, const bt_jinja_input *in, bt_fault *fault)
{
    jj_world w = {.run = {.max_steps = limit(in->limits.steps, BT_JINJA_MAX_STEPS),
                          .max_text_bytes = limit(in->limits.output_bytes, BT_JINJA_MAX_OUTPUT_BYTES),
                          .at = {1, 1}, .now_s = in->now_s, .call = bt_jj_exec_call,
                          .filter = bt_jj_filter_find, .test = bt_jj_test_find},
                  .j = j};
    jj_buf out = jj_buf_of(&w.run);
    jj_scope scope = {0};
    bt_err e;
    bt_jj_mem_init(&w.run.mem, limit(in->limits.memory_bytes, BT_JINJA_MAX_MEMORY_BYTES));
    w.out = &out;
    w.scope = &scope;
    if (!set_globals(&w, in) || !bt_jj_exec(&w, &j->body)) e = fail(fault, &w.run);
    else if ((e = take_text(ret, &out)) < 0)
        bt_fail(fault, e, "out of memory for a rendering of %zu bytes", out.len);
    else {
        ret->steps = w.run.steps;
        ret->memory_bytes = w.run.mem.bytes;
    }
    bt_jj_mem_done(&w.run.mem);
    return e;
}

void bt_jinja_text_done(bt_jinja_text *t)
{
    if (!t) return;
    free(t->text);
    free(t->run);
    *t = (bt_jinja_text){0};
}
