/* Reads tables of measured rows. A file is lines of commas behind comments, the first of which name its
 * sources; the columns are those of `columns`, in this order, in all files. */
#include "tests/validate/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const val_kind_names[VAL_KINDS] = {
    "linear", "matrix", "products",    "small", "attention",     "attention_step", "all_reduce",
    "prompt", "step",   "served_tpot", "run",   "joules_prompt", "joules_step"};
const char *const val_use_names[VAL_USES] = {"calibrates", "model", "group", "region"};

static const char columns[] =
    "device,stack,devices,kind,shape,form,rows,batch,context,out,programs,measured,source,note";
enum { COLUMNS = 14 };

void val_die(const char *what, const char *why)
{
    fprintf(stderr, "validate: %s: %s\n", what, why);
    exit(1);
}

char *val_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t len = 0, room = 1 << 16;
    char *text = malloc(room);
    if (!f || !text) val_die(path, strerror(errno));
    for (size_t n; (n = fread(text + len, 1, room - len - 1, f)) > 0;) {
        len += n;
        if (len + 1 < room) continue;
        room *= 2;
        if (!(text = realloc(text, room))) val_die(path, strerror(errno));
    }
    fclose(f);
    text[len] = '\0';
    return text;
}

static uint64_t whole(const char *s) { return *s ? strtoull(s, NULL, 10) : 0; }

static void bad(const char *path, uint32_t line, const char *why)
{
    char at[256];
    snprintf(at, sizeof at, "%s:%u", path, (unsigned)line);
    val_die(at, why);
}

static val_row parse(const char *path, uint32_t line, char *text)
{
    char *cell[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        if (!text) bad(path, line, "columns are missing");
        cell[i] = strsep(&text, ",");
    }
    if (text) bad(path, line, "more columns than the head of the file names");
    val_row r = {.file = path,
                 .line = line,
                 .device = cell[0],
                 .stack = cell[1],
                 .shape = cell[4],
                 .form = cell[5],
                 .programs = cell[10],
                 .source = cell[12],
                 .note = cell[13],
                 .kind = VAL_KINDS,
                 .devices = (uint32_t)whole(cell[2]),
                 .batch = whole(cell[7]),
                 .context = whole(cell[8]),
                 .out = whole(cell[9]),
                 .measured = atof(cell[11])};
    for (int k = 0; k < VAL_KINDS; k++)
        if (!strcmp(cell[3], val_kind_names[k])) r.kind = (val_kind)k;
    const char *to = strchr(cell[6], '-');
    r.rows = whole(cell[6]);
    r.rows_to = to ? whole(to + 1) : r.rows;
    if (r.kind == VAL_KINDS) bad(path, line, "a kind that is none");
    if (!(r.measured > 0)) bad(path, line, "nothing was measured");
    if (!r.devices || r.rows_to < r.rows) bad(path, line, "devices or rows that cannot be");
    return r;
}

void val_read(val_table *t, const char *path)
{
    char *text = val_text(path);
    uint32_t line = 0;
    bool has_head = false;
    while (text) {
        char *s = strsep(&text, "\n");
        line++;
        if (!*s || *s == '#') continue;
        if (!has_head) {
            if (strcmp(s, columns)) bad(path, line, columns);
            has_head = true;
            continue;
        }
        if (t->len == t->room) {
            t->room = t->room ? 2 * t->room : 4096;
            if (!(t->row = realloc(t->row, t->room * sizeof *t->row))) val_die(path, strerror(errno));
        }
        t->row[t->len] = parse(path, line, s);
        t->row[t->len].use = val_use_of(&t->row[t->len]);
        t->len++;
    }
}
