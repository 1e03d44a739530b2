/* The table of cores, and the row of this machine. Families and models are those by which the Linux kernel
 * (6.10 and later) distinguishes AMD's generations of Zen and names Intel's processors. */
#include "kernels/cores.h"
#include "kernels/cores_trial.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { ZEN3, ZEN4, ZEN5, INTEL_SERVER, INTEL_CLIENT, OTHER };
const bt_cores_row bt_cores_table[] = {
    [ZEN3] = {"zen3", "AMD Zen 3", {1024, 8}},
    [ZEN4] = {"zen4", "AMD Zen 4", {0}},
    [ZEN5] = {"zen5", "AMD Zen 5", {0}},
    [INTEL_SERVER] = {"intel-server", "Intel with AVX-512", {0}},
    [INTEL_CLIENT] = {"intel-client", "Intel with AVX-VNNI", {0}},
    [OTHER] = {"other", "no core that the table names", {0}},
};
const size_t bt_cores_table_len = sizeof bt_cores_table / sizeof bt_cores_table[0];

/* Models first .. last of a family. Intel's models have no order; bt_cores_of takes an Intel model without an
 * entry by its instruction sets. */
static const struct {
    const char *vendor;
    uint32_t family, first, last;
    int row;
} models[] = {
    {"AuthenticAMD", 0x19, 0x00, 0x0f, ZEN3},
    {"AuthenticAMD", 0x19, 0x20, 0x5f, ZEN3},
    {"AuthenticAMD", 0x19, 0x10, 0x1f, ZEN4},
    {"AuthenticAMD", 0x19, 0x60, 0xaf, ZEN4},
    {"AuthenticAMD", 0x1a, 0x00, 0x2f, ZEN5},
    {"AuthenticAMD", 0x1a, 0x40, 0x4f, ZEN5},
    {"AuthenticAMD", 0x1a, 0x60, 0x7f, ZEN5},
    {"GenuineIntel", 6, 0x55, 0x55, INTEL_SERVER}, /* Skylake */
    {"GenuineIntel", 6, 0x6a, 0x6a, INTEL_SERVER},
    {"GenuineIntel", 6, 0x6c, 0x6c, INTEL_SERVER}, /* Ice Lake */
    {"GenuineIntel", 6, 0x8f, 0x8f, INTEL_SERVER},
    {"GenuineIntel", 6, 0xcf, 0xcf, INTEL_SERVER}, /* Sapphire */
    {"GenuineIntel", 6, 0xad, 0xae, INTEL_SERVER}, /* Granite */
    {"GenuineIntel", 6, 0x97, 0x97, INTEL_CLIENT},
    {"GenuineIntel", 6, 0x9a, 0x9a, INTEL_CLIENT}, /* Alder */
    {"GenuineIntel", 6, 0xb7, 0xb7, INTEL_CLIENT},
    {"GenuineIntel", 6, 0xba, 0xba, INTEL_CLIENT}, /* Raptor */
    {"GenuineIntel", 6, 0xbf, 0xbf, INTEL_CLIENT},
    {"GenuineIntel", 6, 0xaa, 0xaa, INTEL_CLIENT}, /* Meteor */
    {"GenuineIntel", 6, 0xac, 0xac, INTEL_CLIENT},
    {"GenuineIntel", 6, 0xb5, 0xb5, INTEL_CLIENT}, /* Arrow */
    {"GenuineIntel", 6, 0xc5, 0xc6, INTEL_CLIENT},
    {"GenuineIntel", 6, 0xbd, 0xbd, INTEL_CLIENT}, /* Lunar */
};

const bt_cores_row *bt_cores_of(const bt_cores_id *id)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(id->vendor, models[i].vendor) && id->family == models[i].family &&
            id->model >= models[i].first && id->model <= models[i].last)
            return &bt_cores_table[models[i].row];
    if (!strcmp(id->vendor, "GenuineIntel") && id->has_avx512) return &bt_cores_table[INTEL_SERVER];
    if (!strcmp(id->vendor, "GenuineIntel") && id->has_avxvnni) return &bt_cores_table[INTEL_CLIENT];
    return &bt_cores_table[OTHER];
}

const bt_cores_row *bt_cores_named(const char *name)
{
    for (size_t i = 0; i < bt_cores_table_len; i++)
        if (!strcmp(name, bt_cores_table[i].name)) return &bt_cores_table[i];
    return NULL;
}

bt_cores_id bt_cores_id_here(void)
{
    bt_cores_id id = {.vendor = ""};
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(id.vendor, &b, 4), memcpy(id.vendor + 4, &d, 4), memcpy(id.vendor + 8, &c, 4);
    }
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        const uint32_t family = a >> 8 & 15, model = a >> 4 & 15;
        id.family = family == 15 ? family + (a >> 20 & 255) : family;
        id.model = family == 15 || family == 6 ? model | (a >> 12 & 0xf0) : model;
    }
    id.has_avx512 = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512F;
    id.has_avxvnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
#endif
    return id;
}

/* ---- the choices in use ---- */
static const bt_cores_row *used = &bt_cores_table[OTHER];
static bool is_tried;

void bt_cores_use(const bt_cores_row *row, const bt_cores_trial *trial)
{
    const bt_cores_choice known = row->choice;
    bt_cores_now = bt_cores_table[ZEN3].choice;
    is_tried = trial->matmul8 && (!known.ahead || !known.copy_rows) && bt_cores_try(trial);
    if (known.ahead) bt_cores_now.ahead = known.ahead;
    if (known.copy_rows) bt_cores_now.copy_rows = known.copy_rows;
    used = row;
}

const bt_cores_row *bt_cores_used(void) { return used; }

void bt_cores_why(char ret[BT_CORES_WHY_BYTES])
{
    const char *open = is_tried ? "trial" : "as on Zen 3";
    snprintf(ret, BT_CORES_WHY_BYTES, "%s: ahead %u (%s), copy from %u rows (%s)", used->name,
             (unsigned)bt_cores_now.ahead, used->choice.ahead ? "table" : open,
             (unsigned)bt_cores_now.copy_rows, used->choice.copy_rows ? "table" : open);
}
