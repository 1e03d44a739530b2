#ifndef BT_NPU_COMPILE_PRIVATE_H
#define BT_NPU_COMPILE_PRIVATE_H
#include "npu/quant/calib.h"
#include "npu/compile/compile.h"
#include "npu/quant/fold.h"
#include "npu/quant/hadamard.h"
#include "npu/lower/offload.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/shapes.h"

/* The declarations that the compiler's steps share. The files stand on each other in the order of this header:
 * compile_job.c, compile_int.c, donors.c, compile_awq.c; then compile_tensors.c, sparse.c and compile_programs.c beside
 * each other; then compile_header.c. compile_write.c runs the steps, with weights for compile.c and without for a
 * sketch. */

/* ---- compile_job.c ---- */
typedef struct bt_compile_job {
    const bt_model *m;
    const bt_compile_options *o; /* the job's copy `options`, with the recipe settled */
    bt_compile_options options;
    const bt_kernels *kernels;
    bt_pool *pool;
    bt_profile profile;
    uint32_t npu_ops; /* as asked for; LINEAR where the NPU runs nothing but linears in integers */
    bt_shapes shapes;
    size_t ctx_tokens;
    bt_fold *fold;
    bt_calib *calib;
    const bt_calib_stats *stats;
    float **smooth;   /* [sites]: factors of each input; NULL: none */
    float **gptq;     /* [sites]: sums for GPTQ, of the current layer */
    uint32_t **order; /* [sites]: act-order's order of inputs, of the current layer; else NULLs */
    uint8_t **clip;   /* [tensors]: AWQ's clips (npu/quant/rounding.h); else NULLs */
    bt_pkg_writer *w;
    bt_pkg_header header;
    size_t tensors, sites;
    bt_pkg_tensor *tensor;
    bt_pkg_site *site;
    bt_graph *graph;
    bt_offload *offload;
    uint8_t *unit;                  /* [tensors]: bt_compile_job_unit */
    bool *uses;                     /* [sites]: bt_compile_job_uses_site */
    bool *has_norm;                 /* [graph ops]: an RMSNORM whose weight was not folded away */
    uint32_t *params;               /* [graph ops]: constants of parameters, or NULL */
    bool *pruned;                   /* [sites]: without a shadow */
    bt_pkg_expert *expert;          /* [layers][2][experts], as the header's expert_sites; NULL: no experts */
    const bt_pkg **donor;           /* [sites]: the package whose layer is copied */
    bool is_given;                  /* every layer is copied from a donor */
    bool is_sketch;                 /* there are no weights: constants that hold values have a length alone */
    uint64_t calib_tokens;          /* tokens that scales were measured on */
    uint64_t work, work_done, step; /* shares (BT_COMPILE_SHARE_..): of all steps, of finished steps, of the current
                                       step */
} bt_compile_job;

/* Sets what options, model and profile decide. tensor and the arrays of [sites] are zeros; the steps fill in the rest.
 * Errors of bt_compile; the calibration is not read. */
bt_err bt_compile_job_new(bt_compile_job **ret, const bt_model *m, const bt_compile_options *o, bt_pool *pool,
                          bt_fault *fault);
void bt_compile_job_free(bt_compile_job *j); /* frees all that the job holds; NULL is fine */
/* Progress: the work of a compilation is the sum of its steps' shares. A share is the step's time relative to the
 * others, with the default model. */
enum {
    BT_COMPILE_SHARE_CALIBRATE = 50, /* one run of the calibration text, with reading and folding of weights */
    BT_COMPILE_SHARE_PACK = 20,      /* scales, rounding, packing */
    BT_COMPILE_SHARE_GPTQ = 380,     /* a run of the text for the sums of GPTQ, solving, packing */
    BT_COMPILE_SHARE_AWQ = 300,      /* a run of the text, and the searches of each layer */
    BT_COMPILE_SHARE_SPARSE = 55,    /* one of the two runs of the text for the heads of sparse attention */
};
void bt_compile_job_step(bt_compile_job *j, uint64_t share);            /* ends the step before, begins a step */
void bt_compile_job_progress(void *job, uint64_t done, uint64_t total); /* of the current step */
/* Tokens of the calibration text that are read. */
size_t bt_compile_calib_tokens(const bt_compile_job *j);
/* The matrices of a layer and the output matrix, in the order in which they are written. */
enum { BT_COMPILE_MATRICES = 8 };
extern const bt_weight bt_compile_matrices[BT_COMPILE_MATRICES];
/* Whether the layer has that matrix, and it reads a site of this kind (bt_site_kind). */
bool bt_compile_reads(const bt_compile_job *j, uint32_t layer, bt_weight w, uint32_t kind);
/* Notes for the two functions below where operators are placed. */
void bt_compile_job_placed(bt_compile_job *j);
/* The unit that runs the operator with this weight (bt_offload). */
bt_pkg_unit bt_compile_job_unit(const bt_compile_job *j, uint32_t layer, bt_weight weight);
/* Whether anything on the NPU reads or writes integers in units of this site. */
bool bt_compile_job_uses_site(const bt_compile_job *j, uint32_t layer, bt_site_kind site);

/* Sets *to to a rotation of rows of `width` elements and writes its constants; base 0: no rotation. */
void bt_compile_rotation(bt_compile_job *j, bt_pkg_rotation *to, const bt_hadamard *h, size_t width);

/* The experts of a site of gate and up, or of down, [experts]; NULL: the model has none, or the site is another. */
bt_pkg_expert *bt_compile_experts_of(const bt_compile_job *j, uint32_t layer, uint32_t kind);
/* How many matrices a weight is: experts, or 1. */
size_t bt_compile_matrices_of(const bt_compile_job *j, bt_weight w);

/* Writes a constant of `count` values of `bytes` bytes each; in a sketch its length alone. */
uint32_t bt_compile_const(bt_compile_job *j, bt_pkg_const_kind kind, const void *values, size_t count, size_t bytes);

/* ---- compile_int.c: for npu_ops ALL; with LINEAR these functions do nothing ---- */
/* Set the integer fields of a matrix, a site or a norm that is otherwise done, and write the parameters of the NPU's
 * operators. bias: [n], or NULL; colsum: as of bt_rounding; all of each expert, one behind the other; in a sketch
 * oscale, bias and colsum are NULL. A sketch gets only the fields that need no calibration. f16: sets the output unit
 * of a linear on the companion. */
void bt_compile_int_f16(const bt_compile_job *j, bt_pkg_tensor *t);
void bt_compile_int_site(const bt_compile_job *j, bt_pkg_site *s);
bt_err bt_compile_int_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *oscale,
                             const float *bias, const int32_t *colsum, bt_fault *fault);
bt_err bt_compile_int_vector(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *weight, bt_fault *fault);
bt_err bt_compile_int_params(bt_compile_job *j, bt_fault *fault);

/* ---- donors.c ---- */
/* Whether each layer can be copied from a donor. If so, donor, site and pruned are filled. */
bool bt_compile_donors_find(bt_compile_job *j);
/* Copies a site's constant; copies a matrix that reads the site, t in j->tensor. */
void bt_compile_donors_site(bt_compile_job *j, uint32_t site);
void bt_compile_donors_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t site);

/* ---- compile_awq.c ---- */
/* Fills smooth, the fold's smoothing and clip from the figures of the model without them. The figures then have to be
 * measured again. */
bt_err bt_compile_awq(bt_compile_job *j, bt_fault *fault);

/* ---- compile_tensors.c ---- */
/* Measures and chooses scales and smoothing: fills the fold's smoothing, stats and site. In a sketch site gets what the
 * recipe says. */
bt_err bt_compile_sites(bt_compile_job *j, bt_fault *fault);
/* Rounds and writes every tensor. */
bt_err bt_compile_tensors(bt_compile_job *j, bt_fault *fault);

/* ---- sparse.c ---- */
/* With sparse attention, measures the heads' units and shares on the calibration and fills the header's fields;
 * without, does nothing. In a sketch each head's share is the ratio. */
bt_err bt_compile_sparse(bt_compile_job *j, bt_fault *fault);

/* ---- compile_programs.c ---- */
/* Makes the graph and places its operators: fills graph, offload, npu_ops, has_norm. */
bt_err bt_compile_offload(bt_compile_job *j, bt_fault *fault);
/* Places operators again with the calibration's figures, where values may be too large for the NPU's floats. */
bt_err bt_compile_offload_measured(bt_compile_job *j, bt_fault *fault);
/* Writes programs, rows, fallbacks and sessions; with npu_ops ALL the operators' parameters before them. */
bt_err bt_compile_programs(bt_compile_job *j, bt_fault *fault);

/* ---- compile_header.c ---- */
/* Fills the header and writes its constants. */
bt_err bt_compile_header(bt_compile_job *j, bt_fault *fault);

/* ---- compile_write.c ---- */
/* Makes a job whose operators are placed. The caller frees *ret, on failure too. */
bt_err bt_compile_begin(bt_compile_job **ret, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                        bt_fault *fault);
/* Writes all of a package but its end to j->w, in the fixed order of constants and tables. */
bt_err bt_compile_write(bt_compile_job *j, bt_fault *fault);
#endif
