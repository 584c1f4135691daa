/* From a task to the dense slot of its cgroup. The daemon's side is identity.py.
 *
 * Maps:   cgroup_ids      slot -> identity (kernfs id, never reused within a boot), 0 when the slot is free
 *         cgroup_last     CPU, lowest bits of the identity -> slot found last, a cache
 *         cgroup_slots    identity -> slot and cgroup
 *         cgroup_free     slots nobody has; the daemon gives back those of removed cgroups
 *         cgroup_records  slot -> what the cgroup is called, written before the slot is used
 *         cgroup_gone     slot -> 1 once its cgroup was removed
 *         cgroup_events   [0] arrivals and removals so far, [1] events of cgroups that found no free slot
 *
 * Slot 0 is everybody's who has no slot of their own, so that no event is lost.
 */
#pragma once
#include "bank.h"
#include "cgroup_name.h"

#define CGROUP_ONLINE 2 /* CSS_ONLINE: not being removed */

struct cgroup_record {
    u64 id;
    u64 label;
    u64 level;
    char names[3][CGROUP_NAME]; /* own, parent's, grandparent's */
};

struct cgroup_place {
    u64 cgroup;
    u64 slot;
};

static __always_inline void cgroup_describe(u32 slot, u64 id, struct cgroup *cgroup, struct kernfs_node *node)
{
    struct cgroup_record *record = (void *)bpf_map_lookup_elem_(MAP(cgroup_records), &slot);
    if (!record)
        return;
    record->id = id;
    record->level = PROBED(cgroup, level);
#if CGROUP_V2
    record->label = id;
#else
    struct cgroup_subsys_state *css = PROBED(cgroup, subsys[CPU_CGROUP]);
    record->label = PROBED(css, id);
#endif
    cgroup_names(record->names, node);
}

/* The way that is taken when a CPU's cached slot is another cgroup's. */
static __always_inline u32 cgroup_find(u64 id, struct cgroup *cgroup, struct kernfs_node *node)
{
    struct cgroup_place *known = (void *)bpf_map_lookup_elem_(MAP(cgroup_slots), &id);
    if (known)
        return known->slot;
    if (!(PROBED(cgroup, self.flags) & CGROUP_ONLINE))
        return 0; /* a last sign of a task that outlives its cgroup must not bring the series back */
    u32 slot = 0;
    if (bpf_map_pop_elem((void *)MAP(cgroup_free), &slot)) {
        add(MAP(cgroup_events), 1, 1);
        return 0;
    }
    cgroup_describe(slot, id, cgroup, node);
    struct cgroup_place place = {.cgroup = (u64)cgroup, .slot = slot};
    if (bpf_map_update_elem((void *)MAP(cgroup_slots), &id, &place, BPF_NOEXIST)) {
        /* Another CPU was faster. */
        bpf_map_push_elem((void *)MAP(cgroup_free), &slot, 0);
        known = (void *)bpf_map_lookup_elem_(MAP(cgroup_slots), &id);
        return known ? known->slot : 0;
    }
    u64 *owner = cell(MAP(cgroup_ids), slot);
    if (owner)
        *owner = id;
    add(MAP(cgroup_events), 0, 1);
    return slot;
}

/* The cached slot is believed only if the slot's owner is this cgroup. That makes the cache safe against being
 * interrupted between two writes, and against a slot being given to another cgroup. */
static __always_inline u32 cgroup_slot_of(struct cgroup *cgroup)
{
    struct kernfs_node *node = FIELD(cgroup, kn);
    u64 id = FIELD(node, id);
    u64 *last = cell(MAP(cgroup_last), bpf_get_smp_processor_id() * 8 + id % 8);
    if (!last)
        return 0;
    u32 slot = *last;
    u64 *owner = cell(MAP(cgroup_ids), slot);
    if (owner && *owner == id)
        return slot;
    slot = cgroup_find(id, cgroup, node);
    *last = slot;
    return slot;
}

static __always_inline u32 cgroup_slot(struct task_struct *task)
{
    return cgroup_slot_of(task_cgroup(task));
}

/* Body of the program on the cgroup_rmdir tracepoint. Identities are unique within a hierarchy only, and this
 * fires for all of them, hence the comparison of the cgroups themselves. */
static __always_inline int cgroup_removed(struct cgroup *cgroup)
{
    struct kernfs_node *node = PROBED(cgroup, kn);
    u64 id = PROBED(node, id);
    struct cgroup_place *known = (void *)bpf_map_lookup_elem_(MAP(cgroup_slots), &id);
    if (!known || known->cgroup != (u64)cgroup)
        return 0;
    u64 *gone = cell(MAP(cgroup_gone), known->slot);
    if (gone)
        *gone = 1;
    add(MAP(cgroup_events), 0, 1);
    return 0;
}
