/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * One call to all hosts, side by side. After a limit, the caller gets the answers that have come,
 * and the names of the other hosts.
 */

struct host_call {
	struct head_call_all *of;
	struct call_out *call; /* NULL: it is over */
};

struct head_call_all {
	LIST_ENTRY(head_call_all) entry;
	struct head *head;
	struct loop_timer *timer;
	head_answers_fn fn;
	void *arg;
	struct host_call *hosts;
	struct head_answer *answers; /* of each host */
	size_t n, open;
};

struct head_call_all *head_call_all_free(struct head_call_all *a)
{
	if (!a)
		return NULL;
	for (size_t i = 0; i < a->n; i++) {
		if (a->hosts[i].call)
			calls_out_drop(a->hosts[i].call);
		json_decref(a->answers[i].parameters);
		free(a->answers[i].error);
		free(a->answers[i].host);
	}
	LIST_REMOVE(a, entry);
	loop_timer_free(a->timer);
	free(a->hosts);
	free(a->answers);
	free(a);
	return NULL;
}

static void call_all_over(void *arg)
{
	struct head_call_all *a = arg;

	a->fn(a->arg, a->answers, a->n);
	head_call_all_free(a);
}

static void call_all_answered(void *arg, const char *error, json_t *p, bool continues)
{
	struct host_call *x = arg;
	struct head_call_all *a = x->of;
	struct head_answer *answer = &a->answers[x - a->hosts];

	if (continues)
		return;
	x->call = NULL;
	answer->answered = !error || strcmp(error, "Unavailable") != 0;
	answer->error = error ? strdup(error) : NULL;
	answer->parameters = json_incref(p);
	/* Later: the caller may not have its pointer yet. */
	if (!--a->open)
		loop_timer_arm(a->timer, 0);
}

/* Calls one host. Returns whether an answer will come. */
static bool call_all_add(
	struct head_call_all *a, struct head_host *x, const struct calls_out_message *m)
{
	struct calls_out_connection *c = x->link ? calls_out_open(&x->calls, NULL) : NULL;
	struct host_call *one = &a->hosts[a->n];
	struct head_answer *answer = &a->answers[a->n];

	answer->host = strdup(head_host_name(a->head, x->number));
	answer->number = x->number;
	one->of = a;
	a->n++;
	return c && calls_out_call(c, m, call_all_answered, one, &one->call) == 0;
}

void head_call_all_cut(struct head *h)
{
	while (!LIST_EMPTY(&h->calls_all))
		call_all_over(LIST_FIRST(&h->calls_all));
}

int head_call_all(struct head *h, const char *method, const json_t *p, uint64_t timeout_ms,
	head_answers_fn fn, void *arg, struct head_call_all **ret)
{
	const struct calls_out_message m = { .round = 1,
		.worker = "",
		.interface = "io.elasticd.Manager",
		.method = method,
		.parameters = p };
	struct head_call_all *a = calloc(1, sizeof(*a));
	struct head_host *x = NULL;

	if (!a)
		return -ENOMEM;
	*a = (struct head_call_all){ .head = h, .fn = fn, .arg = arg };
	LIST_INSERT_HEAD(&h->calls_all, a, entry);
	a->hosts = calloc((size_t)h->n_members + 1, sizeof(*a->hosts));
	a->answers = calloc((size_t)h->n_members + 1, sizeof(*a->answers));
	if (!a->hosts || !a->answers || loop_timer_new(h->loop, call_all_over, a, &a->timer) < 0) {
		head_call_all_free(a);
		return -ENOMEM;
	}
	while ((x = head_next_member(h, x)))
		a->open += call_all_add(a, x, &m);
	loop_timer_arm(a->timer, a->open ? timeout_ms : 0);
	*ret = a;
	return 0;
}
