/* Tasks by thread id: which instance has the id now, and what it is called. The daemon's side is tasks.py.
 *
 * Maps:   task_started    id -> start time of the instance seen last, 0 for none
 *         task_announced  id -> start time of the instance whose record was sent
 *         task_gone       id -> start time of the instance that ended
 *         task_records    ring buffer of struct task_record
 *         task_events     [0] ends so far, [1] records that found the ring full
 *
 * Beginning an instance and naming it are two things. The first happens once, whatever becomes of the second;
 * a record that found the ring full is sent again with the task's next event. An end needs no record and so
 * cannot be lost.
 *
 * Only for events on the CPU that runs the task or under the lock of its run queue: no two of its events are
 * handled at the same time. With TASKS_UNNAMED nobody is named, and there is no ring.
 */
#pragma once
#include "bank.h"
#include "cgroup_name.h"

#define TASK_COMM 16

#if !TASKS_UNNAMED
struct task_record {
    u64 started; /* ns since boot; with the id it names an instance */
    u32 id;
    u32 process;
    u64 level;
    char comm[TASK_COMM];
    char names[3][CGROUP_NAME];
};

static __always_inline void task_announce(struct task_struct *task, u32 id, u64 started)
{
    u64 *announced = cell(MAP(task_announced), id);
    if (!announced || *announced == started)
        return;
    struct task_record *record = bpf_ringbuf_reserve((void *)MAP(task_records), sizeof(*record), 0);
    if (!record) {
        add(MAP(task_events), 1, 1);
        return;
    }
    struct cgroup *cgroup = task_cgroup(task);
    record->started = started;
    record->id = id;
    record->process = FIELD(task, tgid);
    record->level = PROBED(cgroup, level);
    bpf_probe_read_kernel_str(record->comm, TASK_COMM, &task->comm);
    cgroup_names(record->names, PROBED(cgroup, kn));
    *announced = started;
    bpf_ringbuf_submit(record, 0);
}
#endif

/* Whether this instance said that it ends; it may have events after that, but is not named any more. */
static __always_inline bool task_is_gone(u32 id, u64 started)
{
    u64 *gone = cell(MAP(task_gone), id);
    return gone && *gone == started;
}

/* The row of a task, 0 for the idle task and for ids beyond the table. `is_new` is true once for each
 * instance: whoever counts by row then begins at zero. */
static __always_inline u32 task_row(struct task_struct *task, bool *is_new)
{
    u32 id = FIELD(task, pid);
    u64 started = FIELD(task, start_time);
    u64 *known = id ? cell(MAP(task_started), id) : 0;
    *is_new = false;
    if (!known)
        return 0;
    if (*known != started) {
        *known = started;
        *is_new = true;
    }
#if !TASKS_UNNAMED
    if (!task_is_gone(id, started))
        task_announce(task, id, started);
#endif
    return id;
}

/* Body of the program on the sched_process_exit tracepoint. */
static __always_inline int task_ended(struct task_struct *task)
{
    u32 id = FIELD(task, pid);
    u64 *gone = cell(MAP(task_gone), id);
    if (gone) {
        *gone = FIELD(task, start_time);
        add(MAP(task_events), 0, 1);
    }
    return 0;
}
