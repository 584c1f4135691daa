/* One event by every kind of hook: a count and a sum of one argument each, of the process wanted only. */
#include "hook.h"
#include "bank.h"

static __always_inline int seen(u32 first, u64 argument)
{
    if ((u32)(bpf_get_current_pid_tgid() >> 32) == *(cell(MAP(wanted), 0) ?: &(u64){0})) {
        add(MAP(seen), first, 1);
        add(MAP(seen), first + 1, argument);
    }
    return 0;
}

/* raw_syscalls/sys_enter: the number of the call. */
int typed(u64 *ctx)
{
    return seen(0, ctx[1]);
}
int raw(u64 *ctx)
{
    return seen(6, ctx[1]);
}
int classic(struct trace_event_raw_sys_enter *ctx)
{
    return seen(4, ctx->id);
}

/* vfs_read(file, buffer, count, position): how many bytes are wanted. */
int at_entry(u64 *ctx)
{
    return seen(2, ctx[2]);
}
int at_exit(u64 *ctx)
{
    return seen(10, ctx[2]);
}
int probed(struct pt_regs *ctx)
{
    return seen(8, ctx->dx);
}
