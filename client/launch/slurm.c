/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/slurm.h"

#include "common/base/quote.h"
#include "common/base/scan.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * A list of hosts is items with commas between them. An item is text and sets of numbers in
 * brackets, and stands for as many hosts as the product of its sets' sizes. Nothing is expanded:
 * sizes are multiplied, so that a short list of very many hosts costs nothing.
 */

enum { HOST_MAX = 256, NUMBER_DIGITS_MAX = 18 };

static bool is_host_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Appends n bytes; false if there is no room. */
static bool append_bytes(char to[HOST_MAX], const char *from, size_t n)
{
	size_t len = strlen(to);

	if (n >= HOST_MAX - len)
		return false;
	memcpy(to + len, from, n);
	to[len + n] = '\0';
	return true;
}

static int read_number(const char **p, uint64_t *ret)
{
	const char *begin = *p;
	int r = scan_u64(p, ret);

	return r < 0 || *p - begin > NUMBER_DIGITS_MAX ? -EINVAL : 0;
}

/* Reads "1-3,07]" behind a bracket: how many numbers, and the first one as it is written. */
static int read_set(const char **at, uint64_t *ret_n, char first[HOST_MAX])
{
	const char *p = *at;
	uint64_t n = 0;

	for (;;) {
		const char *begin = p;
		uint64_t low, high;

		if (!is_digit(*p) || read_number(&p, &low) < 0)
			return -EINVAL;
		if (!n && !append_bytes(first, begin, (size_t)(p - begin)))
			return -EINVAL;
		high = low;
		if (*p == '-') {
			p++;
			if (read_number(&p, &high) < 0 || high < low)
				return -EINVAL;
		}
		n += high - low + 1;
		if (n > SPEC_NODES_MAX)
			return -EINVAL;
		if (*p == ']')
			break;
		if (*p++ != ',')
			return -EINVAL;
	}
	*at = p + 1;
	*ret_n = n;
	return 0;
}

/* Reads an item up to a comma or the end: how many hosts, and the first one's name. */
static int read_item(const char **at, uint64_t *ret_n, char first[HOST_MAX])
{
	const char *p = *at;
	uint64_t n = 1, set;

	first[0] = '\0';
	while (*p && *p != ',') {
		if (*p == '[') {
			p++;
			if (read_set(&p, &set, first) < 0)
				return -EINVAL;
			n *= set; /* both are at most SPEC_NODES_MAX */
			if (n > SPEC_NODES_MAX)
				return -EINVAL;
			continue;
		}
		if (!is_host_letter(*p) || !append_bytes(first, p, 1))
			return -EINVAL;
		p++;
	}
	if (!*first || *first == '-' || *first == '.')
		return -EINVAL;
	*at = p;
	*ret_n = n;
	return 0;
}

int slurm_hosts(const char *list, int *ret_n, char ret_first[256])
{
	char first[HOST_MAX], other[HOST_MAX];
	const char *p = list;
	uint64_t n, more;
	int r = read_item(&p, &n, first);

	while (r == 0 && *p) {
		p++; /* a comma */
		r = read_item(&p, &more, other);
		if (r == 0)
			n += more;
		if (n > SPEC_NODES_MAX)
			r = -EINVAL;
	}
	if (r < 0)
		return r;
	*ret_n = (int)n;
	memcpy(ret_first, first, sizeof(first));
	return 0;
}

/* Reads "2" or "2(x3)"; the count of hosts matters only in its form. */
static int read_tasks(const char **at, uint64_t *ret)
{
	const char *p = *at;
	uint64_t hosts;

	if (read_number(&p, ret) < 0 || !*ret || *ret > INT32_MAX)
		return -EINVAL;
	if (*p == '(') {
		if (p[1] != 'x')
			return -EINVAL;
		p += 2;
		if (read_number(&p, &hosts) < 0 || !hosts || *p++ != ')')
			return -EINVAL;
	}
	*at = p;
	return 0;
}

int slurm_tasks(const char *text, int *ret_most)
{
	const char *p = text;
	uint64_t most = 0, n;

	for (;;) {
		if (read_tasks(&p, &n) < 0)
			return -EINVAL;
		most = n > most ? n : most;
		if (!*p)
			break;
		if (*p++ != ',')
			return -EINVAL;
	}
	*ret_most = (int)most;
	return 0;
}

/* Variables that are set to nothing count as not set. */
static const char *get_variable(slurm_variable_fn variable, const char *name)
{
	const char *value = variable(name);

	return value && *value ? value : NULL;
}

static int refuse_value(struct error *err, const char *name, const char *what, const char *value)
{
	char q[QUOTE_MAX];

	return error_field(err, -EINVAL, name, "expected %s, got %s", what,
		value ? quote_text(value, q) : "nothing");
}

/* Reads the number in the variable, or in the older one of its names. */
static int get_number(slurm_variable_fn variable, const char *name, const char *older, uint64_t max,
	uint64_t *ret, struct error *err)
{
	const char *value = get_variable(variable, name);
	char what[64];

	if (!value && older)
		value = get_variable(variable, older);
	snprintf(what, sizeof(what), "a number from 0 to %llu", (unsigned long long)max);
	if (!value || scan_whole(value, max, ret) < 0)
		return refuse_value(err, name, what, value);
	return 0;
}

/* Each host runs one agent, which starts all workers there: refuses several tasks on a host. What
 * the step says holds over what the job asked for. */
static int check_tasks(slurm_variable_fn variable, struct error *err)
{
	const char *name = "SLURM_STEP_TASKS_PER_NODE", *value = get_variable(variable, name);
	int most;

	if (!value) {
		name = "SLURM_NTASKS_PER_NODE";
		value = get_variable(variable, name);
	}
	if (!value)
		return 0;
	if (slurm_tasks(value, &most) < 0)
		return refuse_value(err, name, "tasks of each host such as \"1(x4)\"", value);
	if (most == 1)
		return 0;
	return error_field(err, -EINVAL, name,
		"expected one task of the step on each host, got %d: start it with srun "
		"--ntasks-per-node=1",
		most);
}

static int read_hosts(
	slurm_variable_fn variable, struct slurm_step *s, char first[HOST_MAX], struct error *err)
{
	const char *list = get_variable(variable, "SLURM_STEP_NODELIST");
	const char *count = get_variable(variable, "SLURM_STEP_NUM_NODES");
	char what[64];
	uint64_t n;
	int r;

	if (slurm_hosts(list, &s->hosts, first) < 0)
		return refuse_value(err, "SLURM_STEP_NODELIST",
			"at most 16384 hosts such as \"node[1-4,7]\"", list);
	snprintf(what, sizeof(what), "%d, as many as SLURM_STEP_NODELIST names", s->hosts);
	if (count && (scan_whole(count, SPEC_NODES_MAX, &n) < 0 || n != (uint64_t)s->hosts))
		return refuse_value(err, "SLURM_STEP_NUM_NODES", what, count);
	r = get_number(variable, "SLURM_NODEID", NULL, (uint64_t)s->hosts - 1, &n, err);
	if (r == 0)
		s->rank = (int)n;
	return r;
}

/* Where the host stands has dots between its parts; the host's name alone says nothing. */
static int read_topology(slurm_variable_fn variable, struct slurm_step *s, struct error *err)
{
	const char *name = "SLURM_TOPOLOGY_ADDR", *value = get_variable(variable, name);
	const char *pattern = get_variable(variable, "SLURM_TOPOLOGY_ADDR_PATTERN");

	if (!value || !strchr(value, '.') || (pattern && !strcmp(pattern, "node")))
		return 0;
	if (strlen(value) < sizeof(s->topology) && !strchr(value, '/')) {
		strcpy(s->topology, value);
		for (char *p = s->topology; *p; p++)
			if (*p == '.')
				*p = '/';
		if (topology_is(s->topology))
			return 0;
	}
	return refuse_value(err, name, "1 to 16 parts with dots between them", value);
}

int slurm_read(slurm_variable_fn variable, struct slurm_step *ret, struct error *err)
{
	enum { PORTS = 1000 };
	struct endpoint e = { .has_port = true };
	struct slurm_step s = { .hosts = 0 };
	uint64_t job, step, restarts = 0;
	int r;

	if (!get_variable(variable, "SLURM_STEP_NODELIST"))
		return -ENOENT;
	r = check_tasks(variable, err);
	if (r == 0)
		r = read_hosts(variable, &s, e.host, err);
	if (r == 0)
		r = get_number(variable, "SLURM_JOB_ID", "SLURM_JOBID", UINT32_MAX, &job, err);
	if (r == 0)
		r = get_number(variable, "SLURM_STEP_ID", "SLURM_STEPID", UINT32_MAX, &step, err);
	if (r == 0 && get_variable(variable, "SLURM_RESTART_COUNT"))
		r = get_number(variable, "SLURM_RESTART_COUNT", NULL, UINT32_MAX, &restarts, err);
	if (r == 0)
		r = read_topology(variable, &s, err);
	if (r < 0)
		return r;
	e.port = ENDPOINT_PORT + (int)(job % PORTS);
	endpoint_text(&e, s.endpoint);
	snprintf(s.id, sizeof(s.id), "slurm-%llu.%llu.%llu", (unsigned long long)job,
		(unsigned long long)step, (unsigned long long)restarts);
	*ret = s;
	return 0;
}
