/* The scheduler: run queue and context switches (RUNQUEUE), moves between CPUs (MIGRATIONS), CPU time (USAGE).
 * One program for each hook, whichever of the samplers want it. The daemon's side is sched.py.
 *
 * Tracepoints of the scheduler fire under the lock of the task's run queue, so that no two events of one task
 * are handled at the same time. */
#include "hook.h"
#include "bank.h"
#include "histogram.h"
#include "cgroup.h"
#if USAGE
#include "task.h"
#endif

#if RUNQUEUE || MIGRATIONS
/* By thread id; monotonic times in ns, 0 for none. In one cache line, as a switch needs all of it. */
struct sched_stamps {
    u64 enqueued;
    u64 running;
    u64 offcpu;
    u64 cpu; /* it ran on last, plus one */
};

static __always_inline struct sched_stamps *stamps_of(u32 id)
{
    return id ? (void *)bpf_map_lookup_elem_(MAP(sched_stamps), &id) : 0;
}

/* A new task has nothing of whoever had its id before. */
int sched_wakeup_new(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct sched_stamps *stamps = stamps_of(FIELD(task, pid));
    if (stamps) {
        stamps->running = stamps->offcpu = stamps->cpu = 0;
        stamps->enqueued = bpf_ktime_get_ns();
    }
    return 0;
}
#endif

#if RUNQUEUE
int sched_wakeup(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct sched_stamps *stamps = stamps_of(FIELD(task, pid));
    if (stamps)
        stamps->enqueued = bpf_ktime_get_ns();
    return 0;
}

/* The span since a stamp, which is used up; false when there is none or it lies ahead, which is counted. */
static __always_inline bool span(u64 *stamp, u64 now, u32 cpu, u64 *result)
{
    u64 begin = *stamp;
    *stamp = 0;
    if (!begin)
        return false;
    if (begin > now) {
        add(MAP(sched_counters), cpu * LINE + DISCARDED, 1);
        return false;
    }
    *result = now - begin;
    return true;
}

static __always_inline void latency(u32 cpu, u32 which, u64 ns)
{
    add(MAP(sched_latencies), ((cpu & (STRIPES - 1)) * LATENCIES + which) * H2_BUCKETS + h2_bucket(ns), 1);
}

/* `preempt` and not the state alone: a task may be preempted after it said that it would sleep. */
static __always_inline void leave(struct task_struct *task, struct sched_stamps *stamps, bool preempt, u32 cpu,
                                  u64 now)
{
    bool voluntary = !preempt && FIELD(task, TASK_STATE);
    u64 ran;
    add(MAP(sched_counters), cpu * LINE + (voluntary ? VOLUNTARY : INVOLUNTARY), 1);
    add(MAP(cgroup_sched), cgroup_slot(task) * LINE + (voluntary ? VOLUNTARY : INVOLUNTARY), 1);
    if (!voluntary) {
        stamps->enqueued = now;
        if (span(&stamps->running, now, cpu, &ran))
            latency(cpu, RUNNING, ran);
    }
    stamps->offcpu = now;
}

static __always_inline void arrive(u32 slot, struct sched_stamps *stamps, u32 cpu, u64 now)
{
    u64 waited = 0, off;
    stamps->running = now;
    if (span(&stamps->enqueued, now, cpu, &waited)) {
        latency(cpu, RUNQLAT, waited);
        add(MAP(sched_counters), cpu * LINE + WAIT, waited);
        add(MAP(cgroup_sched), slot * LINE + WAIT, waited);
    }
    if (span(&stamps->offcpu, now, cpu, &off) && off > waited) {
        latency(cpu, OFFCPU, off - waited);
        add(MAP(cgroup_sched), slot * LINE + OFF, off - waited);
    }
}
#endif

#if MIGRATIONS
static __always_inline void move(u32 slot, struct sched_stamps *stamps, u32 cpu)
{
    u64 last = stamps->cpu;
    if (last == cpu + 1)
        return;
    stamps->cpu = cpu + 1;
    if (!last)
        return;
    add(MAP(sched_moves), (last - 1) * LINE + MOVED_FROM, 1);
    add(MAP(sched_moves), cpu * LINE + MOVED_TO, 1);
    add(MAP(cgroup_sched), slot * LINE + MOVES, 1);
}
#endif

#if RUNQUEUE || MIGRATIONS
int sched_switch(u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 cpu = bpf_get_smp_processor_id();
    struct sched_stamps *stamps;
#if RUNQUEUE
    u64 now = bpf_ktime_get_ns();
    if ((stamps = stamps_of(FIELD(prev, pid))))
        leave(prev, stamps, ctx[0] & 1, cpu, now);
#endif
    if (!(stamps = stamps_of(FIELD(next, pid))))
        return 0;
    u32 slot = cgroup_slot(next);
#if RUNQUEUE
    arrive(slot, stamps, cpu, now);
#endif
#if MIGRATIONS
    move(slot, stamps, cpu);
#endif
    return 0;
}
#endif

#if USAGE
/* By thread id, of the instance that has it now. */
struct task_times {
    u64 utime; /* as of its last event, ns */
    u64 stime;
    u64 usage; /* charged since the daemon is there, ns */
    u64 unused;
};

/* Tasks born after this count from zero, others from their first observation. */
static __always_inline bool born_here(u64 started)
{
    u64 *since = cell(MAP(usage_events), SINCE);
    if (!since)
        return false;
    if (!*since)
        *since = bpf_ktime_get_ns();
    return started >= *since;
}

/* What utime and stime grew by since the last look. Another thread that takes over an id with exec may have less. */
static __always_inline u64 grown(u64 *last, u64 now)
{
    u64 amount = now > *last ? now - *last : 0;
    *last = now;
    return amount;
}

static __always_inline struct task_times *times_of(struct task_struct *task, u32 *row)
{
    bool is_new;
    *row = task_row(task, &is_new);
    struct task_times *times = *row ? (void *)bpf_map_lookup_elem_(MAP(task_times), row) : 0;
    if (times && is_new) {
        bool whole = born_here(FIELD(task, start_time));
        times->usage = 0;
        times->utime = whole ? 0 : FIELD(task, utime);
        times->stime = whole ? 0 : FIELD(task, stime);
    }
    return times;
}

/* Charge `runtime` to the task, to its cgroup and to the CPU it runs on. `exact` is false where only ticks are
 * known: then utime and stime are the charge. */
static __always_inline int charge(struct task_struct *task, u32 cpu, u64 runtime, bool exact)
{
    u32 row;
    u64 user = 0, system = 0;
    struct task_times *times = times_of(task, &row);
    if (times) {
        user = grown(&times->utime, FIELD(task, utime));
        system = grown(&times->stime, FIELD(task, stime));
    }
    if (!exact)
        runtime = user + system;
    u32 at = cpu * USAGE_WIDTH, slot = cgroup_slot(task) * LINE;
    add(MAP(cpu_times), at + CHARGED, runtime);
    add(MAP(cgroup_times), slot + CHARGED, runtime);
    if (user) {
        add(MAP(cpu_times), at + UTIME, user);
        add(MAP(cgroup_times), slot + UTIME, user);
    }
    if (system) {
        add(MAP(cpu_times), at + STIME, system);
        add(MAP(cgroup_times), slot + STIME, system);
    }
    if (!times)
        return 0;
    /* A task is charged a last time after it said that it ends: its series is over by then. */
    if (task_is_gone(row, FIELD(task, start_time))) {
        add(MAP(cpu_times), at + EXITED, runtime);
        add(MAP(cgroup_times), slot + EXITED, runtime);
    } else {
        times->usage += runtime;
    }
    return 0;
}

/* Every nanosecond that the scheduler charges to any task but the idle ones: fair, realtime and deadline. A charge
 * may come from another CPU, hence the task's own. */
int sched_stat_runtime(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    return charge(task, FIELD(task, TASK_CPU), ctx[1], true);
}

/* cpuacct_account_field(task, index, amount), of the tick: for kernels without the tracepoint. */
int account_fentry(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    return charge(task, bpf_get_smp_processor_id(), 0, false);
}

#if !TYPED && defined(ARGUMENT_1)
int account_kprobe(struct pt_regs *ctx)
{
    struct task_struct *task = (void *)ARGUMENT_1(ctx);
    return charge(task, bpf_get_smp_processor_id(), 0, false);
}
#endif

int sched_process_exit(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 row = FIELD(task, pid);
    u64 *started = cell(MAP(task_started), row);
    struct task_times *times = (void *)bpf_map_lookup_elem_(MAP(task_times), &row);
    /* A short one may end before it was charged anything. */
    if (started && times && *started == FIELD(task, start_time)) {
        add(MAP(cpu_times), bpf_get_smp_processor_id() * USAGE_WIDTH + EXITED, times->usage);
        add(MAP(cgroup_times), cgroup_slot(task) * LINE + EXITED, times->usage);
    }
    return task_ended(task);
}

/* A CPU's row of interrupt state: when the present one began, and what hard ones took so far, which is not a
 * soft one's that they interrupt. */
static __always_inline u64 *state(u32 which)
{
    return cell(MAP(irq_state), bpf_get_smp_processor_id() * LINE + which);
}

/* The idle task is charged nothing; and where the kernel keeps time of interrupts apart, nobody is charged theirs,
 * but for those that a ksoftirqd handles. */
static __always_inline void interrupted(u64 taken, bool soft)
{
    struct task_struct *task = current_task();
    bool unpaid = FIELD(task, pid) == 0;
#if IRQ_TIME
    u64 comm = 0;
    if (soft)
        bpf_probe_read_kernel(&comm, sizeof(comm), &task->comm);
    unpaid = unpaid || comm != KSOFTIRQ;
#endif
    if (unpaid)
        add(MAP(cpu_times), bpf_get_smp_processor_id() * USAGE_WIDTH + INTERRUPTS, taken);
}

int irq_handler_entry(u64 *ctx)
{
    u64 *begin = state(HARD_BEGIN);
    if (begin)
        *begin = bpf_ktime_get_ns();
    return 0;
}

int irq_handler_exit(u64 *ctx)
{
    u64 *begin = state(HARD_BEGIN), *total = state(HARD_TOTAL);
    if (!begin || !total || !*begin)
        return 0;
    u64 taken = bpf_ktime_get_ns() - *begin;
    u32 at = bpf_get_smp_processor_id() * USAGE_WIDTH;
    *begin = 0;
    *total += taken;
    add(MAP(cpu_times), at + HARDIRQ, 1);
    add(MAP(cpu_times), at + HARDIRQ_TIME, taken);
    interrupted(taken, false);
    return 0;
}

int softirq_entry(u64 *ctx)
{
    u64 *begin = state(SOFT_BEGIN), *total = state(HARD_TOTAL), *before = state(HARD_BEFORE);
    if (!begin || !total || !before)
        return 0;
    *before = *total;
    *begin = bpf_ktime_get_ns();
    return 0;
}

int softirq_exit(u64 *ctx)
{
    u64 *begin = state(SOFT_BEGIN), *total = state(HARD_TOTAL), *before = state(HARD_BEFORE);
    u32 vector = ctx[0];
    if (!begin || !total || !before || !*begin || vector >= SOFTIRQS)
        return 0;
    u64 whole = bpf_ktime_get_ns() - *begin, hard = *total - *before;
    u64 taken = whole > hard ? whole - hard : 0;
    u32 at = bpf_get_smp_processor_id() * USAGE_WIDTH;
    *begin = 0;
    add(MAP(cpu_times), at + SOFTIRQ + vector, 1);
    add(MAP(cpu_times), at + SOFTIRQ_TIME + vector, taken);
    interrupted(taken, true);
    return 0;
}
#endif

int cgroup_rmdir(u64 *ctx)
{
    return cgroup_removed((void *)ctx[0]);
}
