/* Small programs for the tests of the runtime; each define of a part switches one on. */
#include "hook.h"
#include "bank.h"
#include "histogram.h"

#if PART_HISTOGRAM
int cgroup_mkdir(u64 *ctx)
{
    return h2_bucket(ctx[0]);
}
#endif

#if PART_TASKS
#include "task.h"
int sys_enter(u64 *ctx)
{
    bool is_new;
    u32 row = task_row(current_task(), &is_new);
    u64 *calls = cell(MAP(task_calls), row);
    if (calls && is_new)
        *calls = 0;
    add(MAP(task_calls), row, 1);
    return 0;
}
int sched_process_exit(u64 *ctx)
{
    return task_ended((void *)ctx[0]);
}
#endif

#if PART_RING
int sys_enter(u64 *ctx)
{
    if ((u32)(bpf_get_current_pid_tgid() >> 32) != *(cell(MAP(wanted), 0) ?: &(u64){0}))
        return 0;
    u64 record[3] = {ctx[1], 42, 0};
    if (bpf_ringbuf_output((void *)MAP(records), record, sizeof(record), 0))
        add(MAP(lost), 0, 1);
    return 0;
}
#endif

#if PART_UNVERIFIABLE
int sys_enter(u64 *ctx)
{
    return *(u64 *)ctx[1]; /* a system call's number is no pointer */
}
#endif

#if PART_BAD_C
int sys_enter(u64 *ctx)
{
    return no_such_thing;
}
#endif

#if PART_COUNT
int sys_enter(u64 *ctx)
{
    add(MAP(counts), 0, 1);
    return 0;
}
int sys_enter_classic(void *ctx)
{
    add(MAP(counts), 0, 1);
    return 0;
}
int gone(u64 *ctx)
{
    return 0;
}
#endif
