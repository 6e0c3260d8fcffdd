/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"
#include "common/base/quote.h"
#include "common/base/scan.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * --nnodes=auto: Slurm says all that several hosts need to meet; PMI and Open MPI say how many
 * there are, and which this one is. Flags and job files take precedence.
 */

static const struct mpi {
	const char *size, *rank;
	const char *local; /* processes on this host */
	const char *mend;
} mpis[] = {
	{ "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
		"mpirun --map-by ppr:1:node" },
	{ "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "mpiexec -ppn 1" },
};

static const char *get_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int auto_expected(
	const struct launch_state *s, const char *name, const char *expected, const char *value)
{
	char q[QUOTE_MAX];

	return launch_refuse(s, OPT_NNODES, "auto: %s: expected %s, got %s", name, expected,
		value ? quote_text(value, q) : "nothing");
}

static int read_mpi(struct launch_state *s, const struct mpi *m)
{
	const char *size = get_variable(m->size), *rank = get_variable(m->rank),
		   *local = get_variable(m->local);
	char expected[128];
	uint64_t n, i;

	if (scan_whole(size, SPEC_NODES_MAX, &n) < 0 || !n)
		return auto_expected(s, m->size, "a number from 1 to 16384", size);
	snprintf(expected, sizeof(expected), "a rank from 0 to %d", (int)n - 1);
	if (!rank || scan_whole(rank, n - 1, &i) < 0)
		return auto_expected(s, m->rank, expected, rank);
	snprintf(expected, sizeof(expected), "1 process on each host, as with %s", m->mend);
	if (local && strcmp(local, "1") != 0)
		return auto_expected(s, m->local, expected, local);
	s->step = (struct slurm_step){ .hosts = (int)n, .rank = (int)i };
	return 0;
}

static int read_any(struct launch_state *s)
{
	struct error err = { 0 };
	int r = slurm_read(getenv, &s->step, &err);

	if (r == -EINVAL)
		return launch_refuse(s, OPT_NNODES, "auto: %s", err.text);
	if (r == 0)
		return 0;
	for (size_t i = 0; i < sizeof(mpis) / sizeof(mpis[0]); i++)
		if (get_variable(mpis[i].size))
			return read_mpi(s, &mpis[i]);
	if (get_variable("SLURM_JOB_ID"))
		return launch_refuse(s, OPT_NNODES,
			"auto: expected a step of the Slurm job: start it with srun");
	return launch_refuse(
		s, OPT_NNODES, "auto: expected a step of Slurm, or a process of Open MPI or PMI");
}

int launch_auto(struct launch_state *s)
{
	char nodes[32];
	int r = read_any(s);

	if (r < 0)
		return r;
	snprintf(nodes, sizeof(nodes), "%d:%d", s->step.hosts, s->step.hosts);
	return launch_set(s, "rendezvous", "nodes", json_string(nodes));
}

static bool has_key(const struct launch_state *s, const char *key)
{
	return json_object_get(json_object_get(s->doc, "rendezvous"), key);
}

int launch_auto_complete(struct launch_state *s)
{
	const char *backend = json_get_string(json_object_get(s->doc, "rendezvous"), "backend", "");
	bool master = has_key(s, "master_addr"), etcd = !strncmp(backend, "etcd", 4);
	int r = 0;

	if (!s->step.hosts)
		return 0;
	if (*s->step.id && !has_key(s, "id"))
		r = launch_set(s, "rendezvous", "id", json_string(s->step.id));
	if (r < 0 || s->step.hosts == 1)
		return r;
	if (*s->step.topology && !has_key(s, "topology"))
		r = launch_set(s, "rendezvous", "topology", json_string(s->step.topology));
	/* Where hosts stand orders them better than Slurm's list; static needs a node rank. */
	if (r == 0 && !has_key(s, "node_rank") &&
		(master || !strcmp(backend, "static") ||
			(!has_key(s, "topology") && !has_key(s, "segment"))))
		r = launch_set(s, "rendezvous", "node_rank", json_integer(s->step.rank));
	if (r == 0 && *s->step.endpoint && !master && !etcd && !has_key(s, "endpoints"))
		r = launch_set(s, "rendezvous", "endpoints", json_string(s->step.endpoint));
	/* Else the node rank would mean static. */
	if (r == 0 && !master && !has_key(s, "backend"))
		r = launch_set(s, "rendezvous", "backend", json_string("direct"));
	return r;
}
