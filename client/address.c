/* SPDX-License-Identifier: Apache-2.0 */
#include "client/address.h"

#include "common/quote.h"
#include "common/ranks.h"

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

/* Checks a set and brings it into its shortest form. */
static int normal_set(const char *text, const char *what, char **ret, struct error *err)
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
		return normal_set(text, "ranks", &a->ranks, err);
	a->role = colon ? strndup(text, colon - text) : strdup(text);
	if (!a->role)
		return error_set(err, -ENOMEM, "out of memory");
	if (!colon)
		return 0;
	if (colon == text)
		return error_set(err, -EINVAL, "expected the name of a role before ':'");
	return normal_set(colon + 1, "index", &a->indexes, err);
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

/* Adds the ranks of role whose index is in want (all when NULL) and takes what it found from want's
 * count. */
static int collect(const json_t *tasks, const char *role, const struct ranks *want,
	struct ranks *found, int *ret_n)
{
	size_t i;
	json_t *task;

	*ret_n = 0;
	json_array_foreach (tasks, i, task) {
		const char *name = json_string_value(json_object_get(task, "role"));
		int index = json_integer_value(json_object_get(task, "index"));
		int rank = json_integer_value(json_object_get(task, "rank"));

		if (!name || strcmp(name, role) != 0 || (want && !ranks_contains(want, index)))
			continue;
		if (rank < 0 || rank > RANKS_MAX)
			continue;
		if (ranks_add(found, rank, rank) < 0)
			return -ENOMEM;
		(*ret_n)++;
	}
	return 0;
}

int address_ranks(const struct address *a, const json_t *job, char **ret, struct error *err)
{
	struct ranks want = { 0 }, found = { 0 };
	int n = 0, r = 0;

	if (!a->role) {
		*ret = a->ranks ? strdup(a->ranks) : NULL;
		return a->ranks && !*ret ? error_set(err, -ENOMEM, "out of memory") : 0;
	}
	if (a->indexes)
		r = ranks_parse(&want, a->indexes, "index", err);
	if (r == 0)
		r = collect(json_object_get(job, "tasks"), a->role, a->indexes ? &want : NULL,
			&found, &n);
	if (r == 0 && n == 0)
		r = error_set(err, -ENOENT, "job %s has no %s%s%s", a->job, a->role,
			a->indexes ? ":" : "", a->indexes ? a->indexes : "");
	else if (r == 0 && a->indexes && n < ranks_count(&want))
		r = error_set(
			err, -ENOENT, "job %s has only some of %s:%s", a->job, a->role, a->indexes);
	if (r == 0) {
		*ret = ranks_to_string(&found);
		if (!*ret)
			r = error_set(err, -ENOMEM, "out of memory");
	}
	ranks_fini(&want);
	ranks_fini(&found);
	return r;
}
