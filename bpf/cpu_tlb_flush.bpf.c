/* TLB flushes by cause, by CPU and cgroup. The daemon's side is cpu_tlb_flush.py. */
#include "hook.h"
#include "bank.h"
#include "cgroup.h"

static __always_inline int flushed(u64 reason)
{
    if (reason >= REASONS)
        return 0;
    add(MAP(tlb_flushes), bpf_get_smp_processor_id() * LINE + reason, 1);
    add(MAP(cgroup_flushes), cgroup_slot(current_task()) * LINE + reason, 1);
    return 0;
}

/* Of x86_64: tlb_flush(reason, pages). */
int tlb_flush(u64 *ctx)
{
    u32 reason = ctx[0];
    return flushed(reason < UNKNOWN ? reason : REASONS);
}

/* Elsewhere: the end of a change to page tables that a flush goes with. */
int tlb_finish_mmu(void *ctx)
{
    return flushed(UNKNOWN);
}

int cgroup_rmdir(u64 *ctx)
{
    return cgroup_removed((void *)ctx[0]);
}
