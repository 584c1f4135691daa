/* Which cgroup of a task is meant, and what it is called. */
#pragma once
#include "hook.h"

static __always_inline struct cgroup *task_cgroup(struct task_struct *task)
{
    struct css_set *set = FIELD(task, cgroups);
#if CGROUP_V2
    return FIELD(set, dfl_cgrp);
#else
    /* The nearest cgroup that has a cpu controller of its own. Unlike task->sched_task_group, autogroups
     * do not get in between. */
    struct cgroup_subsys_state *css = FIELD(set, subsys[CPU_CGROUP]);
    return FIELD(css, cgroup);
#endif
}

/* A cgroup's own name, its parent's and its grandparent's. */
static __always_inline void cgroup_names(char names[3][CGROUP_NAME], struct kernfs_node *node)
{
#pragma unroll
    for (int i = 0; i < 3; i++) {
        /* Without a node or a name this fails and leaves an empty string. */
        bpf_probe_read_kernel_str(names[i], CGROUP_NAME, PROBED(node, name));
        node = PROBED(node, KERNFS_PARENT);
    }
}
