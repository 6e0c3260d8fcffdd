/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/supervisor.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * "worker:0,2-3,ps,5": words separated by commas. A number or a range belongs to the role that was
 * named with a colon before it; without one it is a rank.
 */

const char *agent_task_name(const struct task *t)
{
	return task_called(t);
}

static const struct spec_role *select_role(const struct agent *a, const char *name, size_t len)
{
	for (size_t i = 0; i < a->spec->n_roles; i++)
		if (strlen(a->spec->roles[i].name) == len &&
			!strncmp(a->spec->roles[i].name, name, len))
			return &a->spec->roles[i];
	return NULL;
}

struct task *agent_task_named(struct agent *a, const char *role, int index)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].index == index && !strcmp(a->tasks[i].role->name, role))
			return &a->tasks[i];
	return NULL;
}

static struct task *select_task(const struct agent *a, const struct spec_role *role, int number)
{
	if (!role)
		return number < a->n_tasks ? &a->tasks[number] : NULL;
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].role == role && a->tasks[i].index == number)
			return &a->tasks[i];
	return NULL;
}

struct selection {
	const struct agent *a;
	const char *text;
	const struct spec_role *role; /* that numbers belong to; NULL: they are ranks */
	bool *chosen;		      /* by rank */
	struct error *err;
};

/* The error's field is the worker. */
static int select_missing(struct selection *s, const char *name)
{
	error_set(s->err, -ENOENT, "there is no worker %s", name);
	snprintf(s->err->field, sizeof(s->err->field), "%s", name);
	return -ENOENT;
}

static int select_missing_word(struct selection *s, const char *word, size_t len)
{
	char name[128];

	snprintf(name, sizeof(name), "%.*s", (int)len, word);
	return select_missing(s, name);
}

static int select_missing_number(struct selection *s, int number)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s%d", s->role ? s->role->name : "", s->role ? ":" : "",
		number);
	return select_missing(s, name);
}

/* "3" or "3-7" */
static int select_numbers(struct selection *s, const char *word, size_t len)
{
	_cleanup_free_ char *copy = strndup(word, len);
	_cleanup_(ranks_fini) struct ranks set = { 0 };
	int r;

	if (!copy)
		return error_set(s->err, -ENOMEM, "out of memory");
	r = ranks_parse(&set, copy, "tasks", s->err);
	if (r < 0)
		return r;
	for (int i = ranks_next(&set, -1); i >= 0; i = ranks_next(&set, i)) {
		struct task *t = select_task(s->a, s->role, i);

		if (!t)
			return select_missing_number(s, i);
		s->chosen[t->rank] = true;
	}
	return 0;
}

static int select_whole_role(struct selection *s, const char *word, size_t len)
{
	s->role = select_role(s->a, word, len);
	if (!s->role)
		return select_missing_word(s, word, len);
	for (int i = 0; i < s->a->n_tasks; i++)
		if (s->a->tasks[i].role == s->role)
			s->chosen[i] = true;
	s->role = NULL;
	return 0;
}

static int select_word(struct selection *s, const char *word, size_t len)
{
	const char *colon = memrchr(word, ':', len);
	size_t before = colon ? (size_t)(colon - word) : 0;

	if (!len || (colon && (!before || before + 1 == len)))
		return error_field(s->err, -EINVAL, "tasks",
			"expected role:index, a role, or ranks such as \"0,3-7\", got \"%.200s\"",
			s->text);
	if (!colon && strspn(word, "0123456789- ") >= len)
		return select_numbers(s, word, len);
	if (!colon)
		return select_whole_role(s, word, len);
	s->role = select_role(s->a, word, before);
	if (!s->role)
		return select_missing_word(s, word, len);
	return select_numbers(s, colon + 1, len - before - 1);
}

static int select_words(struct selection *s)
{
	const char *p = s->text;
	int r = 0;

	while (p && !r) {
		const char *comma = strchrnul(p, ',');

		r = select_word(s, p, (size_t)(comma - p));
		p = *comma ? comma + 1 : NULL;
	}
	return r;
}

int agent_select(struct agent *a, const char *text, int **ret, size_t *ret_n, struct error *err)
{
	_cleanup_free_ bool *chosen = calloc((size_t)a->n_tasks + 1, sizeof(*chosen));
	struct selection s = { .a = a, .text = text, .chosen = chosen, .err = err };
	size_t n = 0;
	int r = 0;

	if (!chosen)
		return error_set(err, -ENOMEM, "out of memory");
	if (text)
		r = select_words(&s);
	else
		memset(chosen, 1, (size_t)a->n_tasks);
	if (r < 0)
		return r;
	*ret = calloc((size_t)a->n_tasks + 1, sizeof(**ret));
	if (!*ret)
		return error_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < a->n_tasks; i++)
		if (chosen[i])
			(*ret)[n++] = i;
	*ret_n = n;
	return 0;
}
