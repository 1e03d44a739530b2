/* make validate: what devices are modelled to take beside what others measured.
 *
 *   validate [options] [--predictions | --json | --split | --terms | --fit NAME | --write DIR] TABLE.csv...
 *
 * Without a mode, the results beside the goals, and whether the built-in profiles keep what is computed; exit
 * 1 where one does not.
 *
 *   --predictions     a line a row, measured and modelled      --json       the results as one object
 *   --split           what is held out                         --terms      errors with one term switched off
 *   --fit DEVICE@STACK   its constants, fitted anew on the rows that calibrate it
 *   --write DIR       the object `calibration` of each device and stack, into DIR/NAME.json
 *   --profile FILE    in place of the built-in profile with its name; what profiles keep is not compared then
 *   --device NAME     its rows alone                            --picture FILE.svg   signed errors */
#include "tests/validate/validate.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *mode, *dir, *picture, *device, *requests, *fit;
    bool has_own;
} wish;

static void read_arguments(wish *w, val_table *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (next && !strcmp(a, "--profile")) val_use_profile(argv[++i]), w->has_own = true;
        else if (next && !strcmp(a, "--device")) w->device = argv[++i];
        else if (next && !strcmp(a, "--write")) w->dir = argv[++i];
        else if (next && !strcmp(a, "--fit")) w->fit = argv[++i];
        else if (next && !strcmp(a, "--picture")) w->picture = argv[++i];
        else if (!strcmp(a, "--json") || !strcmp(a, "--split") || !strcmp(a, "--predictions") ||
                 !strcmp(a, "--terms"))
            w->mode = a;
        else if (!strncmp(a, "--", 2)) val_die(a, "no such option");
        else if (strstr(a, "_requests.csv")) w->requests = a;
        else val_read(t, a);
    }
}

int main(int argc, char **argv)
{
    val_table t = {.row = NULL};
    val_served served;
    wish w = {.mode = ""};
    size_t kept = 0;
    read_arguments(&w, &t, argc, argv);
    if (!strcmp(w.mode, "--split")) {
        val_print_split();
        return 0;
    }
    if (!t.len) {
        fprintf(
            stderr,
            "usage: validate [--profile FILE] [--device NAME] [--picture FILE.svg] "
            "[--predictions | --json | --split | --terms | --fit DEVICE@STACK | --write DIR] TABLE.csv...\n");
        return 2;
    }
    for (size_t i = 0; i < t.len; i++)
        if (!w.device || !strcmp(t.row[i].device, w.device)) t.row[kept++] = t.row[i];
    t.len = kept;
    for (size_t i = 0; i < t.len; i++) val_price(&t.row[i]);
    val_set_apart(&t);
    if (w.picture) val_write_picture(&t, w.picture);
    if (w.fit) {
        val_fit(&t, w.fit);
        return 0;
    }
    if (w.dir) val_keep(&t, w.dir);
    if (!strcmp(w.mode, "--predictions")) val_show_predictions(&t);
    if (!strcmp(w.mode, "--terms")) val_show_terms(&t);
    if (w.dir || !strcmp(w.mode, "--predictions") || !strcmp(w.mode, "--terms")) return 0;
    if (w.requests) val_serve(&served, w.requests);
    if (!strcmp(w.mode, "--json")) {
        val_show_json(&t, w.requests ? &served : NULL);
        return 0;
    }
    val_show(&t);
    if (w.requests) val_show_served(&served);
    return !w.has_own && !val_is_kept(&t, !w.device);
}
