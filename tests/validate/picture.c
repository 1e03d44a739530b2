/* The picture of signed errors: a row of panels for each device and stack, a panel for each class, its cells
 * by length across and by height up. Blue: modelled shorter than measured; red: longer. */
#include "tests/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL_W = 30, CELL_H = 15, LEFT = 200, TOP = 96, GAP = 16, PANEL_W = VAL_CELLS * CELL_W + GAP };

static void put_cell(FILE *f, double error, int x, int y)
{
    const double strength = fmin(1, fabs(error) / 0.5);
    fprintf(f, "<rect class='%s' fill-opacity='%.2f' x='%d' y='%d' width='%d' height='%d'/>",
            error < 0 ? "s" : "l", 0.08 + 0.77 * strength, x, y, CELL_W - 1, CELL_H - 1);
    fprintf(f, "<text class='n' x='%d' y='%d'>%+.0f</text>\n", x + CELL_W / 2, y + 11, error * 100);
}

/* The heights that a pair has rows at, of all classes. */
static size_t heights_of(bool ret[VAL_CELLS], const val_table *t, const val_pair *p)
{
    size_t n = 0;
    for (size_t y = 0; y < VAL_CELLS; y++) {
        ret[y] = false;
        for (int c = 0; c < VAL_CLASSES; c++)
            for (size_t x = 0; x < VAL_CELLS; x++) {
                const val_asked a = {p, (val_class)c, VAL_ALL, x, y, true};
                ret[y] |= val_stat_of(t, &a, 0).n > 0;
            }
        n += ret[y];
    }
    return n;
}

static void put_head(FILE *f)
{
    char name[24];
    fprintf(f, "<text class='t' x='10' y='24'>Signed error of modelled times, %%: median of each cell's "
               "rows</text>\n"
               "<text class='d' x='10' y='42'>blue: modelled shorter than measured; red: longer; full colour "
               "at 50 %%. "
               "Rows that calibrate and rows that are held out.</text>\n");
    for (int c = 0; c < VAL_CLASSES; c++) {
        const int x = LEFT + c * PANEL_W;
        fprintf(
            f,
            "<text class='h' x='%d' y='%d'>%s</text><text class='d' x='%d' y='%d'>%s up, %s across</text>\n",
            x, TOP - 30, val_goals[c].name, x, TOP - 17, val_goals[c].height, val_goals[c].length);
        for (size_t i = 0; i < VAL_CELLS; i++)
            fprintf(f, "<text class='c' x='%d' y='%d'>%s</text>", x + (int)i * CELL_W + CELL_W / 2, TOP - 4,
                    val_cell_name(name, (val_class)c, i, false) + (i + 1 < VAL_CELLS ? 3 : 0));
    }
}

static int put_pair(FILE *f, const val_table *t, const val_pair *p, int top)
{
    bool has[VAL_CELLS];
    char name[24];
    const size_t n = heights_of(has, t, p);
    int y = top;
    if (!n) return top;
    fprintf(f, "<text class='h' x='10' y='%d'>%s</text><text class='d' x='10' y='%d'>%s</text>\n", top + 11,
            p->device, top + 25, p->stack);
    for (size_t i = VAL_CELLS; i-- > 0;) {
        if (!has[i]) continue;
        fprintf(f, "<text class='r' x='%d' y='%d'>%s</text>\n", LEFT - 6, y + 11,
                val_cell_name(name, VAL_CLASS_STEP, i, true));
        for (int c = 0; c < VAL_CLASSES; c++)
            for (size_t x = 0; x < VAL_CELLS; x++) {
                const val_asked a = {p, (val_class)c, VAL_ALL, x, i, true};
                const val_stat s = val_stat_of(t, &a, 0);
                if (s.n) put_cell(f, s.bias, LEFT + c * PANEL_W + (int)x * CELL_W, y);
            }
        y += CELL_H;
    }
    return (y < top + 2 * CELL_H ? top + 2 * CELL_H : y) + GAP;
}

void val_write_picture(const val_table *t, const char *path)
{
    static const char style[] =
        "<style>text{font:11px sans-serif;fill:#222}.t{font-size:16px}.h{font-weight:bold}.d{fill:#666}"
        ".n{font-size:9px;text-anchor:middle}.c{font-size:9px;text-anchor:middle;fill:#666}.r{text-anchor:"
        "end;fill:#666}"
        ".s{fill:#3573b9}.l{fill:#c8442f}.b{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.b{"
        "fill:#161616}"
        ".d,.c,.r{fill:#999}.s{fill:#5b9be0}.l{fill:#e0644f}}</style>\n";
    val_pair pair[VAL_PAIRS];
    const size_t pairs = val_pairs(pair, t);
    FILE *f = fopen(path, "w");
    int height = TOP;
    if (!f) val_die(path, "cannot be written");
    for (size_t i = 0; i < pairs; i++) {
        bool has[VAL_CELLS];
        const int n = (int)heights_of(has, t, &pair[i]);
        if (n) height += (n < 2 ? 2 : n) * CELL_H + GAP;
    }
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d'>%s<rect class='b' width='100%%' "
            "height='100%%'/>\n",
            LEFT + VAL_CLASSES * PANEL_W, height, style);
    put_head(f);
    int y = TOP;
    for (size_t i = 0; i < pairs; i++) y = put_pair(f, t, &pair[i], y);
    fprintf(f, "</svg>\n");
    if (fclose(f)) val_die(path, "cannot be written");
}
