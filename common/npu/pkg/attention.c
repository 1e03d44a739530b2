/* Attention as text: parsing, with what is wrong named, and the one text of each choice. */
#include "npu/pkg/attention.h"
#include "base/num.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bt_err parse_ratio(bt_attention *a, const char *text, bt_fault *fault)
{
    double ratio;
    if (bt_num_double(&ratio, text, 0, 1, NULL) < 0 || rint(ratio * BT_ATTENTION_ALL_PPM) < 1)
        return bt_fail(fault, BT_EARG, "attention: sparse:%.40s: a ratio above 0, at most 1", text);
    a->ratio_ppm = (uint32_t)rint(ratio * BT_ATTENTION_ALL_PPM);
    return BT_OK;
}

static bt_err parse_choice(bt_attention *a, const char *text, bt_fault *fault)
{
    int64_t rows;
    if (strncmp(text, "dense=", 6) != 0)
        return bt_fail(fault, BT_EARG, "attention: no choice '%.40s' of sparse: dense=N", text);
    if (bt_num_int(&rows, text + 6, 0, BT_MODEL_MAX_CTX, NULL) < 0)
        return bt_fail(fault, BT_EARG, "attention: %.40s: a position from 0 to %d", text, BT_MODEL_MAX_CTX);
    a->dense_rows = (uint32_t)rows;
    return BT_OK;
}

bt_err bt_attention_parse(bt_attention *ret, const char *text, bt_fault *fault)
{
    bt_attention a = {.ratio_ppm = BT_ATTENTION_ALL_PPM / 5, .dense_rows = BT_ATTENTION_DENSE_ROWS};
    char copy[BT_ATTENTION_MAX_TEXT];
    bt_err e = BT_OK;
    if (!text || !strcmp(text, "dense")) {
        *ret = (bt_attention){0};
        return BT_OK;
    }
    if (strlen(text) >= sizeof copy)
        return bt_fail(fault, BT_EARG, "attention: %zu characters, the limit is %zu", strlen(text),
                       sizeof copy - 1);
    strcpy(copy, text);
    char *ratio = strchr(copy, ':'), *choice = ratio ? strchr(ratio, ',') : NULL;
    if (ratio) *ratio++ = 0;
    if (choice) *choice++ = 0;
    if (strcmp(copy, "sparse") != 0)
        return bt_fail(fault, BT_EARG, "attention '%s': dense, or sparse[:RATIO[,dense=N]]", text);
    if (ratio) e = parse_ratio(&a, ratio, fault);
    if (e == BT_OK && choice) e = parse_choice(&a, choice, fault);
    if (e == BT_OK) *ret = a;
    return e;
}

void bt_attention_text(char ret[BT_ATTENTION_MAX_TEXT], const bt_attention *a)
{
    char rows[24] = "";
    if (a->dense_rows != BT_ATTENTION_DENSE_ROWS) snprintf(rows, sizeof rows, ",dense=%u", a->dense_rows);
    if (!a->ratio_ppm) snprintf(ret, BT_ATTENTION_MAX_TEXT, "dense");
    else
        snprintf(ret, BT_ATTENTION_MAX_TEXT, "sparse:%.7g%s", (double)a->ratio_ppm / BT_ATTENTION_ALL_PPM,
                 rows);
}
