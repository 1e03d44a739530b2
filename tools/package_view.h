#ifndef BT_TOOLS_PACKAGE_VIEW_H
#define BT_TOOLS_PACKAGE_VIEW_H
#include <jansson.h>
#include <stdbool.h>
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg.h"
#include "npu/lower/sharing.h"

/* The contents of a package, for people and as JSON: compile shows the summary, inspect all of it. */

/* Recipe, sizes, the table of specializations, what falls back. */
void tool_package_print_summary(const bt_pkg *p);
/* Placement of operators, the memory plan, rounding and ranges of scales; with `tensors` a line for each. */
void tool_package_print_details(const bt_pkg *p, bool tensors);
/* The errors of quantisation, worst output first, and a hint at their cause. */
bt_err tool_package_print_errors(const bt_pkg *p, bt_fault *fault);
/* Every head's share and recall in sparse attention, layer by layer. BT_EARG where attention is dense. */
bt_err tool_package_print_heads(const bt_pkg *p, bt_fault *fault);
/* All of a package; NULL when memory is out. */
json_t *tool_package_json(const bt_pkg *p);
/* The part of that object that compile prints too: sizes, specializations[], fallbacks[]. */
json_t *tool_package_summary_json(const bt_pkg *p);

/* The cost of the device's layout, in two lines; nothing where no field of it is given. */
void tool_package_print_layout(const bt_pkg *p);
/* Padding, the KV state of each context, and what each operator of the NPU moves, in the program of
 * tool_package_largest with its longest context. As JSON: layout, on_chip_bytes, resident_bytes, streamed_bytes,
 * spill_bytes, kv_state[], on_chip[]; NULL when memory is out. */
void tool_package_print_plan(const bt_pkg *p);
json_t *tool_package_plan_json(const bt_pkg *p);
/* The padding of one program: bytes between its rows; multiply-accumulates that whole tiles add (npu/lower/plan.h). */
uint64_t tool_package_row_padding(const bt_pkg *p, uint32_t program);
uint64_t tool_package_tile_padding(const bt_pkg *p, uint32_t program);

/* "layer 3 down", "out_norm". Returns ret. */
enum { TOOL_PACKAGE_NAME_BYTES = 40 };
char *tool_package_tensor_name(char ret[TOOL_PACKAGE_NAME_BYTES], const bt_pkg_tensor *t);
char *tool_package_site_name(char ret[TOOL_PACKAGE_NAME_BYTES], const bt_pkg_site *s);

/* Least and greatest of a tensor's numbers of one kind; count 0: the tensor has none. */
typedef struct tool_package_range {
    uint32_t count;
    double lo, hi;
} tool_package_range;
tool_package_range tool_package_scales(const bt_pkg *p, const bt_pkg_tensor *t);
tool_package_range tool_package_mults(const bt_pkg *p, const bt_pkg_tensor *t);
tool_package_range tool_package_shifts(const bt_pkg *p, const bt_pkg_tensor *t);

/* The instructions of one operator in the program of the largest shape, on one unit. */
typedef struct tool_package_place {
    const char *op, *unit;
    uint32_t count, clusters;
    uint64_t macs_per_row;
} tool_package_place;
enum { TOOL_PACKAGE_MAX_PLACES = 64 };
size_t tool_package_placement(tool_package_place ret[TOOL_PACKAGE_MAX_PLACES], const bt_pkg *p);
/* The clusters of that program, in their order: each is one call of the NPU. in_bytes, out_bytes: values that it reads
 * from outside and writes for outside, each once, for the program's rows; the shadow of planes and rows of KV are not
 * in them. macs: for the program's rows, without attention's. Layers: UINT32_MAX outside them. */
typedef struct tool_package_cluster {
    uint32_t id, instructions;
    const char *first, *last; /* names of instructions */
    uint32_t first_layer, last_layer;
    uint64_t macs, in_bytes, out_bytes;
} tool_package_cluster;
/* Returns how many clusters; the caller frees *ret, which is NULL when memory is out. */
size_t tool_package_clusters(tool_package_cluster **ret, const bt_pkg *p);
/* SESSION instructions of a program, and what they cost together. */
typedef struct tool_package_switches {
    uint32_t count;
    uint64_t ns;
} tool_package_switches;
tool_package_switches tool_package_switches_of(const bt_pkg *p, uint32_t program);
/* Programs that hold no instructions of their own but name bodies, bytes of the bodies, and of all programs' lists as
 * they are stored; what the same programs would take each on its own. */
typedef struct tool_package_packing {
    uint32_t packed;
    uint64_t body_bytes, bytes, unpacked_bytes;
} tool_package_packing;
tool_package_packing tool_package_packing_of(const bt_pkg *p);
/* The positions that run in a row whose programs are static in ctx, behind the next smaller ctx of its seq, and the
 * share of columns that are masked there. ctx 0: the row is not static. window_columns: those that attention of window
 * layers has there; 0: no layer has a window. */
typedef struct tool_package_bucket {
    uint32_t first, ctx, window_columns;
    double masked, window_masked;
} tool_package_bucket;
tool_package_bucket tool_package_bucket_of(const bt_pkg *p, uint32_t row);
/* How prompts attend, as npu/pkg/attention.h says it. */
const char *tool_package_attention(char ret[BT_ATTENTION_MAX_TEXT], const bt_pkg *p);
/* The operators on the NPU: "linear", or "all" where other operators are, in integers or in floats. */
const char *tool_package_npu_ops(const bt_pkg *p);
/* Index of the program that the placement and the memory report speak of: the longest seq, logits of the last row. */
uint32_t tool_package_largest(const bt_pkg *p);
/* The savings from running the chunks of a prompt on shared programs, against a program for each chunk. */
enum { TOOL_PACKAGE_SHARING_TOKENS = 1024 };
bt_err tool_package_sharing(bt_sharing *ret, const bt_pkg *p, bt_fault *fault);
/* Bytes of all its values, as if none shared memory with another. */
uint64_t tool_package_values_bytes(const bt_pkg *p, uint32_t program);
#endif
