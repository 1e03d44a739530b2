/* make validate: what devices are modelled to take beside what others measured.
 *
 *   validate [--profile FILE]... [--predictions | --json | --split | --write DIR] TABLE.csv...
 *
 * Without a mode, the results beside the goals. --predictions: a line a row, modelled and measured. --split:
 * what is held out. --profile FILE stands in place of the built-in profile with its name. */
#include "tests/validate/validate.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    val_table t = {.row = NULL};
    const char *mode = "", *dir = NULL;
    const char *device = NULL, *requests = NULL;
    val_served served;
    bool has_own = false;
    size_t kept = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--profile") && i + 1 < argc) val_use_profile(argv[++i]), has_own = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc) device = argv[++i];
        else if (!strcmp(argv[i], "--write") && i + 1 < argc) dir = argv[++i];
        else if (strstr(argv[i], "_requests.csv")) requests = argv[i];
        else if (!strncmp(argv[i], "--", 2)) mode = argv[i];
        else val_read(&t, argv[i]);
    }
    if (!strcmp(mode, "--split")) {
        val_print_split();
        return 0;
    }
    if (!t.len) {
        fprintf(stderr, "usage: validate [--profile FILE] [--device NAME] [--predictions | --json | --split "
                        "| --write DIR] TABLE.csv...\n");
        return 2;
    }
    for (size_t i = 0; i < t.len; i++)
        if (!device || !strcmp(t.row[i].device, device)) t.row[kept++] = t.row[i];
    t.len = kept;
    for (size_t i = 0; i < t.len; i++) val_price(&t.row[i]);
    val_set_apart(&t);
    if (!strcmp(mode, "--predictions")) val_show_predictions(&t);
    else if (dir) val_keep(&t, dir);
    else val_show(&t);
    if (!*mode && !dir && requests) {
        (void)val_serve(&served, requests);
        val_show_served(&served);
    }
    return !dir && !*mode && !has_own && !val_is_kept(&t);
}
