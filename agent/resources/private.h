/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room:
 *
 *   resources.c  the hooks
 *   gate.c       delays an attempt until GPU memory is free and resources.health succeeds
 *   gpu_wait.c   waits for GPU memory to be free; gpu_memory.c is the program that reads it
 *   gpu_usage.c  the program that says who uses GPUs, for elasticctl top
 *   core_dump.c  finds and keeps core dumps (resources.core_dumps)
 *   kernel.c     finds in the kernel's log why a worker has ended
 *   binding.c    the CPUs that each worker is bound to (resources.affinity)
 */

#include "agent/process/kernel_log.h"
#include "agent/resources/resources.h"

struct resources {
	struct supervisor *sv;
	struct binding *binding;
	struct gate *gate;			 /* NULL: attempts begin at once */
	struct kernel_log *kernel;		 /* NULL: it cannot be read */
	struct spec_rlimit limits[RLIM_NLIMITS]; /* core_dump_limit() */
	struct gpu_wait *gpu_wait;		 /* NULL: their memory is not watched */
};

/* binding.c. NULL: workers are not bound. */
struct binding *binding_free(struct binding *b);
/* Chooses the CPUs of all workers, and reports a choice that differs from the last one. */
_must_check_ int binding_prepare(struct resources *x, struct error *err);
/* Borrowed until the next attempt; NULL: w is not bound. */
const struct cpus *binding_cpus(const struct resources *x, const struct worker *w);
_must_check_ int binding_environment(
	const struct resources *x, const struct worker *w, struct env *e);

/* gate.c. Makes one where the specification asks for it. */
_must_check_ int gate_new(struct resources *x, struct error *err);
struct gate *gate_free(struct gate *g);
/* As the hook delays_attempt. */
bool gate_delays(struct gate *g, feature_ready_fn fn, void *arg);
/* The supervisor wants no attempt any more. */
void gate_cancel(struct gate *g);
bool gate_child_exited(struct gate *g, const siginfo_t *si);
pid_t gate_pid(const struct gate *g); /* of its program; 0: none runs */

/* gpu_wait.c. Makes one where there are GPUs of NVIDIA, or the specification asks for it. */
_must_check_ int gpu_wait_new(struct resources *x, struct error *err);
struct gpu_wait *gpu_wait_free(struct gpu_wait *g);
/* An attempt is about to begin. Returns true if it calls fn later: before the first attempt when it
 * has read how much memory is in use, before another one when no more than that is in use, and at
 * the latest when the time is over. */
bool gpu_wait_begin(struct gpu_wait *g, loop_fn fn, void *arg);
void gpu_wait_cancel(struct gpu_wait *g); /* fn is not called, and the program is killed */
bool gpu_wait_child_exited(struct gpu_wait *g, const siginfo_t *si);
pid_t gpu_wait_pid(const struct gpu_wait *g); /* of its program; 0: none runs */

/* core_dump.c: w has ended. Notes where its core dump is, if there is one. */
void core_dump_find(struct resources *x, struct worker *w);
/* Sets the limit of core dumps for the process of a worker, unless its role has one. */
void core_dump_limit(struct resources *x, struct spawn_request *req);

/* kernel.c: w has ended. Adds to its exit why, by the kernel's log. */
void kernel_note_end(struct resources *x, struct worker *w);
