/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * One call to all hosts, side by side. A host whose answer is not there in time is named, and
 * waited for no more.
 */

struct host_ask {
	struct head_ask *of;
	struct call_out *call; /* NULL: it is over */
};

struct head_ask {
	LIST_ENTRY(head_ask) entry;
	struct head *head;
	struct loop_timer *timer;
	head_asked_fn fn;
	void *arg;
	struct host_ask *hosts;
	struct head_answer *answers; /* of each */
	size_t n, open;
};

struct head_ask *head_ask_free(struct head_ask *a)
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

static void ask_over(void *arg)
{
	struct head_ask *a = arg;

	a->fn(a->arg, a->answers, a->n);
	head_ask_free(a);
}

static void on_answer(void *arg, const char *error, json_t *p, bool continues)
{
	struct host_ask *x = arg;
	struct head_ask *a = x->of;
	struct head_answer *answer = &a->answers[x - a->hosts];

	if (continues)
		return;
	x->call = NULL;
	answer->answered = !error || strcmp(error, "Unavailable") != 0;
	answer->error = error ? strdup(error) : NULL;
	answer->parameters = json_incref(p);
	/* Never inside: whoever asks has no pointer yet. */
	if (!--a->open)
		loop_timer_arm(a->timer, 0);
}

/* Returns whether the host is asked. */
static bool ask_host(struct head_ask *a, struct head_host *x, const struct calls_out_message *m)
{
	struct calls_out_connection *c = x->link ? calls_out_open(&x->calls, NULL) : NULL;
	struct host_ask *ask = &a->hosts[a->n];
	struct head_answer *answer = &a->answers[a->n];

	answer->host = strdup(head_host_name(a->head, x->number));
	answer->number = x->number;
	ask->of = a;
	a->n++;
	return c && calls_out_call(c, m, on_answer, ask, &ask->call) == 0;
}

void head_asks_cut(struct head *h)
{
	while (!LIST_EMPTY(&h->asks))
		ask_over(LIST_FIRST(&h->asks));
}

int head_ask_all(struct head *h, const char *method, const json_t *p, uint64_t timeout_ms,
	head_asked_fn fn, void *arg, struct head_ask **ret)
{
	const struct calls_out_message m = { .round = 1,
		.worker = "",
		.interface = "io.elasticd.Manager",
		.method = method,
		.parameters = p };
	struct head_ask *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	*a = (struct head_ask){ .head = h, .fn = fn, .arg = arg };
	LIST_INSERT_HEAD(&h->asks, a, entry);
	a->hosts = calloc((size_t)h->n_members + 1, sizeof(*a->hosts));
	a->answers = calloc((size_t)h->n_members + 1, sizeof(*a->answers));
	if (!a->hosts || !a->answers || loop_timer_new(h->loop, ask_over, a, &a->timer) < 0) {
		head_ask_free(a);
		return -ENOMEM;
	}
	for (int i = 0; i < h->n_members; i++)
		if (h->members[i])
			a->open += ask_host(a, h->members[i], &m);
	loop_timer_arm(a->timer, a->open ? timeout_ms : 0);
	*ret = a;
	return 0;
}
