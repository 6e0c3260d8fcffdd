/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of this room share:
 *
 *   resources.c  the hooks
 *   binding.c    the CPUs that each worker is bound to (resources.affinity)
 */

#include "agent/resources/resources.h"

struct resources {
	struct supervisor *sv;
	struct binding *binding;
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
