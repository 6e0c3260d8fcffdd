/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of this room share:
 *
 *   resources.c  the hooks
 *   gate.c       what has to be well before an attempt begins (resources.health)
 *   binding.c    the CPUs that each worker is bound to (resources.affinity)
 */

#include "agent/resources/resources.h"

struct resources {
	struct supervisor *sv;
	struct binding *binding;
	struct gate *gate; /* NULL: attempts begin at once */
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
