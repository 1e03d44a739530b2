/* baton profiles: the devices that are built in, with their limits; of one, its stacks and on what measured
 * rows their constants stand. --json gives their files, sources included. */
#include "base/num.h"
#include "device/profile.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct config {
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: profiles[], each as its file, with the source of every value"},
};

const bt_opt_program tool_profiles_program = {
    .name = "baton profiles",
    .summary = "list the device profiles that are built in, or show the stacks and errors of one",
    .usage = "[DEVICE] [options]",
    .normal = "baton profiles h100",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "DEVICE",
};

/* `others` as the classes that it stands for. */
static json_t *named(json_t *ops)
{
    json_t *all = json_object(), *list;
    const char *name;
    json_object_foreach(ops, name, list) {
        if (strcmp(name, bt_profile_others) != 0) json_object_set(all, name, list);
        for (int c = BT_CLASS_EDGE + 1; c < BT_OP_CLASSES && !strcmp(name, bt_profile_others); c++)
            if (!json_object_get(ops, bt_op_class_name((bt_op_class)c)))
                json_object_set(all, bt_op_class_name((bt_op_class)c), list);
    }
    return all;
}

static int print_files(json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        json_object_set_new(one, "operators", named(json_object_get(one, "operators")));
    return tool_print_json("profiles", json_pack("{s:o}", "profiles", list));
}

static int print_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; bt_profile_json(i); i++)
        json_array_append_new(list, json_loads(bt_profile_json(i), 0, NULL));
    return print_files(list);
}

static int print_json_of(const char *device)
{
    json_t *list = json_array();
    char path[BT_PROFILE_PATH_BYTES];
    const char *text = bt_profile_file(path, device);
    json_array_append_new(list, text ? json_loads(text, 0, NULL) : json_load_file(path, 0, NULL));
    return print_files(list);
}

/* "8,16,4" for the linears, u8 where zero points are wanted, and the other operators that the NPU runs. */
static void print_operators(const bt_profile *p)
{
    const char *const names[] = {p->input_zero_points == BT_PROFILE_ZERO_WANTED ? "u8" : "8", "16"};
    size_t others = 0;
    bool has[BT_OP_CLASSES] = {false};
    char bits[16] = "";
    for (int b = 0; b < 2; b++)
        if (p->op[BT_OP_LINEAR] >> b & 1)
            snprintf(bits + strlen(bits), sizeof bits - strlen(bits), "%s%s", bits[0] ? "," : "", names[b]);
    const uint8_t floats = p->op[BT_OP_LINEAR] & BT_PROFILE_FLOATS;
    if (floats)
        snprintf(bits + strlen(bits), sizeof bits - strlen(bits), "%s%s", bits[0] ? "," : "",
                 floats == BT_PROFILE_FLOAT16 ? "f16" : "bf16");
    for (int k = 0; k < BT_OP_KINDS; k++)
        if (p->op[k]) has[bt_op_infos[k].class] = true;
    for (int c = BT_CLASS_LINEAR + 1; c < BT_OP_CLASSES; c++) others += has[c];
    printf("  %-7s  %-7s  %6zu", bits[0] ? bits : "-", p->op[BT_OP_LINEAR] & BT_PROFILE_INT4 ? "8,4" : "8",
           others);
}

static void print_size(uint64_t bytes)
{
    char text[32] = "-";
    if (bytes) bt_num_size_text(text, sizeof text, bytes);
    printf("  %10s", text);
}

/* Companions have no programs, so no limits of programs. */
static int print_companions(void)
{
    bool is_first = true;
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        bt_fault fault;
        if (bt_profile_load(&p, bt_profile_name(i), &fault) < 0) return tool_fail("profiles", &fault);
        if (!p.companion) continue;
        if (is_first) printf("\ncompanions, which run what an NPU leaves; nothing is compiled for them\n");
        is_first = false;
        printf("%-22s  %s\n", p.name, p.title);
    }
    return bt_opt_flush() != 0;
}

static int print_people(void)
{
    printf("%-22s  %-7s  %-7s  %6s  %9s  %10s  %10s  %10s  %6s  %6s  %6s  %s\n", "profile", "inputs",
           "weights", "others", "tile", "on chip", "window", "memory", "align", "shapes", "ranges", "device");
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        bt_fault fault;
        char tile[32] = "-", align[16] = "-", shapes[16] = "-";
        if (bt_profile_load(&p, bt_profile_name(i), &fault) < 0) return tool_fail("profiles", &fault);
        if (p.companion) continue;
        if (p.tile_rows) snprintf(tile, sizeof tile, "%ux%u", (unsigned)p.tile_rows, (unsigned)p.tile_cols);
        if (p.last_axis_align_bytes) snprintf(align, sizeof align, "%u B", (unsigned)p.last_axis_align_bytes);
        if (p.max_shapes) snprintf(shapes, sizeof shapes, "%u", (unsigned)p.max_shapes);
        printf("%-22s", p.name);
        print_operators(&p);
        printf("  %9s", tile);
        print_size(p.on_chip_bytes);
        print_size(p.map_window_bytes);
        print_size(p.memory_bytes);
        printf("  %6s  %6s  %6s  %s\n", align, shapes, p.range_shapes ? "yes" : "no", p.title);
    }
    return print_companions();
}

/* ---- one device ---- */

static void print_error(const bt_calibration *c, bt_figure figure)
{
    char text[32] = "-";
    if (c->error[figure].rows)
        snprintf(text, sizeof text, "%.1f, %.1f %%", c->error[figure].median_permille / 10.0,
                 c->error[figure].worst_permille / 10.0);
    printf("  %14s", text);
}

static void print_stack(const bt_profile_time *t)
{
    static const char *const standing[] = {BT_STANDING_NAMES};
    const bt_calibration *c = &t->calibration;
    printf("%-22s  %-10s  %6" PRIu32 "  %6" PRIu32 "  %9" PRIu32 "  %8" PRIu32, t->stack,
           standing[bt_calibration_standing(c)], c->rows, c->shapes, c->constants, c->borrowed);
    for (int f = 0; f < BT_FIGURES; f++) print_error(c, (bt_figure)f);
    printf("  %s\n", *c->on ? c->on : "its data sheet");
}

static void print_region(const bt_profile_time *t)
{
    static const char *const axis[] = {BT_AXIS_NAMES};
    const char *before = "  measured: ";
    for (int a = 0; a < BT_AXES; a++) {
        if (!t->calibration.region[a].hi) continue;
        printf("%s%s %" PRIu32 " to %" PRIu32, before, axis[a], t->calibration.region[a].lo,
               t->calibration.region[a].hi);
        before = ", ";
    }
    if (*before == ',') printf("\n");
}

static bt_err print_one(const char *device, const bt_profile *p, bt_fault *fault)
{
    char with[400], base[300];
    printf("%s: %s\n", p->name, p->title);
    if (p->time.sizes) {
        printf("groups:");
        for (uint32_t i = 0; i < p->time.sizes; i++) printf(" x%" PRIu32, p->time.group_size[i]);
        printf("\n");
    }
    if (!p->time.is_given) {
        printf("no times: nothing on it can be priced\n");
        return BT_OK;
    }
    printf("\n%-22s  %-10s  %6s  %6s  %9s  %8s  %14s  %14s  %14s  %s\n", "stack", "times are", "rows",
           "shapes", "constants", "borrowed", "TTFT error", "TPOT error", "energy error", "measured on");
    (void)snprintf(base, sizeof base, "%.*s", (int)strcspn(device, "@"), device);
    for (uint32_t i = 0; i <= p->stacks; i++) {
        bt_profile of;
        (void)snprintf(with, sizeof with, "%s@%s", base, i ? p->stack[i - 1] : p->first_stack);
        const bt_err e = bt_profile_load(&of, with, fault);
        if (e < 0) return e;
        print_stack(&of.time);
        print_region(&of.time);
    }
    printf("\nerrors: median, worst, of rows that fitted no constant\n");
    return BT_OK;
}

static int print_device(const char *device, bool json)
{
    bt_profile p;
    bt_fault fault = {""};
    bt_err e = bt_profile_load(&p, device, &fault);
    if (e == BT_OK && json) return print_json_of(device);
    if (e == BT_OK) e = print_one(device, &p, &fault);
    return e < 0 ? tool_fail("profiles", &fault) : bt_opt_flush() != 0;
}

int tool_profiles_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_profiles_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = args.count ? print_device(args.args[0], c.json) : c.json ? print_json() : print_people();
    bt_opt_done(&args);
    return rc;
}
