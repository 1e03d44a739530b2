/* Attention as text: parsing, with faults that name what is wrong, and the one text of each attention. */
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
        return bt_fail(fault, BT_EARG, "attention: sparse:%.40s is no ratio above 0 and at most 1", text);
    a->ratio_ppm = (uint32_t)rint(ratio * BT_ATTENTION_ALL_PPM);
    return BT_OK;
}

static bt_err parse_choice(bt_attention *a, const char *text, bt_fault *fault)
{
    const char *is = strchr(text, '=');
    int64_t n = 0;
    const bool is_dense = !strncmp(text, "dense=", 6), is_rows = !strncmp(text, "rows=", 5);
    if (!strcmp(text, "group")) a->is_group = 1;
    else if (!is_dense && !is_rows)
        return bt_fail(fault, BT_EARG, "attention: sparse has no choice '%.40s', only dense=N, rows=N, group",
                       text);
    else if (bt_num_int(&n, is + 1, is_dense ? 0 : 1,
                        is_dense ? BT_MODEL_MAX_CTX : 1 << BT_ATTENTION_MAX_ROWS_LOG2, NULL) < 0 ||
             (is_rows && (n & (n - 1))))
        return is_dense ? bt_fail(fault, BT_EARG, "attention: %.40s is no position from 0 to %d", text,
                                  BT_MODEL_MAX_CTX)
                        : bt_fail(fault, BT_EARG, "attention: %.40s is none of 1, 2, 4, 8 and 16 rows", text);
    else *(is_dense ? &a->dense_rows : &a->rows) = (uint32_t)n;
    return BT_OK;
}

bt_err bt_attention_parse(bt_attention *ret, const char *text, bt_fault *fault)
{
    bt_attention a = {.ratio_ppm = BT_ATTENTION_ALL_PPM / 5, .dense_rows = BT_ATTENTION_DENSE_ROWS,
                      .rows = 1};
    char copy[BT_ATTENTION_MAX_TEXT];
    bt_err e = BT_OK;
    if (!text || !strcmp(text, "dense")) {
        *ret = (bt_attention){0};
        return BT_OK;
    }
    if (strlen(text) >= sizeof copy)
        return bt_fail(fault, BT_EARG, "attention: the choice has %zu characters; at most %zu are allowed",
                       strlen(text), sizeof copy - 1);
    strcpy(copy, text);
    char *ratio = strchr(copy, ':'), *choice = ratio ? strchr(ratio, ',') : NULL;
    if (ratio) *ratio++ = 0;
    if (choice) *choice++ = 0;
    if (strcmp(copy, "sparse") != 0)
        return bt_fail(fault, BT_EARG, "attention '%s': dense, or " BT_ATTENTION_FORM, text);
    if (ratio) e = parse_ratio(&a, ratio, fault);
    for (char *next; e == BT_OK && choice; choice = next) {
        next = strchr(choice, ',');
        if (next) *next++ = 0;
        e = parse_choice(&a, choice, fault);
    }
    if (e == BT_OK) *ret = a;
    return e;
}

void bt_attention_text(char ret[BT_ATTENTION_MAX_TEXT], const bt_attention *a)
{
    char dense[18] = "", rows[17] = "";
    if (a->dense_rows != BT_ATTENTION_DENSE_ROWS) snprintf(dense, sizeof dense, ",dense=%u", a->dense_rows);
    if (a->rows > 1) snprintf(rows, sizeof rows, ",rows=%u", a->rows);
    if (!a->ratio_ppm) snprintf(ret, BT_ATTENTION_MAX_TEXT, "dense");
    else
        snprintf(ret, BT_ATTENTION_MAX_TEXT, "sparse:%.7g%s%s%s", (double)a->ratio_ppm / BT_ATTENTION_ALL_PPM,
                 dense, rows, a->is_group ? ",group" : "");
}

bt_attention bt_attention_of(const bt_pkg_header *h)
{
    if (!h->sparse_ppm) return (bt_attention){0};
    return (bt_attention){h->sparse_ppm, h->sparse_dense_rows, 1u << h->sparse_rows_log2, h->sparse_group};
}
