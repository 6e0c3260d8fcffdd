/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of this room share:
 *
 *   resources.c  the hooks
 *   gate.c       what has to be well before an attempt begins (resources.health)
 *   gpus.c       waits for GPU memory to be free before another attempt; gpu_memory.c is the
 *                program that looks
 *   core_dump.c  finds and keeps core dumps (resources.core_dumps)
 *   kernel.c     what the kernel's log says about a worker's end
 *   binding.c    the CPUs that each worker is bound to (resources.affinity)
 */

#include "agent/process/kernel_log.h"
#include "agent/resources/resources.h"

struct resources {
	struct supervisor *sv;
	struct binding *binding;
	struct gate *gate;			 /* NULL: attempts begin at once */
	struct kernel_log *kernel;		 /* NULL: it cannot be read */
	struct spec_rlimit limits[RLIM_NLIMITS]; /* of the process that is being made */
	struct gpus *gpus;			 /* NULL: their memory is not watched */
};

struct resources *resources_of(const struct supervisor *sv); /* NULL: nothing is to be done */

/* binding.c. NULL: workers are not bound. */
struct binding *binding_free(struct binding *b);
/* Chooses the CPUs of all workers, and tells where it is another choice than before. */
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
/* No attempt is to begin any more. */
void gate_leave(struct gate *g);
bool gate_child_exited(struct gate *g, const siginfo_t *si);
pid_t gate_pid(const struct gate *g); /* of its program; 0: none runs */

/* gpus.c. Makes one where there are GPUs of NVIDIA, or the specification asks for it. */
_must_check_ int gpus_new(struct resources *x, struct error *err);
struct gpus *gpus_free(struct gpus *g);
/* An attempt is about to begin. Returns true if it calls fn later: for the first one when it has
 * read how much memory is in use; then when no more is; or when the time is over. */
bool gpus_wait(struct gpus *g, loop_fn fn, void *arg);
void gpus_leave(struct gpus *g); /* fn is not called, and the program is killed */
bool gpus_child_exited(struct gpus *g, const siginfo_t *si);
pid_t gpus_pid(const struct gpus *g); /* of its program; 0: none runs */

/* core_dump.c: w has ended with one. Notes where it is. */
void core_dump_find(struct resources *x, struct worker *w);
/* Sets the limit of core dumps for the process of a worker, unless its role has one. */
void core_dump_limit(struct resources *x, struct spawn_request *req);

/* kernel.c: w has ended. Adds to its exit what the kernel's log says about that. */
void kernel_note_end(struct resources *x, struct worker *w);
