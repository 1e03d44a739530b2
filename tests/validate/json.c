/* The results as one JSON object: the tables of show.c. */
#include "tests/validate/validate.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *rounded(double x) { return json_real(round(x * 1e4) / 1e4); }

static json_t *stat_json(const val_stat *s, const val_goal *g)
{
    json_t *o = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "rows", (json_int_t)s->n, "median",
                          rounded(s->median), "p75", rounded(s->p75), "p90", rounded(s->p90), "worst",
                          rounded(s->worst), "bias", rounded(s->bias), "within_goal", rounded(s->share));
    if (g->median) json_object_set_new(o, "meets_goal", json_boolean(val_is_met(s, g)));
    return o;
}

/* A class on one pair, by what rows are held out by. NULL: there are no rows. */
static json_t *pair_json(const val_table *t, const val_pair *p, val_class c)
{
    json_t *o = json_pack("{s:s,s:s}", "device", p->device, "stack", p->stack);
    val_asked a = {.pair = p, .class = c};
    size_t n = 0;
    for (int use = 0; use < VAL_USES; use++) {
        const val_goal g = val_goal_of(c, p->is_npu, (val_use)use);
        a.uses = 1u << use;
        const val_stat s = val_stat_of(t, &a, g.within);
        if (s.n) json_object_set_new(o, val_use_names[use], stat_json(&s, &g));
        n += s.n;
    }
    const val_goal g = val_goal_of(c, p->is_npu, VAL_REGION);
    a.uses = VAL_HELD;
    const val_stat s = val_stat_of(t, &a, g.within);
    if (s.n) json_object_set_new(o, "held_out", stat_json(&s, &g));
    if (n) return o;
    json_decref(o);
    return NULL;
}

static json_t *cells_json(const val_table *t, val_class c)
{
    json_t *list = json_array();
    char length[24], height[24];
    double error;
    size_t devices;
    for (size_t y = 0; y < VAL_CELLS; y++)
        for (size_t x = 0; x < VAL_CELLS; x++)
            if (val_cell_error(&error, &devices, t, c, x, y))
                json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:o}", val_goals[c].length,
                                                      val_cell_name(length, c, x, false), val_goals[c].height,
                                                      val_cell_name(height, c, y, true), "pairs",
                                                      (json_int_t)devices, "error", rounded(error)));
    return list;
}

static json_t *class_json(const val_table *t, const val_pair *pair, size_t pairs, val_class c)
{
    const val_goal *g = &val_goals[c];
    json_t *list = json_array();
    for (size_t i = 0; i < pairs; i++) {
        json_t *o = pair_json(t, &pair[i], c);
        if (o) json_array_append_new(list, o);
    }
    json_t *o = json_pack("{s:s,s:i,s:o,s:o}", "class", g->name, "tier", g->tier, "pairs", list, "cells",
                          cells_json(t, c));
    if (g->median)
        json_object_set_new(o, "goal",
                            json_pack("{s:f,s:f,s:f}", "median", g->median, "share", g->share, "within",
                                      g->within));
    return o;
}

/* Rows with a reason, counted by device, stack, kind and reason. */
static json_t *reasons_json(const val_table *t, bool is_apart)
{
    json_t *count = json_object(), *list = json_array();
    const char *key;
    json_t *v;
    char name[512];
    for (size_t i = 0; i < t->len; i++) {
        const val_row *r = &t->row[i];
        const char *why = is_apart ? r->apart : r->unpriced;
        if (!why) continue;
        snprintf(name, sizeof name, "%s@%s %s: %s", r->device, r->stack, val_kind_names[r->kind], why);
        json_object_set_new(count, name, json_integer(json_integer_value(json_object_get(count, name)) + 1));
    }
    json_object_foreach(count, key, v)
        json_array_append_new(list, json_pack("{s:s,s:O}", "what", key, "rows", v));
    json_decref(count);
    return list;
}

static json_t *served_json(const val_served *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->len; i++) {
        const val_served_figure *f = &v->figure[i];
        json_t *o = json_pack("{s:s,s:f,s:f,s:o}", "figure", f->name, "measured_ms", f->measured,
                              "modelled_ms", f->modelled, "error", rounded(f->modelled / f->measured - 1));
        if (f->goal) json_object_set_new(o, "goal", json_real(f->goal));
        json_array_append_new(list, o);
    }
    return json_pack("{s:s,s:s,s:I,s:o,s:s?}", "device", v->device, "stack", v->stack, "requests",
                     (json_int_t)v->requests, "figures", list, "not_played", v->why);
}

void val_show_json(const val_table *t, const val_served *v)
{
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    json_t *classes = json_array();
    for (int c = 0; c < VAL_CLASSES; c++)
        json_array_append_new(classes, class_json(t, pair, pairs, (val_class)c));
    json_t *root = json_pack("{s:o,s:o,s:o,s:o*}", "classes", classes, "apart", reasons_json(t, true),
                             "unpriced", reasons_json(t, false), "served", v ? served_json(v) : NULL);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(root);
}
