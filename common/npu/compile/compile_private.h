#ifndef BT_NPU_COMPILE_PRIVATE_H
#define BT_NPU_COMPILE_PRIVATE_H
#include "npu/quant/calib.h"
#include "npu/compile/compile.h"
#include "npu/quant/fold.h"
#include "npu/quant/hadamard.h"
#include "npu/lower/offload.h"
#include "npu/pkg/pkg.h"
#include "npu/pkg/shapes.h"

/* Inside the compiler: what its steps hand on to each other. Files stand on each other in the order of this header:
 * compile_job.c, compile_int.c, donors.c, compile_awq.c, then compile_tensors.c and beside it sparse.c and
 * compile_programs.c, then compile_header.c; compile_write.c runs them, with weights for compile.c and without for
 * sketch.c. */

/* ---- compile_job.c ---- */
typedef struct bt_compile_job {
    const bt_model *m;
    const bt_compile_options *o; /* its own copy, with the recipe as the profile makes it */
    bt_compile_options options;
    const bt_kernels *kernels;
    bt_pool *pool;
    bt_profile profile;
    uint32_t npu_ops; /* what was asked for, or LINEAR where nothing but linears runs on the NPU in integers */
    bt_shapes shapes;
    size_t ctx_tokens;
    bt_fold *fold;
    bt_calib *calib;
    const bt_calib_stats *stats;
    float **smooth;   /* [sites], NULL where there is none */
    float **gptq;     /* [sites], of the layer at hand */
    uint32_t **order; /* the same, with act-order; else NULLs */
    uint8_t **clip;   /* [tensors]: AWQ's (npu/quant/rounding.h); else NULLs */
    bt_pkg_writer *w;
    bt_pkg_header header;
    size_t tensors, sites;
    bt_pkg_tensor *tensor;
    bt_pkg_site *site;
    bt_graph *graph;
    bt_offload *offload;
    bool *has_norm;                 /* [graph ops] */
    uint32_t *params;               /* [graph ops], or NULL */
    bool *pruned;                   /* [sites] */
    const bt_pkg **donor;           /* [sites]: whose layer is copied */
    bool is_given;                  /* every layer is */
    bool is_sketch;                 /* no weight is there: constants that hold values have a length alone */
    uint64_t calib_tokens;          /* that scales were measured on */
    uint64_t work, work_done, step; /* shares: of all steps, of those that are done, of this one */
} bt_compile_job;

/* Sets what options, model and profile decide; tensor and the arrays of [sites] are zeros, the rest is for the steps.
 * Errors of bt_compile; the calibration is not looked at. */
bt_err bt_compile_job_new(bt_compile_job **ret, const bt_model *m, const bt_compile_options *o, bt_pool *pool,
                          bt_fault *fault);
void bt_compile_job_free(bt_compile_job *j); /* with all that it holds; NULL is fine */
/* How far a compilation is: its work is the sum of its steps' shares. A share stands for the time that the step takes
 * beside the others, with the default model. */
enum {
    BT_COMPILE_SHARE_CALIBRATE = 50, /* one run of the calibration text, with the reading and folding of weights */
    BT_COMPILE_SHARE_PACK = 20,      /* scales, rounding, packing */
    BT_COMPILE_SHARE_GPTQ = 380,     /* a run for the sums of GPTQ, its solving, packing */
    BT_COMPILE_SHARE_AWQ = 300,      /* a run of the text, the searches of each layer */
    BT_COMPILE_SHARE_SPARSE = 55,    /* one of two runs of the calibration text for the heads of sparse attention */
};
void bt_compile_job_step(bt_compile_job *j, uint64_t share);            /* begins a step; the one before is done */
void bt_compile_job_progress(void *job, uint64_t done, uint64_t total); /* of the step */
/* Tokens of the text that are read. */
size_t bt_compile_calib_tokens(const bt_compile_job *j);
/* The matrices that inputs of sites are multiplied with, in the order in which they are written. */
enum { BT_COMPILE_MATRICES = 8 };
extern const bt_weight bt_compile_matrices[BT_COMPILE_MATRICES];
/* Where the operator with this weight runs (bt_offload). */
bt_pkg_unit bt_compile_job_unit(const bt_compile_job *j, uint32_t layer, bt_weight weight);
/* Whether anything on the NPU reads or writes integers in units of this site. */
bool bt_compile_job_uses_site(const bt_compile_job *j, uint32_t layer, bt_site_kind site);

/* Writes a rotation of rows of `width`; base 0: none. */
void bt_compile_rotation(bt_compile_job *j, bt_pkg_rotation *to, const bt_hadamard *h, size_t width);

/* Writes `count` values of `bytes` each; of a sketch only their length. */
uint32_t bt_compile_const(bt_compile_job *j, bt_pkg_const_kind kind, const void *values, size_t count, size_t bytes);

/* ---- compile_int.c: for npu_ops ALL; LINEAR: nothing ---- */
/* The integer fields of a matrix (bias [n], or NULL; colsum as of bt_rounding; in a sketch all three are NULL), of a
 * site or of a norm that is otherwise done; then the parameters of operators on the NPU. In a sketch, those that no
 * calibration gives. bt_compile_int_f16: the unit of the output of a linear on the companion. */
void bt_compile_int_f16(const bt_compile_job *j, bt_pkg_tensor *t);
void bt_compile_int_site(const bt_compile_job *j, bt_pkg_site *s);
bt_err bt_compile_int_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *oscale,
                             const float *bias, const int32_t *colsum, bt_fault *fault);
bt_err bt_compile_int_vector(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *weight, bt_fault *fault);
bt_err bt_compile_int_params(bt_compile_job *j, bt_fault *fault);

/* ---- donors.c ---- */
/* Whether each layer can be copied from a donor: then donor, site and pruned are filled. */
bool bt_compile_donors_find(bt_compile_job *j);
/* A site's constant; a matrix that reads it, t in j->tensor. */
void bt_compile_donors_site(bt_compile_job *j, uint32_t site);
void bt_compile_donors_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t site);

/* ---- compile_awq.c ---- */
/* From figures of the plain model: fills smooth, the fold's smoothing and clip; figures are then to be taken again. */
bt_err bt_compile_awq(bt_compile_job *j, bt_fault *fault);

/* ---- compile_tensors.c ---- */
/* Scales, smoothing: fills fold's smoothing, stats, site; of a sketch, what the recipe says of sites. */
bt_err bt_compile_sites(bt_compile_job *j, bt_fault *fault);
/* Rounds and writes every tensor. */
bt_err bt_compile_tensors(bt_compile_job *j, bt_fault *fault);

/* ---- sparse.c ---- */
/* With sparse attention: the heads' units and shares, from the calibration; fills the header's fields. Else nothing. In
 * a sketch each head has the ratio as its share. */
bt_err bt_compile_sparse(bt_compile_job *j, bt_fault *fault);

/* ---- compile_programs.c ---- */
/* The graph, and which of its operators the NPU takes: fills graph, offload, npu_ops, has_norm. */
bt_err bt_compile_offload(bt_compile_job *j, bt_fault *fault);
/* The same again with the calibration's figures, where values may be too large for the NPU's floats. */
bt_err bt_compile_offload_measured(bt_compile_job *j, bt_fault *fault);
/* Writes programs, rows, fallbacks and sessions. With npu_ops ALL the operators' parameters go before them. */
bt_err bt_compile_programs(bt_compile_job *j, bt_fault *fault);

/* ---- compile_header.c ---- */
/* The header and its constants. */
bt_err bt_compile_header(bt_compile_job *j, bt_fault *fault);

/* ---- compile_write.c ---- */
/* A job that knows where each operator runs. The caller frees *ret, on failure too. */
bt_err bt_compile_begin(bt_compile_job **ret, const bt_model *m, const bt_compile_options *options, bt_pool *pool,
                        bt_fault *fault);
/* Writes all of a package but its end to j->w, in the one order of constants and tables. */
bt_err bt_compile_write(bt_compile_job *j, bt_fault *fault);
#endif
