/* A job that passes between executors. Each step ends the companion's pass, so that no work waits in one
 * executor while another goes on. */
#include "npu/run/exec_steps.h"
#include "npu/run/exec_private.h"

#include <stdlib.h>

struct bt_exec_steps {
    bt_exec_job job;
    bt_exec_io io;
    bt_exec_seq seq;
    bt_companion_seq list;
    bt_overflow *overflow;
    bt_exec_routed routed; /* not an executor's, since they take turns */
    uint32_t next;         /* the next instruction */
    int32_t ids[];         /* [max_seq]: token ids */
};

bt_err bt_exec_steps_new(bt_exec_steps **ret, const bt_pkg *pkg, bt_fault *fault)
{
    const bt_err e = bt_pkg_check_overlap(pkg, fault);
    if (e < 0) return e;
    bt_exec_steps *s = calloc(1, sizeof *s + bt_pkg_header_of(pkg)->max_seq * sizeof *s->ids);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for a run in steps");
    const bt_err made =
        bt_pkg_header_of(pkg)->experts ? bt_exec_routed_new(&s->routed, bt_pkg_header_of(pkg), fault) : BT_OK;
    if (made < 0) bt_exec_steps_free(s);
    else *ret = s;
    return made;
}

void bt_exec_steps_free(bt_exec_steps *s)
{
    if (!s) return;
    bt_exec_routed_done(&s->routed);
    free(s);
}

bt_err bt_exec_steps_begin(bt_exec_steps *s, bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena,
                           const bt_exec_io *io, bt_fault *fault)
{
    const bt_err e = bt_exec_check(x, row, out, io, fault);
    if (e < 0) return e;
    if (row->batch != 1)
        return bt_fail(fault, BT_EARG, "a run in steps has one sequence, a program for %u has more",
                       row->batch);
    s->io = *io;
    s->seq = io->seq[0];
    s->io.seq = &s->seq;
    s->job = bt_exec_job_of(x, row, out, arena, &s->io, &s->list, &s->overflow, s->ids);
    s->job.routed = s->routed;
    s->next = 0;
    return BT_OK;
}

void bt_exec_steps_run(bt_exec_steps *s, bt_exec *x, uint32_t end)
{
    bt_exec_job *j = &s->job;
    j->x = x;
    bt_companion_begin(&x->companion);
    while (s->next < end && s->next < j->program->insts)
        s->next += (uint32_t)bt_exec_inst(j, &j->inst[s->next]);
    bt_companion_end(&x->companion);
}
