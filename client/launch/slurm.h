/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the variables of a process in a step of Slurm: its hosts, this one's place among them, and
 * where they can meet. Pure: the caller gives the variables; looks up no name. Called by auto.c.
 */

#include "common/base/error.h"
#include "common/text/endpoint.h"
#include "common/text/topology.h"

enum { SLURM_ID_MAX = 80 };

struct slurm_step {
	int hosts, rank;
	char endpoint[ENDPOINT_TEXT_MAX]; /* the first host, and a port that follows from the job */
	char id[SLURM_ID_MAX];		  /* "slurm-JOB.STEP.RESTARTS" */
	char topology[TOPOLOGY_TEXT_MAX]; /* where this host stands; "": Slurm does not know */
};

/* The value of a variable, borrowed; NULL if it is not set. As getenv(). */
typedef char *(*slurm_variable_fn)(const char *name);

/* Returns 0, -ENOENT outside a step, or -EINVAL with err naming the variable: also if several tasks
 * of the step are on one host. ret is untouched after an error. */
int slurm_read(slurm_variable_fn variable, struct slurm_step *ret, struct error *err)
	__attribute__((warn_unused_result));

/* Reads a list of hosts such as "node[1-3,07],rack[0-1]n[1-8],login": how many there are, at most
 * SPEC_NODES_MAX, and the name of the first. 0 or -EINVAL. */
int slurm_hosts(const char *list, int *ret_n, char ret_first[256])
	__attribute__((warn_unused_result));

/* Reads tasks per host such as "2(x3),1": the most on one host. 0 or -EINVAL. */
int slurm_tasks(const char *text, int *ret_most) __attribute__((warn_unused_result));
