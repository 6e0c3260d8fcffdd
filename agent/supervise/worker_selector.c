/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/private.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * "worker:0,2-3,ps,5": words separated by commas. A number or a range belongs to the role that was
 * named with a colon before it; without one it is a rank.
 */

static const struct spec_role *selector_role(
	const struct supervisor *sv, const char *name, size_t len)
{
	for (size_t i = 0; i < sv->spec->n_roles; i++)
		if (strlen(sv->spec->roles[i].name) == len &&
			!strncmp(sv->spec->roles[i].name, name, len))
			return &sv->spec->roles[i];
	return NULL;
}

static struct worker *selector_worker(
	const struct supervisor *sv, const struct spec_role *role, int number)
{
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (role ? w->role == role && w->index == number : w->rank == number)
			return w;
	}
	return NULL;
}

struct worker_selection {
	const struct supervisor *sv;
	const char *text;
	const struct spec_role *role; /* that numbers belong to; NULL: they are ranks */
	bool *chosen;		      /* by place */
	bool some;		      /* others are on other hosts */
	char missing[128];	      /* one of those */
	struct error *err;
};

/* Sets the error, with the worker's name in its field. */
static int selector_missing(struct worker_selection *s, const char *name)
{
	if (s->some) {
		snprintf(s->missing, sizeof(s->missing), "%s", name);
		return 0;
	}
	error_set(s->err, -ENOENT, "there is no worker %s", name);
	snprintf(s->err->field, sizeof(s->err->field), "%s", name);
	return -ENOENT;
}

static int selector_missing_word(struct worker_selection *s, const char *word, size_t len)
{
	char name[128];

	snprintf(name, sizeof(name), "%.*s", (int)len, word);
	return selector_missing(s, name);
}

static int selector_missing_number(struct worker_selection *s, int number)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s%d", s->role ? s->role->name : "", s->role ? ":" : "",
		number);
	return selector_missing(s, name);
}

/* "3" or "3-7" */
static int selector_numbers(struct worker_selection *s, const char *word, size_t len)
{
	_cleanup_free_ char *copy = strndup(word, len);
	_cleanup_(ranks_fini) struct ranks set = { 0 };
	int r;

	if (!copy)
		return error_set(s->err, -ENOMEM, "out of memory");
	r = ranks_parse(&set, copy, "workers", s->err);
	if (r < 0)
		return r;
	for (int i = ranks_next(&set, -1); i >= 0; i = ranks_next(&set, i)) {
		struct worker *w = selector_worker(s->sv, s->role, i);

		if (w)
			s->chosen[w->place] = true;
		else if (selector_missing_number(s, i) < 0)
			return -ENOENT;
	}
	return 0;
}

static int selector_whole_role(struct worker_selection *s, const char *word, size_t len)
{
	s->role = selector_role(s->sv, word, len);
	if (!s->role)
		return selector_missing_word(s, word, len);
	for (int i = 0; i < s->sv->n_workers; i++)
		if (s->sv->workers[i].role == s->role)
			s->chosen[i] = true;
	s->role = NULL;
	return 0;
}

static int selector_word(struct worker_selection *s, const char *word, size_t len)
{
	const char *colon = memrchr(word, ':', len);
	size_t before = colon ? (size_t)(colon - word) : 0;

	if (!len || (colon && (!before || before + 1 == len)))
		return error_field(s->err, -EINVAL, "workers",
			"expected role:index, a role, or ranks such as \"0,3-7\", got \"%.200s\"",
			s->text);
	if (!colon && strspn(word, "0123456789- ") >= len)
		return selector_numbers(s, word, len);
	if (!colon)
		return selector_whole_role(s, word, len);
	s->role = selector_role(s->sv, word, before);
	if (!s->role)
		return selector_missing_word(s, word, len);
	return selector_numbers(s, colon + 1, len - before - 1);
}

static int selector_words(struct worker_selection *s)
{
	const char *p = s->text;
	int r = 0;

	while (p && !r) {
		const char *comma = strchrnul(p, ',');

		r = selector_word(s, p, (size_t)(comma - p));
		p = *comma ? comma + 1 : NULL;
	}
	return r;
}

static int selector_select(struct supervisor *sv, const char *text, bool some, int **ret,
	size_t *ret_n, struct error *err)
{
	_cleanup_free_ bool *chosen = calloc((size_t)sv->n_workers + 1, sizeof(*chosen));
	struct worker_selection s = {
		.sv = sv, .text = text, .chosen = chosen, .some = some, .err = err
	};
	size_t n = 0;
	int r = 0;

	if (!chosen)
		return error_set(err, -ENOMEM, "out of memory");
	if (text)
		r = selector_words(&s);
	else
		memset(chosen, 1, (size_t)sv->n_workers);
	for (int i = 0; i < sv->n_workers; i++)
		n += chosen[i];
	if (!r && !n && *s.missing) {
		s.some = false;
		r = selector_missing(&s, s.missing);
	}
	if (r < 0)
		return r;
	n = 0;
	*ret = calloc((size_t)sv->n_workers + 1, sizeof(**ret));
	if (!*ret)
		return error_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < sv->n_workers; i++)
		if (chosen[i])
			(*ret)[n++] = i;
	*ret_n = n;
	return 0;
}

int worker_select(
	struct supervisor *sv, const char *text, int **ret, size_t *ret_n, struct error *err)
{
	return selector_select(sv, text, false, ret, ret_n, err);
}

int worker_select_some(
	struct supervisor *sv, const char *text, int **ret, size_t *ret_n, struct error *err)
{
	return selector_select(sv, text, sv->spec->rendezvous.nodes_max > 1, ret, ret_n, err);
}
