#ifndef BT_DEVICE_SCHEDULE_H
#define BT_DEVICE_SCHEDULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* A prompt's work on two engines: which subgraph of which chunk runs next, on the NPU and on its companion. Pure: it
 * holds no clock and runs nothing. The driver takes a task for a free engine and reports its end; bt_schedule_model
 * below drives it with modelled times.
 *
 * A chunk passes the same stages in the same order, G(i, 0) .. G(i, stages - 1), each on one engine. G(i, j) waits for
 * G(i, j-1); where stage j *joins* (attention, which reads the keys and values of all earlier positions), also for
 * G(0 .. i-1, j-1). An engine runs one task at a time.
 *
 *   serial   program order: a task begins when the one before it has ended, whatever is free
 *   fifo     each engine takes the ready task of the earliest chunk
 *   ooo      llm.npu's out-of-order rule (arXiv 2407.05858, section 3.4): the ready task with the largest C(g), where
 *            S(g) is the time of all NPU tasks that become ready when g ends, and C(g) = S(g) on the companion, -S(g)
 *            on the NPU. Among equals, the task of the earliest chunk
 *
 * At most `window` chunks are begun and not ended, because each of them holds an arena. A choice costs O(window). */
enum { BT_SCHEDULE_MAX_WINDOW = 64, BT_SCHEDULE_MAX_STAGES = 1 << 16, BT_SCHEDULE_MAX_CHUNKS = 1 << 20 };
typedef enum bt_schedule_policy { BT_SCHEDULE_SERIAL, BT_SCHEDULE_FIFO, BT_SCHEDULE_OOO } bt_schedule_policy;
#define BT_SCHEDULE_NAMES "serial", "fifo", "ooo" /* by bt_schedule_policy */
typedef enum bt_schedule_engine { BT_SCHEDULE_NPU, BT_SCHEDULE_COMPANION, BT_SCHEDULE_ENGINES } bt_schedule_engine;

typedef struct bt_schedule_stage {
    uint8_t engine; /* bt_schedule_engine */
    bool joins;     /* never the first stage */
} bt_schedule_stage;

typedef struct bt_schedule_plan {
    bt_schedule_policy policy;
    const bt_schedule_stage *stage; /* [stages], borrowed */
    size_t stages, chunks, window;  /* each 1 .. its limit */
    /* The cost of G(chunk, stage), called often, so it should be a look into a table. Sums saturate at INT64_MAX. */
    uint64_t (*cost_ns)(const void *ud, size_t chunk, size_t stage);
    const void *ud;
} bt_schedule_plan;

typedef struct bt_schedule_task {
    uint32_t chunk, stage;
} bt_schedule_task;

typedef struct bt_schedule {
    bt_schedule_plan plan;
    size_t first; /* earlier chunks have ended */
    size_t running;
    struct {
        uint32_t done; /* stages that have ended */
        bool is_running;
    } at[BT_SCHEDULE_MAX_WINDOW]; /* of chunk c at c % window */
} bt_schedule;

/* BT_EARG names the value out of range. */
bt_err bt_schedule_init(bt_schedule *s, const bt_schedule_plan *plan, bt_fault *fault);
/* The next task of a free engine, which runs from then on. false: no task of this engine is ready. */
bool bt_schedule_take(bt_schedule *s, bt_schedule_engine engine, bt_schedule_task *task);
void bt_schedule_end(bt_schedule *s, bt_schedule_task task); /* a task that was taken and has not ended */
static inline bool bt_schedule_is_done(const bt_schedule *s) { return s->first == s->plan.chunks; }

/* The modelled run: every task takes its cost, an engine that is free takes at once, the NPU first. */
typedef struct bt_schedule_span {
    bt_schedule_task task;
    bt_schedule_engine engine;
    uint64_t begin_ns, end_ns;
} bt_schedule_span;
typedef struct bt_schedule_result {
    uint64_t makespan_ns;
    uint64_t busy_ns[BT_SCHEDULE_ENGINES]; /* makespan - busy of an engine: its bubbles */
} bt_schedule_result;
/* The same task by task. A copy of a run goes on from where it was copied, with more or fewer chunks where none of them
 * may have begun: none begins before the one `window` before it has ended. */
typedef struct bt_schedule_run {
    bt_schedule schedule;
    bt_schedule_span on[BT_SCHEDULE_ENGINES];
    bool is_busy[BT_SCHEDULE_ENGINES];
    bt_schedule_result sum; /* makespan_ns: when the last task ended */
} bt_schedule_run;
bt_err bt_schedule_run_begin(bt_schedule_run *ret, const bt_schedule_plan *plan, bt_fault *fault); /* BT_EARG as above
                                                                                                    */
/* The next task that ends. false: all have. */
bool bt_schedule_run_next(bt_schedule_run *r, bt_schedule_span *ret);
/* span: called as tasks end, in that order; may be NULL. BT_EARG as above. */
bt_err bt_schedule_model(const bt_schedule_plan *plan, void (*span)(void *ud, const bt_schedule_span *s), void *ud,
                         bt_schedule_result *ret, bt_fault *fault);
#endif
