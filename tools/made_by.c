/* How a result was made. See made_by.h. */
#include "tools/made_by.h"
#include "base/clock.h"
#include "device/forecast.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *commit = "";

void tool_made_by_commit(const char *text) { commit = text; }

void tool_made_by_processor(char ret[128])
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    (void)snprintf(ret, 128, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        const char *name = colon + 1 + strspn(colon + 1, " ");
        (void)snprintf(ret, 128, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    if (f) fclose(f);
}

/* JSON has no other texts than UTF-8, and the name of a file may be any bytes. */
static json_t *text(const char *s)
{
    json_t *t = json_string(s);
    return t ? t : json_string("(not UTF-8)");
}

static void add_option(void *ud, const bt_opt *option, const char *value)
{
    json_t *options = ud, *list = json_object_get(options, option->name);
    if (option->type != BT_OPT_STRINGS) {
        (void)json_object_set_new(options, option->name, text(value));
        return;
    }
    if (!list) (void)json_object_set_new(options, option->name, list = json_array());
    (void)json_array_append_new(list, text(value));
}

/* Selecting kernels may try them, so the table is read instead. */
static const char *best_isa(void)
{
    const bt_kernels *k = bt_kernels_table;
    while (!k->usable()) k++;
    return k->isa;
}

bt_err tool_made_by(json_t **ret, const bt_opt_args *args, const char *isa, bt_fault *fault)
{
    char cpu[128], host[256] = "unknown", date[32] = "";
    const time_t now = (time_t)bt_clock_wall_s();
    struct tm utc;
    char *command = bt_opt_shown_line(args);
    json_t *options = json_object(), *o = NULL;
    tool_made_by_processor(cpu);
    (void)gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &utc)) (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (!isa || strcmp(isa, "auto") == 0) isa = best_isa();
    if (command && options && bt_opt_shown_each(args, add_option, options) == BT_OK)
        o = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:O}", "version", BT_VERSION, "commit",
                      *commit ? json_string(commit) : json_null(), "command", text(command), "date", date,
                      "host", text(host), "cpu", text(cpu), "isa", isa, "options", options);
    free(command);
    json_decref(options);
    if (!o) return bt_fail(fault, BT_ENOMEM, "out of memory for how a result was made");
    *ret = o;
    return BT_OK;
}

void tool_made_by_device(json_t *made_by, const bt_profile *p)
{
    static const char *const standings[] = {BT_STANDING_NAMES};
    json_t *all = json_object_get(made_by, "profiles"), *one;
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(all, i), "name")), p->name) == 0) return;
    if (!all) (void)json_object_set_new(made_by, "profiles", all = json_array());
    one = json_pack("{s:s}", "name", p->name);
    if (p->time.is_given) {
        const bt_standing standing = bt_calibration_standing(&p->time.calibration);
        (void)json_object_set_new(one, "stack", json_string(p->time.stack));
        (void)json_object_set_new(one, "standing", json_string(standings[standing]));
        (void)json_object_set_new(one, "error", bt_forecast_errors_json(p));
    }
    (void)json_array_append_new(all, one);
}

void tool_made_by_profile(json_t *made_by, const char *name)
{
    bt_profile *p = name ? malloc(sizeof *p) : NULL;
    if (p && bt_profile_load(p, name, NULL) == BT_OK) tool_made_by_device(made_by, p);
    free(p);
}
