/* System calls by class: how many, by CPU and by cgroup (COUNTS), and how long they took (LATENCY).
 * One program for each hook, whichever of the two samplers want it: a second program on sys_enter would cost
 * 53 ns a call before doing anything. The daemon's side is syscall.py. */
#include "hook.h"
#include "bank.h"
#include "histogram.h"
#if COUNTS
#include "cgroup.h"
#endif

/* A 32-bit task's numbers mean other calls. */
static __always_inline bool is_compat(struct task_struct *task)
{
#if ARCH_x86_64
    return FIELD(task, thread_info.status) & 0x2; /* TS_COMPAT */
#elif ARCH_aarch64
    return FIELD(task, thread_info.flags) & (1 << 22); /* TIF_32BIT */
#else
    return false;
#endif
}

/* The class of a call, with NO_RETURN beside it; unknown and negative numbers are class 0, `other`. */
static __always_inline u32 class_of(struct task_struct *task, u32 number)
{
    u64 *entry = cell(MAP(syscall_classes), number);
    return entry && !is_compat(task) ? *entry : 0;
}

int sys_enter(u64 *ctx)
{
    struct task_struct *task = current_task();
    u32 found = class_of(task, ctx[1]);
    u32 op = found & OP_MASK;
#if COUNTS
    add(MAP(syscall_counts), bpf_get_smp_processor_id() * COUNTS_WIDTH + op, 1);
    add(MAP(cgroup_counts), cgroup_slot(task) * COUNTS_WIDTH + op, 1);
#endif
#if LATENCY
    /* Time and class in one cell. Shifted time wraps within u64; spans up to 18 years come out right.
     * A call that never returns leaves no stamp, for the next thread with this id begins by returning from
     * the call that made it. */
    u64 *stamp = cell(MAP(syscall_stamps), bpf_get_current_pid_tgid());
    if (stamp)
        *stamp = found & NO_RETURN ? 0 : bpf_ktime_get_ns() << OP_BITS | op;
#endif
    return 0;
}

#if LATENCY
int sys_exit(u64 *ctx)
{
    u64 *stamp = cell(MAP(syscall_stamps), bpf_get_current_pid_tgid());
    if (!stamp || !*stamp)
        return 0; /* entered before we were here, or refused by seccomp before it was entered */
    u64 begin = *stamp;
    *stamp = 0;
    struct pt_regs *regs = (void *)ctx[0];
    u32 op = begin & OP_MASK;
    /* The classes differ when a thread calls exec and returns with its leader's id, and so its stamp. */
    if ((class_of(current_task(), FIELD(regs, SYSCALL_NUMBER)) & OP_MASK) != op)
        return 0;
    u64 span = ((bpf_ktime_get_ns() << OP_BITS) - (begin & ~(u64)OP_MASK)) >> OP_BITS;
    add(MAP(syscall_latencies), op * H2_BUCKETS + h2_bucket(span), 1);
    return 0;
}
#endif

#if COUNTS
int cgroup_rmdir(u64 *ctx)
{
    return cgroup_removed((void *)ctx[0]);
}
#endif
