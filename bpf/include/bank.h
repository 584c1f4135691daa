/* Cells of an mmapped array of u64. A bank has a row for each CPU or slot; a row is whole cache lines. */
#pragma once
#include "hook.h"

static __always_inline u64 *cell(u64 map, u32 index)
{
    return (u64 *)bpf_map_lookup_elem_(map, &index);
}

/* Atomic even in a CPU's own row: a program may be interrupted by another, or count for a CPU not its own. */
static __always_inline void add(u64 map, u32 index, u64 amount)
{
    u64 *found = cell(map, index);
    if (found)
        __sync_fetch_and_add(found, amount);
}
