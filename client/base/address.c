/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/address.h"

#include "common/base/quote.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <string.h>

void address_fini(struct address *a)
{
	free(a->job);
	free(a->ranks);
	free(a->role);
	free(a->indexes);
	*a = (struct address){ 0 };
}

/* Checks a set of numbers and stores its shortest form. */
static int parse_set(const char *text, const char *what, char **ret, struct error *err)
{
	struct ranks set = { 0 };
	int r = ranks_parse(&set, text, what, err);

	if (r < 0)
		return r;
	*ret = ranks_to_string(&set);
	ranks_fini(&set);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int parse_workers(const char *text, struct address *a, struct error *err)
{
	const char *colon = strchr(text, ':');

	if (text[strspn(text, "0123456789,- ")] == '\0')
		return parse_set(text, "ranks", &a->ranks, err);
	a->role = colon ? strndup(text, colon - text) : strdup(text);
	if (!a->role)
		return error_set(err, -ENOMEM, "out of memory");
	if (!colon)
		return 0;
	if (colon == text)
		return error_set(err, -EINVAL, "expected the name of a role before ':'");
	return parse_set(colon + 1, "index", &a->indexes, err);
}

int address_parse(const char *text, struct address *ret, struct error *err)
{
	const char *slash = strchr(text, '/');
	struct address a = { 0 };
	char quoted[QUOTE_MAX];
	int r = 0;

	if (!*text || slash == text)
		return error_set(err, -EINVAL, "expected the name of a job, got %s",
			quote_text(text, quoted));
	a.job = slash ? strndup(text, slash - text) : strdup(text);
	if (!a.job)
		return error_set(err, -ENOMEM, "out of memory");
	if (slash && !slash[1])
		r = error_set(err, -EINVAL,
			"expected ranks (0,3-7) or role:index after the slash of %s",
			quote_text(text, quoted));
	else if (slash && (r = parse_workers(slash + 1, &a, err)) < 0)
		error_prefix(err, "%s", quote_text(text, quoted));
	if (r < 0) {
		address_fini(&a);
		return r;
	}
	*ret = a;
	return 0;
}

static bool is_of_role(const json_t *worker, const char *role)
{
	const char *name = json_string_value(json_object_get(worker, "role"));

	return !role || (name && !strcmp(name, role));
}

/* Adds to found the ranks of the workers of role (NULL: of all) whose number by key is in want
 * (NULL: all), and adds these numbers to present. */
static int add_ranks_of_workers(const json_t *workers, const char *role, const char *key,
	const struct ranks *want, struct ranks *found, struct ranks *present)
{
	size_t i;
	json_t *worker;

	json_array_foreach (workers, i, worker) {
		int number = json_integer_value(json_object_get(worker, key));
		int rank = json_integer_value(json_object_get(worker, "rank"));

		if (!is_of_role(worker, role) || (want && !ranks_contains(want, number)) ||
			rank < 0 || rank > RANKS_MAX || number < 0 || number > RANKS_MAX)
			continue;
		if (ranks_add(found, rank, rank) < 0 || ranks_add(present, number, number) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* As above by index, for the workers of all hosts of a group: those of a role on one host have
 * consecutive ranks and indexes. */
static int add_ranks_of_hosts(const json_t *hosts, const char *role, const struct ranks *want,
	struct ranks *found, struct ranks *present)
{
	size_t h, i;
	json_t *host, *of;

	json_array_foreach (hosts, h, host)
		json_array_foreach (json_object_get(host, "roles"), i, of) {
			int64_t first = json_integer_value(json_object_get(of, "first_rank"));
			int64_t index = json_integer_value(json_object_get(of, "first_index"));
			int64_t n = json_integer_value(json_object_get(of, "workers"));

			if (!is_of_role(of, role) || first < 0 || index < 0 || n < 0 ||
				first > RANKS_MAX - n || index > RANKS_MAX - n)
				continue;
			for (int k = 0; k < (int)n; k++) {
				int rank = (int)first + k, number = (int)index + k;

				if (want && !ranks_contains(want, number))
					continue;
				if (ranks_add(found, rank, rank) < 0 ||
					ranks_add(present, number, number) < 0)
					return -ENOMEM;
			}
		}
	return 0;
}

/* The first number that is wanted but not present, or -1. */
static int first_missing(const struct ranks *want, const struct ranks *present)
{
	int i = ranks_next(want, -1);

	while (i >= 0 && ranks_contains(present, i))
		i = ranks_next(want, i);
	return i;
}

/* Finds all workers that a names. */
static int find_workers(
	const struct address *a, const json_t *job, struct ranks *found, struct error *err)
{
	const json_t *workers = json_object_get(job, "workers");
	_cleanup_(ranks_fini) struct ranks want = { 0 }, present = { 0 };
	const char *set = a->role ? a->indexes : a->ranks;
	int missing, r = set ? ranks_parse(&want, set, NULL, err) : 0;

	if (r < 0)
		return r;
	if (add_ranks_of_workers(workers, a->role, a->role ? "index" : "rank", set ? &want : NULL,
		    found, &present) < 0 ||
		(a->role && add_ranks_of_hosts(json_object_get(job, "hosts"), a->role,
				    set ? &want : NULL, found, &present) < 0))
		return error_set(err, -ENOMEM, "out of memory");
	missing = set ? first_missing(&want, &present) : -1;
	if (missing >= 0)
		return error_set(err, -ENOENT, "there is no worker %s%s%d", a->role ? a->role : "",
			a->role ? ":" : "", missing);
	if (ranks_count(found) == 0)
		return error_set(err, -ENOENT, "there is no worker %s", a->role);
	return 0;
}

int address_ranks(const struct address *a, const json_t *job, char **ret, struct error *err)
{
	_cleanup_(ranks_fini) struct ranks found = { 0 };
	const json_t *workers = json_object_get(job, "workers");
	int r;

	/* A job that is just being started has no workers yet. */
	if (!a->role && (!a->ranks || json_array_size(workers) == 0)) {
		*ret = a->ranks ? strdup(a->ranks) : NULL;
		return a->ranks && !*ret ? error_set(err, -ENOMEM, "out of memory") : 0;
	}
	r = find_workers(a, job, &found, err);
	if (r < 0)
		return r;
	*ret = ranks_to_string(&found);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}
