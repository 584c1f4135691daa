/* CPU bandwidth limits of cgroups and what they cost. The daemon's side is cpu_bandwidth.py.
 *
 * Always of the cpu controller's own hierarchy, since the limits are. A cgroup is known from the first change of its
 * limit or the first throttling on. */
#include "hook.h"
#include "bank.h"
#include "cgroup.h"

static __always_inline void put(u32 row, u32 column, u64 value)
{
    u64 *found = cell(MAP(bandwidth), row + column);
    if (found)
        *found = value;
}

static __always_inline void raise(u32 row, u32 column, u64 value)
{
    u64 *found = cell(MAP(bandwidth), row + column);
    if (found && *found < value)
        *found = value;
}

static __always_inline u32 slot_of(struct task_group *group)
{
    return cgroup_slot_of(PROBED(group, css.cgroup));
}

static __always_inline void limits(u32 row, u64 period, u64 quota)
{
    put(row, PERIOD, period);
    put(row, QUOTA, quota); /* all ones: no limit */
    put(row, KNOWN, 1);
}

/* tg_set_cfs_bandwidth(group, period, quota, burst): after it, the group has the new limit. */
int set_fexit(u64 *ctx)
{
    struct task_group *group = (void *)ctx[0];
    u32 slot = slot_of(group);
    if (slot)
        limits(slot * WIDTH, PROBED(group, cfs_bandwidth.period), PROBED(group, cfs_bandwidth.quota));
    return 0;
}

#if !TYPED && defined(ARGUMENT_1)
/* Before it, only the arguments tell; since 6.17 they are in microseconds. */
int set_kprobe(struct pt_regs *ctx)
{
    u64 period = ARGUMENT_2(ctx), quota = ARGUMENT_3(ctx);
    u32 slot = slot_of((void *)ARGUMENT_1(ctx));
#if MICROSECONDS
    period *= 1000;
    quota = quota == ~0ULL ? quota : quota * 1000;
#endif
    if (slot)
        limits(slot * WIDTH, period, quota);
    return 0;
}
#endif

static __always_inline u64 *begin_of(struct cfs_rq *queue, u32 slot)
{
    struct rq *rq = PROBED(queue, rq);
    return cell(MAP(throttled_at), (u32)PROBED(rq, cpu) * SLOTS + slot);
}

static __always_inline int throttled(struct cfs_rq *queue)
{
    struct task_group *group = PROBED(queue, tg);
    u32 slot = slot_of(group);
    u64 *begin = begin_of(queue, slot);
    if (!slot || !begin)
        return 0;
    if (!*begin) /* asked again while it is throttled already */
        *begin = bpf_ktime_get_ns();
    add(MAP(bandwidth), slot * WIDTH + THROTTLED, 1);
    limits(slot * WIDTH, PROBED(group, cfs_bandwidth.period), PROBED(group, cfs_bandwidth.quota));
    return 0;
}

static __always_inline int unthrottled(struct cfs_rq *queue)
{
    struct task_group *group = PROBED(queue, tg);
    u32 slot = slot_of(group);
    u64 *begin = begin_of(queue, slot);
    if (!slot || !begin)
        return 0;
    raise(slot * WIDTH, PERIODS, (u32)PROBED(group, cfs_bandwidth.nr_periods));
    raise(slot * WIDTH, THROTTLED_PERIODS, (u32)PROBED(group, cfs_bandwidth.nr_throttled));
    raise(slot * WIDTH, KERNEL_TIME, PROBED(group, cfs_bandwidth.throttled_time));
    if (*begin)
        add(MAP(bandwidth), slot * WIDTH + THROTTLED_TIME, bpf_ktime_get_ns() - *begin);
    *begin = 0;
    return 0;
}

int throttle_fentry(u64 *ctx)
{
    return throttled((void *)ctx[0]);
}
int unthrottle_fentry(u64 *ctx)
{
    return unthrottled((void *)ctx[0]);
}
#if !TYPED && defined(ARGUMENT_1)
int throttle_kprobe(struct pt_regs *ctx)
{
    return throttled((void *)ARGUMENT_1(ctx));
}
int unthrottle_kprobe(struct pt_regs *ctx)
{
    return unthrottled((void *)ARGUMENT_1(ctx));
}
#endif

int cgroup_rmdir(u64 *ctx)
{
    return cgroup_removed((void *)ctx[0]);
}
