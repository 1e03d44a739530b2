/* baton profiles: the devices that are built in, with their limits; --json gives their files, sources
 * included. */
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
    .summary = "list the device profiles that are built in",
    .usage = "[options]",
    .normal = "baton profiles",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

/* `others` as the operators that it stands for. */
static json_t *named(json_t *ops)
{
    json_t *all = json_object(), *list;
    const char *name;
    json_object_foreach(ops, name, list) {
        if (strcmp(name, bt_profile_others) != 0) json_object_set(all, name, list);
        for (int k = 0; k < BT_OP_KINDS && !strcmp(name, bt_profile_others); k++)
            if (bt_op_infos[k].is_asked && !json_object_get(ops, bt_op_infos[k].name))
                json_object_set(all, bt_op_infos[k].name, list);
    }
    return all;
}

static int print_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; bt_profile_json(i); i++) {
        json_t *one = json_loads(bt_profile_json(i), 0, NULL);
        json_object_set_new(one, "operators", named(json_object_get(one, "operators")));
        json_array_append_new(list, one);
    }
    return tool_print_json("profiles", json_pack("{s:o}", "profiles", list));
}

/* "8,16,4" for the linears, u8 where zero points are wanted, and the other operators that the NPU runs. */
static void print_operators(const bt_profile *p)
{
    const char *const names[] = {p->input_zero_points == BT_PROFILE_ZERO_WANTED ? "u8" : "8", "16"};
    size_t others = 0;
    char bits[16] = "";
    for (int b = 0; b < 2; b++)
        if (p->op[BT_OP_LINEAR] >> b & 1)
            snprintf(bits + strlen(bits), sizeof bits - strlen(bits), "%s%s", bits[0] ? "," : "", names[b]);
    const uint8_t floats = p->op[BT_OP_LINEAR] & BT_PROFILE_FLOATS;
    if (floats)
        snprintf(bits + strlen(bits), sizeof bits - strlen(bits), "%s%s", bits[0] ? "," : "",
                 floats == BT_PROFILE_FLOAT16 ? "f16" : "bf16");
    for (int k = 0; k < BT_OP_KINDS; k++) others += k != BT_OP_LINEAR && p->op[k];
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

int tool_profiles_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_profiles_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = c.json ? print_json() : print_people();
    bt_opt_done(&args);
    return rc;
}
