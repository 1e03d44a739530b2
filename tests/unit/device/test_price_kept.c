/* Every built-in profile's prices to the nanosecond: a change of terms or of constants shows here, and
 * nowhere unseen. A device with programs runs prompts in them, with weights and inputs of 8 bits, and decodes
 * with weights of 4 bits; a GPU has both in FP16. A row that differs is printed as it is today. */
#include "device/price.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { PROMPTS = 3, BATCHES = 3, CONTEXTS = 2, STEPS = BATCHES * CONTEXTS };
static const uint64_t lengths[PROMPTS] = {1, 256, 2048}, batches[BATCHES] = {1, 8, 128},
                      contexts[CONTEXTS] = {128, 4096};

/* ns of a prompt of each length; of a step of each batch at the first context, then at the second */
typedef struct row {
    const char *profile, *model;
    uint64_t prompt[PROMPTS], step[STEPS];
} row;
static const row table[] = {
    // clang-format off
    {"a100", "smollm2-135m", {8122253, 8335219, 11074598},
     {8123689, 8136193, 8358818, 8168554, 8495108, 14101468}},
    {"a100", "llama-3.1-8b", {15358425, 23858977, 135252944},
     {15366594, 15444026, 17233294, 15621823, 17485857, 49902592}},
    {"adreno-750", "smollm2-135m", {6359190, 45813838, 450940713},
     {6428257, 6986684, 35667346, 8586184, 24250097, 311881956}},
    {"adreno-750", "llama-3.1-8b", {354365319, 2701539534, 22150098607},
     {354758232, 358123957, 1482124816, 367034437, 456333596, 3053479041}},
    {"ane-a17-pro", "smollm2-135m", {3622267, 10443723, 323634799},
     {2067529, 2611060, 13295928, 4474594, 21867577, 321400195}},
    {"ane-a17-pro", "llama-3.1-8b", {197925981, 379806246, 3918870524},
     {111487198, 114579284, 243883034, 125180721, 224127468, 1996653974}},
    {"ane-m1-max", "smollm2-135m", {2447535, 4099125, 37217288},
     {1427761, 1803103, 9042322, 3089992, 15100953, 221807925}},
    {"ane-m1-max", "llama-3.1-8b", {136466055, 236808595, 1888498411},
     {76989005, 79124287, 160639625, 86445254, 154774279, 1371039499}},
    {"ane-m1", "smollm2-135m", {2445406, 5413514, 50628894},
     {1517325, 1855749, 9287223, 3016058, 13845614, 201125062}},
    {"ane-m1", "llama-3.1-8b", {123318827, 308063772, 2484398364},
     {69646316, 71571570, 195534031, 78172442, 139780580, 1286878180}},
    {"ane-m2-ultra", "smollm2-135m", {7349904, 7420704, 52549864},
     {4291083, 5419162, 24757653, 9286860, 45385378, 664217116}},
    {"ane-m2-ultra", "llama-3.1-8b", {410099485, 410636515, 3114589037},
     {231387719, 237805234, 347819765, 259808140, 465168598, 3985633595}},
    {"ane-m4", "smollm2-135m", {2202392, 3518140, 31724108},
     {1321982, 1644542, 7805180, 2750462, 13072382, 190650620}},
    {"ane-m4", "llama-3.1-8b", {117390240, 197285583, 1571461381},
     {66257426, 68092434, 134764831, 74383890, 133104146, 1174952223}},
    {"ane-m5", "smollm2-135m", {1926069, 2129561, 21251763},
     {1121812, 1416724, 7305281, 2427851, 11865035, 174478255}},
    {"ane-m5", "llama-3.1-8b", {107236894, 113557246, 909372786},
     {60491361, 62169083, 137411259, 67921271, 121608362, 1088439732}},
    {"cloud-ai-100-pro", "smollm2-135m", {987055, 1062406, 8258152},
     {573189, 723874, 3307045, 1240508, 6062427, 88723893}},
    {"cloud-ai-100-pro", "llama-3.1-8b", {54809317, 55023624, 420436040},
     {30907995, 31765225, 46460597, 34704299, 62135660, 532387554}},
    {"cloud-ai-100-ultra", "smollm2-135m", {246839, 265677, 2180672},
     {143298, 180969, 826762, 310127, 1515607, 22180974}},
    {"cloud-ai-100-ultra", "llama-3.1-8b", {13702361, 13755938, 106642181},
     {7726999, 7941307, 11615150, 8676075, 15533915, 133096889}},
    {"cloud-ai-100", "smollm2-135m", {987055, 1062406, 8258152},
     {573189, 723874, 3307045, 1240508, 6062427, 88723893}},
    {"cloud-ai-100", "llama-3.1-8b", {54809317, 55023624, 421496860},
     {30907995, 31765225, 46460597, 34704299, 62135660, 532387554}},
    {"h100", "smollm2-135m", {80501, 135407, 1025552},
     {81374, 88981, 219381, 108665, 307304, 3712547}},
    {"h100", "llama-3.1-8b", {4482155, 4938541, 33843854},
     {4487124, 4534232, 5341791, 4642376, 5776246, 25214028}},
    {"h100x4", "smollm2-135m", {296908, 537751, 1586157},
     {297200, 306048, 434199, 306296, 378822, 1598588}},
    {"h100x4", "llama-3.1-8b", {1421745, 2545231, 14921789},
     {1422987, 1471971, 2214746, 1461800, 1782475, 7182805}},
    {"hexagon-v75-int8", "smollm2-135m", {514803274, 515013188, 1402187882},
     {68474517, 68818581, 76901255, 69998229, 81008277, 271936391}},
    {"hexagon-v75-int8", "llama-3.1-8b", {2180673887, 2182299410, 6534538984},
     {142198127, 144155469, 299612402, 150866355, 213501295, 1409145620}},
    {"hexagon-v75-powerserve", "smollm2-135m", {31859064, 32068978, 256923202},
     {7023281, 7399506, 15915770, 8689420, 20728619, 229181578}},
    {"hexagon-v75-powerserve", "llama-3.1-8b", {465724221, 467349744, 3618705158},
     {83133432, 85273734, 237296515, 92611912, 161101577, 1450542001}},
    {"hexagon-v75-vendor", "smollm2-135m", {1988599, 2187408, 22045759},
     {1154807, 1458392, 7576394, 2499258, 12214007, 179666220}},
    {"hexagon-v75-vendor", "llama-3.1-8b", {110424402, 111377250, 893531742},
     {62270519, 63997585, 144591970, 69918956, 125185079, 1123591869}},
    {"hexagon-v75", "smollm2-135m", {514803274, 515013188, 1402187882},
     {68474517, 68818581, 76901255, 69998229, 81008277, 271936391}},
    {"hexagon-v75", "llama-3.1-8b", {2180673887, 2182299410, 6534538984},
     {142198127, 144155469, 299612402, 150866355, 213501295, 1409145620}},
    {"hexagon-v79-aihub", "smollm2-135m", {7371898, 7581812, 62505296},
     {1611170, 2034729, 11189142, 3486931, 17040818, 251286562}},
    {"hexagon-v79-aihub", "llama-3.1-8b", {410504536, 412130059, 3192183969},
     {86878994, 89288574, 236257024, 97549990, 174656545, 1602144570}},
    {"hexagon-v79", "smollm2-135m", {31158758, 31368672, 252352806},
     {6967945, 7329623, 15649763, 8569661, 20143347, 220669353}},
    {"hexagon-v79", "llama-3.1-8b", {426642733, 428268256, 3325203574},
     {80149547, 82207091, 235783230, 89261528, 155102945, 1402116898}},
    {"hexagon-x-elite", "smollm2-135m", {10536488, 10632083, 75174550},
     {2053633, 2593511, 11848556, 4444520, 21720603, 317882034}},
    {"hexagon-x-elite", "llama-3.1-8b", {587710014, 588445478, 4462354242},
     {110737886, 113809189, 166460111, 124339374, 222621093, 1907450567}},
    {"intel-npu3720", "smollm2-135m", {1128403, 6436608, 76543620},
     {654391, 826423, 10393486, 1416247, 6921271, 107911054}},
    {"intel-npu3720", "llama-3.1-8b", {62597235, 384157515, 3245157103},
     {35286628, 36265299, 422357290, 39620742, 70938212, 977123899}},
    {"m2-ultra-gpu", "smollm2-135m", {337093, 3677423, 36506164},
     {340751, 372603, 2640491, 455029, 1286831, 17268126}},
    {"m2-ultra-gpu", "llama-3.1-8b", {18769019, 217808512, 1790787410},
     {18789827, 18987091, 118456013, 19439944, 24188028, 201671004}},
    {"m3-max-14-gpu", "smollm2-135m", {898914, 4766734, 45744757},
     {908667, 993608, 3977631, 1213410, 3431547, 42984658}},
    {"m3-max-14-gpu", "llama-3.1-8b", {50050718, 261286926, 2133531288},
     {50106205, 50632241, 144914190, 51839850, 64501406, 366820834}},
    {"m3-max-gpu", "smollm2-135m", {674185, 4572092, 44517923},
     {681501, 745206, 3589330, 910057, 2573661, 32844600}},
    {"m3-max-gpu", "llama-3.1-8b", {37538038, 259181036, 2122813094},
     {37579654, 37974181, 142509456, 38879888, 48376055, 308939438}},
    {"npu4", "smollm2-135m", {990712, 1450371, 15435914},
     {575288, 726525, 4199929, 1245052, 6084634, 89929659}},
    {"npu4", "llama-3.1-8b", {55010099, 79013452, 645253634},
     {31021211, 31881581, 95782172, 34831421, 62363263, 583489082}},
    {"rtx-4090", "smollm2-135m", {267534, 574610, 4971606},
     {270437, 295717, 729089, 361134, 1021294, 12338323}},
    {"rtx-4090", "llama-3.1-8b", {14896048, 24247506, 192508793},
     {14912562, 15069120, 17752975, 15428528, 19196848, 83796619}},
    {"tpu-v4", "smollm2-135m", {315022, 522721, 4229680},
     {63947, 80758, 432454, 138396, 676346, 9961858}},
    {"tpu-v4", "llama-3.1-8b", {15492078, 26910830, 211887516},
     {3448205, 3543841, 8727309, 3871734, 6932073, 62939029}},
    {"tpu-v5e", "smollm2-135m", {220980, 371601, 3327688},
     {95882, 121088, 635669, 207509, 1014106, 14923957}},
    {"tpu-v5e", "llama-3.1-8b", {10847233, 18881244, 151107934},
     {5170202, 5313597, 12374328, 5805237, 10393878, 93658813}},
    {"tpu-v6e", "smollm2-135m", {112287, 152874, 1205284},
     {47883, 60470, 276260, 103628, 506435, 7411691}},
    {"tpu-v6e", "llama-3.1-8b", {4578757, 6167668, 48135348},
     {2581949, 2653559, 3881160, 2899079, 5190601, 44473839}},
    // clang-format on
};
enum { ROWS = sizeof table / sizeof *table };

static row priced(const bt_profile *p, const char *model)
{
    static const uint32_t rows[] = {32, 64, 128, 256};
    static const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16},
                                 w8 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16},
                                 q4 = {.weight_bits = 4, .input_bits = 16, .kv_elem_bits = 16,
                                       .weight_bytes_permille = 562};
    const bt_dims *s = bt_dims_find(model);
    const bt_price_model m = bt_price_model_of(s, p->companion ? &f16 : &q4);
    row r = {.profile = p->name, .model = model};
    bt_price programs;
    if (!p->companion) assert_int_equal(bt_price_of_dims(&programs, p, s, &w8, rows, 4, NULL), BT_OK);
    for (size_t i = 0; i < PROMPTS; i++) {
        const bt_price_step whole = bt_price_prefill_step(0, lengths[i]);
        r.prompt[i] =
            p->companion ? bt_price_step_of(p, &m, &whole).ns : bt_price_prompt(&programs, lengths[i]).ns;
    }
    for (size_t i = 0; i < STEPS; i++) {
        const bt_price_step step = bt_price_decode_step(batches[i % BATCHES], contexts[i / BATCHES]);
        r.step[i] = bt_price_step_of(p, &m, &step).ns;
    }
    return r;
}

static void print_row(const row *r)
{
    print_message("    {\"%s\", \"%s\", {", r->profile, r->model);
    for (size_t i = 0; i < PROMPTS; i++) print_message("%s%" PRIu64, i ? ", " : "", r->prompt[i]);
    print_message("},\n     {");
    for (size_t i = 0; i < STEPS; i++) print_message("%s%" PRIu64, i ? ", " : "", r->step[i]);
    print_message("}},\n");
}

static const row *row_of(const row *r)
{
    for (size_t i = 0; i < ROWS; i++)
        if (!strcmp(table[i].profile, r->profile) && !strcmp(table[i].model, r->model)) return &table[i];
    return NULL;
}

static void every_profile_has_the_prices_that_the_table_says(void **state)
{
    static const char *const models[] = {"smollm2-135m", "llama-3.1-8b"};
    size_t other = 0;
    bt_profile p;
    (void)state;
    for (size_t i = 0; i < ROWS; i++) { /* groups and stacks of profiles too */
        assert_int_equal(bt_profile_load(&p, table[i].profile, NULL), BT_OK);
        const row r = priced(&p, table[i].model), *want = row_of(&r);
        if (want && !memcmp(r.prompt, want->prompt, sizeof r.prompt) &&
            !memcmp(r.step, want->step, sizeof r.step))
            continue;
        print_row(&r);
        other++;
    }
    for (size_t i = 0; bt_profile_name(i); i++) { /* none without a row */
        assert_int_equal(bt_profile_load(&p, bt_profile_name(i), NULL), BT_OK);
        for (size_t k = 0; p.time.is_given && k < 2; k++) {
            const row r = priced(&p, models[k]);
            if (row_of(&r)) continue;
            print_row(&r);
            other++;
        }
    }
    assert_int_equal(other, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_has_the_prices_that_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
