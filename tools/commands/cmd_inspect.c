/* baton inspect: what is in a model file, with the table of shapes that would be compiled for it; or what
 * is in a package. */
#include "base/err.h"
#include "base/num.h"
#include "base/wait.h"
#include "engine/host_shapes.h"
#include "engine/names.h"
#include "engine/needs.h"
#include "graph/graph.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/options.h"
#include "model/quant.h"
#include "model/templates.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "tools/options.h"
#include "tools/package_view.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory that serving and compiling a model would take on this machine, by process, from the sizes in its
 * header; and the bytes that each token reads, which bound how fast tokens can come. */
typedef struct inspect_memory {
    const bt_model *model;
    const char *shape_policy;
    size_t ctx_tokens;     /* 0: the model's */
    size_t threads;        /* 0: all cores */
    double bandwidth_gb_s; /* of the machine's memory */
} inspect_memory;

enum { FORMS = 3, GATEWAY = 0, PREFILL, DECODE };

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *process_json(const char *name, const char *weights, const bt_needs *n)
{
    json_t *o = json_pack("{s:s, s:s?}", "process", name, "weights", weights);
    for (int i = 0; o && i < BT_NEEDS_PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_bytes", i == BT_NEEDS_KV ? "kv" : bt_needs_names[i]);
        json_object_set_new(o, key, count(n->part[i]));
    }
    json_object_set_new(o, "bytes", count(bt_needs_sum(n)));
    return o;
}

/* Decoding with one form: its process, all three processes together, and a token. */
static bt_err add_form(json_t *memory, const inspect_memory *c, bt_needs n[3], const bt_needs_want *decode,
                       bt_fault *fault)
{
    const char *form = bt_weights_forms[decode->weights];
    uint64_t step;
    bt_err e = bt_needs_of(&n[DECODE], c->model, decode, fault);
    if (e == BT_OK) e = bt_weights_bytes_of_step(&step, c->model, decode->weights, fault);
    if (e != BT_OK) return e;
    const uint64_t full = step + n[DECODE].part[BT_NEEDS_KV];
    json_array_append_new(json_object_get(memory, "processes"), process_json("decode", form, &n[DECODE]));
    json_array_append_new(json_object_get(memory, "together"),
                          json_pack("{s:s, s:o, s:o, s:o, s:f, s:f}", "weights", form, "bytes",
                                    count(bt_needs_all(n, 3)), "token_reads_bytes", count(step),
                                    "token_at_ctx_reads_bytes", count(full), "tokens_per_s",
                                    c->bandwidth_gb_s * 1e9 / (double)step, "tokens_per_s_at_ctx",
                                    c->bandwidth_gb_s * 1e9 / (double)full));
    return BT_OK;
}

/* Errors of bt_needs_of. */
static bt_err inspect_memory_json(json_t **ret, const inspect_memory *c, bt_fault *fault)
{
    const bt_obtain_want package = {.shape_policy = c->shape_policy};
    bt_needs_want want[] = {[GATEWAY] = {.prefill = NULL},
                            [PREFILL] = {.prefill = BT_ENGINE_DEFAULT_PREFILL},
                            [DECODE] = {.decode = BT_ENGINE_DEFAULT_DECODE, .rows = BT_ENGINE_BATCH_ROWS}};
    bt_needs n[3];
    bt_compile_needs compile = {0};
    bt_err e = BT_OK;
    for (int i = 0; i < 3; i++) {
        want[i].want = &package;
        want[i].ctx_tokens = c->ctx_tokens;
        want[i].threads = c->threads;
        if (e == BT_OK) e = bt_needs_of(&n[i], c->model, &want[i], fault);
    }
    if (e == BT_OK)
        e = bt_obtain_needs(&compile, c->model, &package, c->ctx_tokens,
                            c->threads ? c->threads : bt_pool_cores(), fault);
    if (e != BT_OK) return e;
    json_t *memory =
        json_pack("{s:o, s:o, s:o, s:o, s:f, s:[], s:[]}", "ctx_tokens", count(n[PREFILL].ctx_tokens),
                  "kv_token_bytes", count(n[PREFILL].token_bytes), "package_bytes",
                  count(compile.package_bytes), "compile_bytes", count(compile.memory_bytes),
                  "bandwidth_gb_s", c->bandwidth_gb_s, "processes", "together");
    json_t *processes = json_object_get(memory, "processes");
    json_array_append_new(processes, process_json("gateway", NULL, &n[GATEWAY]));
    json_array_append_new(processes, process_json("prefill", NULL, &n[PREFILL]));
    for (int f = 0; e == BT_OK && f < FORMS; f++) {
        want[DECODE].weights = (bt_form)f;
        e = add_form(memory, c, n, &want[DECODE], fault);
    }
    if (e < 0) json_decref(memory);
    else *ret = memory;
    return e;
}

/* ---- for people ---- */

static const char *size_of(char ret[32], const json_t *o, const char *key)
{
    bt_num_size_text(ret, 32, (uint64_t)json_integer_value(json_object_get(o, key)));
    return ret;
}

static void inspect_memory_print(const json_t *memory)
{
    static const char *const keys[] = {"package_bytes", "weights_bytes", "kv_bytes",
                                       "work_bytes",    "rest_bytes",    "bytes"};
    const json_t *o;
    size_t i;
    char a[32], b[32];
    printf("\nmemory at %lld tokens, KV in f16; what is mapped, processes share\n  %-14s %12s %12s %12s %12s "
           "%12s %12s\n",
           (long long)json_integer_value(json_object_get(memory, "ctx_tokens")), "process", "package",
           "weights", "KV", "work", "rest", "all");
    json_array_foreach(json_object_get(memory, "processes"), i, o) {
        const char *form = json_string_value(json_object_get(o, "weights"));
        snprintf(a, sizeof a, "%s%s%s", json_string_value(json_object_get(o, "process")), form ? " " : "",
                 form ? form : "");
        printf("  %-14s", a);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) printf(" %12s", size_of(b, o, keys[k]));
        putchar('\n');
    }
    printf("  compiling: %s of memory", size_of(a, memory, "compile_bytes"));
    printf(", %s on disk\n", size_of(a, memory, "package_bytes"));
    printf("\nall three processes, and what memory of %.0f GB/s allows\n  %-14s %12s %14s %12s %14s %12s\n",
           json_real_value(json_object_get(memory, "bandwidth_gb_s")), "decode", "memory", "a token reads",
           "tokens/s", "at that length", "tokens/s");
    json_array_foreach(json_object_get(memory, "together"), i, o) {
        printf("  %-14s %12s", json_string_value(json_object_get(o, "weights")), size_of(a, o, "bytes"));
        printf(" %14s %12.1f", size_of(a, o, "token_reads_bytes"),
               json_real_value(json_object_get(o, "tokens_per_s")));
        printf(" %14s %12.1f\n", size_of(a, o, "token_at_ctx_reads_bytes"),
               json_real_value(json_object_get(o, "tokens_per_s_at_ctx")));
    }
}

typedef struct config {
    const char *shape_policy;
    int64_t ctx_size, threads;
    double bandwidth;
    bool head, tensors, graph, errors, heads, json;
} config;

static const bt_opt opts[] = {
    {.of = &bt_obtain_opts, .group = "Shapes", .name = "shape-policy", BT_OPT_AT(config, shape_policy),
     .help = "for a model file: how prompts are cut: " BT_SHAPES_NAMES},
    {.of = &bt_model_opts, .group = "Shapes", .name = "ctx-size", BT_OPT_AT(config, ctx_size),
     .help = "for a model file: longest sequence in tokens; 0: what the model was made for"},
    {.of = &bt_machine_opts, .name = "threads", BT_OPT_AT(config, threads),
     .help = "for a model file: compute threads of each process whose memory is printed; 0: all cores"},
    {.group = "Machine", .name = "bandwidth", .value = "GB/S", BT_OPT_AT(config, bandwidth),
     .type = BT_OPT_DOUBLE, .def = "20", .flo = 0.1, .fhi = 100000,
     .help =
         "for a model file: the rate of memory in 10^9 bytes a second, which bounds tokens a second (baton "
         "bench measures it)"},
    {.group = "Output", .name = "head", BT_OPT_AT(config, head), .type = BT_OPT_FLAG,
     .help =
         "for a model file: read its header alone, which may be all that is there; the model's id is left "
         "out"},
    {.group = "Output", .name = "tensors", BT_OPT_AT(config, tensors), .type = BT_OPT_FLAG,
     .help = "list every tensor"},
    {.group = "Output", .name = "graph", BT_OPT_AT(config, graph), .type = BT_OPT_FLAG,
     .help = "for a model file: print the graph of the first layer and the tail"},
    {.group = "Output", .name = "errors", BT_OPT_AT(config, errors), .type = BT_OPT_FLAG,
     .help = "for a package: what quantisation costs, linear by linear, worst first"},
    {.group = "Output", .name = "heads", BT_OPT_AT(config, heads), .type = BT_OPT_FLAG,
     .help = "for a package that attends sparsely: what share of positions each head keeps, and the recall "
             "of its "
             "estimate"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: specializations[], memory, chat_template, weights_bytes, tensors[], "
             "sites[], ..."},
};

const bt_opt_program tool_inspect_program = {
    .name = "baton inspect",
    .summary = "show what is in a model file or a package",
    .usage = "FILE [options]",
    .normal = "baton inspect smollm2",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = 1,
    .args_name = "FILE",
};

static json_t *shapes_json(const bt_host_shapes *table)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < table->rows; i++) {
        const bt_host_shape *r = &table->row[i];
        json_array_append_new(rows, json_pack("{s:i, s:I, s:I, s:I}", "batch", 1, "seq", (json_int_t)r->seq,
                                              "ctx", (json_int_t)r->ctx, "arena_bytes",
                                              (json_int_t)r->program[BT_PKG_OUT_LAST]->arena.fixed));
    }
    return rows;
}

static json_t *tensors_json(const bt_gguf *g)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < bt_gguf_tensor_count(g); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(g, i);
        json_t *dims = json_array();
        for (uint32_t d = 0; d < t->n_dims; d++)
            json_array_append_new(dims, json_integer((json_int_t)t->dim[d]));
        json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:I}", "name", t->name, "type",
                                              bt_quant_type_name(t->type), "dims", dims, "bytes",
                                              (json_int_t)t->bytes));
    }
    return rows;
}

/* How chats with this model become prompts: {name, bytes, names, error}. */
static json_t *template_json(const bt_model *m)
{
    bt_templates t;
    bt_fault fault = {""};
    if (bt_templates_open(&t, m->file, NULL, NULL, &fault) < 0)
        return json_pack("{s:s}", "error", fault.text);
    json_t *names = json_array();
    for (size_t i = 0; i < t.names; i++) json_array_append_new(names, json_string(t.name[i]));
    json_t *o = json_pack("{s:s?, s:o, s:o, s:s?}", "name", t.from, "bytes",
                          t.text ? count(strlen(t.text)) : json_null(), "names", names, "error",
                          t.chat ? NULL : t.why.text);
    bt_templates_close(&t);
    return o;
}

static json_t *to_json(const bt_model *m, const bt_host_shapes *table, json_t *memory)
{
    const bt_hparams *h = &m->hp;
    char id[33], rope[BT_ROPE_MAX_TEXT], core[BT_CORES_WHY_BYTES];
    const char *isa = bt_kernels_select(NULL)->isa; /* finds the core too */
    bt_cores_why(core);
    tool_hex16(id, m->id);
    bt_rope_text(rope, &h->rope, (double)h->rope_scale, m->rope_freqs != NULL);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:f, s:f, s:s, s:b, "
        "s:I, s:o, s:o, s:O, s:o, s:s, s:s}",
        "name", m->name, "architecture", bt_arch_of(h->arch)->name, "model_id", id, "gguf_version",
        (int)bt_gguf_version(m->file), "file_bytes", (json_int_t)bt_gguf_file_bytes(m->file), "weights_bytes",
        (json_int_t)m->weights_bytes, "parameters", (json_int_t)m->param_count, "layers", (int)h->layers,
        "dim", (int)h->dim, "ffn", (int)h->ffn, "heads", (int)h->heads, "kv_heads", (int)h->kv_heads,
        "head_dim", (int)h->head_dim, "vocab", (int)h->vocab, "experts", (int)h->experts, "experts_used",
        (int)h->experts_used, "ctx_tokens", (int)h->ctx, "window_tokens", (int)h->window, "global_every",
        (int)h->global_every, "window_rope_base", (double)h->window_rope_base, "rope_base",
        (double)h->rope_base, "rope_scaling", rope, "tied_output", (int)h->tied_output, "arena_bytes",
        (json_int_t)table->arena_bytes, "specializations", shapes_json(table), "tensors",
        tensors_json(m->file), "memory", memory, "chat_template", template_json(m), "isa", isa, "core", core);
}

/* How many tensors of each type, in the order of their first appearance: "210 Q4_1, 1 Q8_0, 61 F32". */
static void print_types(const bt_gguf *g)
{
    uint32_t seen[64];
    size_t kinds = 0;
    printf("tensors       %zu:", bt_gguf_tensor_count(g));
    for (size_t i = 0; i < bt_gguf_tensor_count(g); i++) {
        const uint32_t type = bt_gguf_tensor_at(g, i)->type;
        size_t k = 0, n = 0;
        while (k < kinds && seen[k] != type) k++;
        if (k < kinds || kinds == sizeof seen / sizeof seen[0]) continue;
        for (size_t j = i; j < bt_gguf_tensor_count(g); j++) n += bt_gguf_tensor_at(g, j)->type == type;
        printf("%s %zu %s", kinds ? "," : "", n, bt_quant_type_name(type));
        seen[kinds++] = type;
    }
    putchar('\n');
}

static void print_template(const bt_model *m)
{
    json_t *t = template_json(m);
    const char *error = json_string_value(json_object_get(t, "error"));
    const json_t *names = json_object_get(t, "names");
    if (error) printf("chat template none: %s\n", error);
    else
        printf("chat template %s, %lld bytes%s", json_string_value(json_object_get(t, "name")),
               (long long)json_integer_value(json_object_get(t, "bytes")),
               json_array_size(names) > 1 ? "; of" : "\n");
    for (size_t i = 0; !error && json_array_size(names) > 1 && i < json_array_size(names); i++)
        printf(" %s%s", json_string_value(json_array_get(names, i)),
               i + 1 < json_array_size(names) ? "," : "\n");
    json_decref(t);
}

static void print_people(const bt_model *m, const bt_host_shapes *table, const bt_graph *graph,
                         const json_t *memory, const config *c)
{
    const bt_hparams *h = &m->hp;
    char id[33] = "not read", size[32], arena[32], rope[BT_ROPE_MAX_TEXT], core[BT_CORES_WHY_BYTES];
    const char *isa = bt_kernels_select(NULL)->isa; /* finds the core too */
    bt_cores_why(core);
    if (!c->head) tool_hex16(id, m->id);
    bt_rope_text(rope, &h->rope, (double)h->rope_scale, m->rope_freqs != NULL);
    bt_num_size_text(size, sizeof size, m->weights_bytes);
    bt_num_size_text(arena, sizeof arena, table->arena_bytes);
    printf("name          %s\narchitecture  %s, GGUF version %u\nmodel id      %s\nparameters    %" PRIu64
           "\nweights       %s\n",
           m->name, bt_arch_of(h->arch)->name, bt_gguf_version(m->file), id, m->param_count, size);
    printf("shape         %u layers, dim %u, ffn %u, %u heads, %u KV heads, head_dim %u\n", h->layers, h->dim,
           h->ffn, h->heads, h->kv_heads, h->head_dim);
    printf("vocabulary    %u, output %s\ncontext       %u tokens, rope base %g\n", h->vocab,
           h->tied_output ? "tied to the embedding" : "separate", h->ctx, (double)h->rope_base);
    if (rope[0]) printf("rope scaling  %s\n", rope);
    if (h->experts) printf("experts       %u in each layer, %u of a row\n", h->experts, h->experts_used);
    if (h->window && h->global_every)
        printf("window        %u tokens on all layers but one of %u", h->window, h->global_every);
    else if (h->window) printf("window        %u tokens on all layers", h->window);
    if (h->window_rope_base > 0) printf(", rope base %g there", (double)h->window_rope_base);
    if (h->window) printf("\n");
    if (bt_arch_of(h->arch)->multipliers != BT_ARCH_ONES)
        printf("multipliers   scores %g, embedding %g, blocks %g, logits %g\n", (double)bt_hparams_scores(h),
               (double)bt_hparams_embed(h), (double)bt_hparams_add(h),
               (double)(h->times.logits > 0 ? h->times.logits : 1));
    printf("KV            %u bytes a token in f16\n", 2u * 2u * h->layers * h->kv_heads * h->head_dim);
    print_types(m->file);
    print_template(m);
    printf("\nspecializations, %zu rows, one arena of %s\n  %5s %6s %8s %12s\n", table->rows, arena, "batch",
           "seq", "ctx", "arena");
    for (size_t i = 0; i < table->rows; i++) {
        bt_num_size_text(arena, sizeof arena, table->row[i].program[BT_PKG_OUT_LAST]->arena.fixed);
        printf("  %5d %6zu %8zu %12s\n", 1, table->row[i].seq, table->row[i].ctx, arena);
    }
    inspect_memory_print(memory);
    printf("\nthis machine: kernels %s, core %s\n", isa, core);
    if (c->graph) {
        putchar('\n');
        bt_graph_print(graph, stdout, 1);
    }
    for (size_t i = 0; c->tensors && i < bt_gguf_tensor_count(m->file); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(m->file, i);
        printf("%s%-36s %-7s [%" PRIu64 ", %" PRIu64 "]\n", i ? "" : "\n", t->name,
               bt_quant_type_name(t->type), t->dim[1], t->dim[0]);
    }
}

static bt_err open_model(bt_model **ret, const char *name, bool is_head, bt_fault *fault)
{
    char path[4096];
    if (!is_head) return tool_open_model(ret, NULL, name, fault);
    const bt_err e = bt_model_find(path, sizeof path, name, fault);
    return e < 0 ? e : bt_model_open_head(ret, path, fault);
}

static int inspect_model(const config *c, const char *name)
{
    bt_fault fault = {""};
    bt_model *m = NULL;
    bt_graph *graph = NULL;
    bt_host_shapes *table = NULL;
    bt_shapes shapes;
    json_t *memory = NULL;
    int rc = 1;
    if (open_model(&m, name, c->head, &fault) < 0) return tool_fail("inspect", &fault);
    const inspect_memory what = {.model = m, .shape_policy = c->shape_policy,
                                 .ctx_tokens = (size_t)c->ctx_size, .threads = (size_t)c->threads,
                                 .bandwidth_gb_s = c->bandwidth};
    const size_t ctx = c->ctx_size ? (size_t)c->ctx_size : m->hp.ctx;
    if (bt_shapes_parse(&shapes, c->shape_policy, ctx, &fault) < 0 ||
        bt_graph_build(&graph, &m->hp, NULL, &fault) < 0 ||
        bt_host_shapes_new(&table, graph, &shapes, ctx, &fault) < 0 ||
        inspect_memory_json(&memory, &what, &fault) < 0) {
        tool_fail("inspect", &fault);
    } else if (c->json) {
        rc = tool_print_json("inspect", to_json(m, table, memory));
    } else {
        print_people(m, table, graph, memory, c);
        rc = bt_opt_flush() != 0;
    }
    json_decref(memory);
    bt_host_shapes_free(table);
    bt_graph_free(graph);
    bt_model_close(m);
    return rc;
}

static int inspect_package(const config *c, const char *path)
{
    bt_fault fault = {""};
    bt_pkg *p = NULL;
    int rc = 1;
    bt_wait_tell(NULL, "opening the package", 0, 0);
    const bt_err e = bt_pkg_open(&p, path, &fault);
    bt_wait_end();
    if (e < 0) {
        tool_fail("inspect", &fault);
    } else if (c->json) {
        rc = tool_print_json("inspect", tool_package_json(p));
    } else if (c->errors) {
        rc = tool_package_print_errors(p, &fault) < 0 ? tool_fail("inspect", &fault) : bt_opt_flush() != 0;
    } else if (c->heads) {
        rc = tool_package_print_heads(p, &fault) < 0 ? tool_fail("inspect", &fault) : bt_opt_flush() != 0;
    } else {
        tool_package_print_summary(p);
        tool_package_print_details(p, c->tensors);
        rc = bt_opt_flush() != 0;
    }
    bt_pkg_close(p);
    return rc;
}

/* Looks at the first bytes; a file that cannot be read is taken for a model, whose error says why. */
static bool is_package(const char *path)
{
    char magic[8] = "";
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const bool is =
        fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, BT_PKG_MAGIC, sizeof magic) == 0;
    (void)fclose(f);
    return is;
}

int tool_inspect_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_inspect_program, argc, argv, &c);
    if (rc >= 0) return rc;
    if (is_package(args.args[0])) {
        rc = inspect_package(&c, args.args[0]);
    } else if (c.errors || c.heads) {
        bt_fault fault = {""};
        bt_fail(&fault, BT_EARG, "--%s is for packages; '%.100s' is none (see baton compile)",
                c.errors ? "errors" : "heads", args.args[0]);
        rc = tool_fail("inspect", &fault);
    } else {
        rc = inspect_model(&c, args.args[0]);
    }
    bt_opt_done(&args);
    return rc;
}
