/* The rows of a program: its own, and those that it uses of groups. */
#include "base/opt.h"
#include "base/opt_private.h"

#include <assert.h>
#include <string.h>

const char bt_opt_no_default[] = "";

/* A row that adjusts one of those that the table has from a whole group, and is none of its own. */
static bool is_adjustment(const bt_opt *rows, size_t count, const bt_opt *r)
{
    if (!r->of || !r->name) return false;
    for (size_t i = 0; i < count; i++)
        if (rows[i].of == r->of && !rows[i].name) return true;
    return false;
}

static size_t count_rows(const bt_opt *rows, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].of && !rows[i].name) n += count_rows(rows[i].of->rows, rows[i].of->count);
        else n += !is_adjustment(rows, count, &rows[i]);
    return n;
}

/* A row that uses another one keeps the fields that it gives itself. */
static void state_own(bt_opt *o, const bt_opt *own)
{
    if (own->type) {
        *o = (bt_opt){.group = o->group, .letter = o->letter, .name = o->name, .value = o->value,
                      .type = own->type, .offset = o->offset, .def = o->def,   .example = o->example,
                      .help = o->help,   .holds = o->holds};
    }
    if (own->group) o->group = own->group;
    if (own->letter) o->letter = own->letter;
    if (own->value) o->value = own->value;
    if (own->def) o->def = own->def;
    if (own->choices) o->choices = own->choices;
    if (own->example) o->example = own->example;
    if (own->help) o->help = own->help;
    if (own->lo || own->hi) o->lo = own->lo, o->hi = own->hi;
    if (own->flo < 0 || own->flo > 0 || own->fhi > 0) o->flo = own->flo, o->fhi = own->fhi;
    if (own->required) o->required = true;
    if (own->holds) o->holds = own->holds;
    if (own->field_bytes) o->offset = own->offset, o->field_bytes = own->field_bytes;
    o->of = own->of;
}

static void adjust(bt_opt *o, const bt_opt *rows, size_t count, const bt_opt_group *of)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].of == of && rows[i].name && strcmp(rows[i].name, o->name) == 0) state_own(o, &rows[i]);
}

/* Row `*at` of the table, or the row of that name where `name` is one. False: there is none; *at is less what
 * the table has. Groups are ours, so that the depth is. */
static bool find_row(bt_opt *ret, const bt_opt *rows, size_t count, const char *name, size_t *at)
{
    size_t none = 0;
    for (size_t i = 0; i < count; i++) {
        const bt_opt *own = &rows[i];
        const bool is_all = own->of && !own->name;
        if (is_all) {
            if (!find_row(ret, own->of->rows, own->of->count, name, at)) continue;
        } else if ((name && strcmp(name, own->name) != 0) || is_adjustment(rows, count, own) ||
                   (!name && (*at)-- != 0)) {
            continue;
        } else if (!own->of) {
            *ret = *own;
            return true;
        } else if (!find_row(ret, own->of->rows, own->of->count, own->name, &none)) {
            assert(!"a row of that name in the group");
        }
        ret->offset += own->offset;
        state_own(ret, own);
        if (is_all) adjust(ret, rows, count, own->of);
        return true;
    }
    return false;
}

size_t bt_opt_rows(const bt_opt_program *p) { return count_rows(p->opts, p->opt_count); }

bt_opt bt_opt_row(const bt_opt_program *p, size_t i)
{
    bt_opt o = {.name = ""};
    if (!find_row(&o, p->opts, p->opt_count, NULL, &i)) assert(!"a row of the table");
    if (o.def == bt_opt_no_default) o.def = NULL;
    return o;
}
