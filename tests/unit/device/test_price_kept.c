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
    {"a100", "smollm2-135m", {162718, 516393, 2702882},
     {164488, 176976, 391059, 219793, 619414, 7470075}},
    {"a100", "llama-3.1-8b", {9079742, 32717873, 138364532},
     {9089812, 9160856, 18807839, 9404435, 11677839, 50650483}},
    {"adreno-750", "smollm2-135m", {6353975, 43168272, 441629598},
     {6423095, 6910749, 27078366, 8582704, 24187619, 291700453}},
    {"adreno-750", "llama-3.1-8b", {354556681, 2735082579, 22607677044},
     {354949900, 357724107, 1469526724, 367235674, 456010304, 1977861092}},
    {"ane-a17-pro", "smollm2-135m", {3622267, 10443723, 323634799},
     {1533727, 1936927, 8848927, 3319327, 16221727, 237405727}},
    {"ane-a17-pro", "llama-3.1-8b", {197925981, 379806246, 3918870524},
     {82703033, 84996793, 188179668, 92861113, 166261433, 1424552633}},
    {"ane-m1-max", "smollm2-135m", {2447535, 4099125, 37217288},
     {196318, 247927, 2250590, 424874, 2076382, 30387934}},
    {"ane-m1-max", "llama-3.1-8b", {136466055, 236808595, 1888498411},
     {10585989, 10879590, 122138133, 11886223, 21281464, 182342737}},
    {"ane-m1", "smollm2-135m", {2445406, 5413514, 50628894},
     {1380576, 1683050, 6868316, 2720103, 12399267, 178327776}},
    {"ane-m1", "llama-3.1-8b", {123318827, 308063772, 2484398364},
     {62272422, 63993162, 161045208, 69892842, 124956526, 1068905382}},
    {"ane-m2-ultra", "smollm2-135m", {7349904, 7420704, 52549864},
     {98159, 123964, 1125296, 212437, 1038191, 15193967}},
    {"ane-m2-ultra", "llama-3.1-8b", {410099485, 410636515, 3114589037},
     {5292995, 5439795, 61069067, 5943112, 10640732, 91171369}},
    {"ane-m4", "smollm2-135m", {2202392, 3518140, 31724108},
     {749391, 921423, 3870543, 1511247, 7016271, 101388111}},
    {"ane-m4", "llama-3.1-8b", {117390240, 197285583, 1571461381},
     {35381628, 36360299, 101662500, 39715742, 71033212, 607904124}},
    {"ane-m5", "smollm2-135m", {1926069, 2129561, 21251763},
     {513248, 648175, 2961210, 1110782, 5428448, 79445577}},
    {"ane-m5", "llama-3.1-8b", {107236894, 113557246, 909372786},
     {27675786, 28443372, 107210139, 31075092, 55637813, 476713038}},
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
    {"h100", "smollm2-135m", {80294, 82048, 586145},
     {81167, 87330, 192970, 108458, 305653, 3686136}},
    {"h100", "llama-3.1-8b", {4480433, 4490410, 30005562},
     {4485402, 4520459, 5121433, 4640654, 5762473, 24993670}},
    {"h100x4", "smollm2-135m", {1820434, 1879552, 2418497},
     {1820652, 1823993, 1877763, 1827475, 1878574, 2751054}},
    {"h100x4", "llama-3.1-8b", {3042029, 3490347, 13000656},
     {3043271, 3064323, 3424231, 3082084, 3374827, 8392290}},
    {"hexagon-v75-int8", "smollm2-135m", {514803274, 515013188, 1402187882},
     {68474517, 68818581, 74716821, 69998229, 81008277, 269751957}},
    {"hexagon-v75-int8", "llama-3.1-8b", {2180673887, 2182299410, 6534538984},
     {142198127, 144155469, 264680345, 150866355, 213501295, 1287243119}},
    {"hexagon-v75-powerserve", "smollm2-135m", {31859064, 32068978, 256923202},
     {7023281, 7399506, 13849077, 8689420, 20728619, 227114885}},
    {"hexagon-v75-powerserve", "llama-3.1-8b", {465724221, 467349744, 3618705158},
     {83133432, 85273734, 199018901, 92611912, 161101577, 1335210112}},
    {"hexagon-v75-vendor", "smollm2-135m", {1988599, 2187408, 22045759},
     {1154807, 1458392, 6662722, 2499258, 12214007, 178752548}},
    {"hexagon-v75-vendor", "llama-3.1-8b", {110424402, 111377250, 893531742},
     {62270519, 63997585, 113516618, 69918956, 125185079, 1072604335}},
    {"hexagon-v75", "smollm2-135m", {514803274, 515013188, 1402187882},
     {68474517, 68818581, 74716821, 69998229, 81008277, 269751957}},
    {"hexagon-v75", "llama-3.1-8b", {2180673887, 2182299410, 6534538984},
     {142198127, 144155469, 264680345, 150866355, 213501295, 1287243119}},
    {"hexagon-v79-aihub", "smollm2-135m", {7371898, 7581812, 62505296},
     {1611170, 2034729, 9295740, 3486931, 17040818, 249393160}},
    {"hexagon-v79-aihub", "llama-3.1-8b", {410504536, 412130059, 3192183969},
     {86878994, 89288574, 193055473, 97549990, 174656545, 1496483202}},
    {"hexagon-v79", "smollm2-135m", {31158758, 31368672, 252352806},
     {6967945, 7329623, 13529812, 8569661, 20143347, 218549402}},
    {"hexagon-v79", "llama-3.1-8b", {426642733, 428268256, 3325203574},
     {80149547, 82207091, 199018901, 89261528, 155102945, 1283812946}},
    {"hexagon-x-elite", "smollm2-135m", {10536488, 10632083, 75174550},
     {2053633, 2593511, 11848556, 4444520, 21720603, 317882034}},
    {"hexagon-x-elite", "llama-3.1-8b", {587710014, 588445478, 4462354242},
     {110737886, 113809189, 166460111, 124339374, 222621093, 1907450567}},
    {"intel-npu3720", "smollm2-135m", {1128403, 6436608, 76543620},
     {654391, 826423, 7486172, 1416247, 6921271, 101293111}},
    {"intel-npu3720", "llama-3.1-8b", {62597235, 384157515, 3245157103},
     {35286628, 36265299, 406270000, 39620742, 70938212, 607809124}},
    {"m2-ultra-gpu", "smollm2-135m", {336229, 3422232, 35010867},
     {339887, 365691, 2146680, 454165, 1279919, 15435695}},
    {"m2-ultra-gpu", "llama-3.1-8b", {18761810, 216827880, 1792258374},
     {18782618, 18929419, 116498992, 19432735, 24130356, 132574524}},
    {"m3-max-14-gpu", "smollm2-135m", {896610, 3992154, 40841409},
     {906363, 975176, 2504177, 1211106, 3413115, 41161851}},
    {"m3-max-14-gpu", "llama-3.1-8b", {50031494, 252937356, 2090732501},
     {50086981, 50478449, 135900176, 51820626, 64347614, 279095979}},
    {"m3-max-gpu", "smollm2-135m", {672457, 3992154, 40841409},
     {679773, 731382, 2504177, 908329, 2559837, 30871389}},
    {"m3-max-gpu", "llama-3.1-8b", {37523620, 252937356, 2090732501},
     {37565236, 37858837, 135900176, 38865470, 48260711, 209321984}},
    {"npu4", "smollm2-135m", {990712, 1450371, 15435914},
     {575288, 726525, 3319158, 1245052, 6084634, 89048888}},
    {"npu4", "llama-3.1-8b", {55010099, 79013452, 645253634},
     {31021211, 31881581, 80407604, 34831421, 62363263, 534337691}},
    {"rtx-4090", "smollm2-135m", {266848, 343236, 3511432},
     {269751, 290231, 641317, 360448, 1015808, 12250551}},
    {"rtx-4090", "llama-3.1-8b", {14890326, 21746855, 179755398},
     {14906840, 15023348, 17020636, 15422806, 19151076, 83064280}},
    {"tpu-v4", "smollm2-135m", {315022, 522721, 4229680},
     {63947, 80758, 368946, 138396, 676346, 9898350}},
    {"tpu-v4", "llama-3.1-8b", {15492078, 26910830, 211887516},
     {3448205, 3543841, 7009745, 3871734, 6932073, 59395029}},
    {"tpu-v5e", "smollm2-135m", {220980, 371601, 3327688},
     {95882, 121088, 553193, 207509, 1014106, 14841482}},
    {"tpu-v5e", "llama-3.1-8b", {10847233, 18881244, 151107934},
     {5170202, 5313597, 9795851, 5805237, 10393878, 89056282}},
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
                                 q4 = {.weight_bits = 4,
                                       .input_bits = 16,
                                       .kv_elem_bits = 16,
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
    size_t seen = 0, other = 0;
    bt_profile p;
    (void)state;
    for (size_t i = 0; bt_profile_name(i); i++)
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(bt_profile_load(&p, bt_profile_name(i), NULL), BT_OK);
            if (!p.time.is_given) continue;
            const row r = priced(&p, models[k]), *want = row_of(&r);
            seen++;
            if (want && !memcmp(r.prompt, want->prompt, sizeof r.prompt) &&
                !memcmp(r.step, want->step, sizeof r.step))
                continue;
            print_row(&r);
            other++;
        }
    assert_int_equal(other, 0);
    assert_int_equal(seen, ROWS); /* no row without a profile */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_has_the_prices_that_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
