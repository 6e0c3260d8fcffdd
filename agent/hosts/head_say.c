/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/messages.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The messages of the head to members. */

static void say_check(const struct head_host *x, const char *method, int r)
{
	if (r < 0 && r != -ECONNRESET)
		log_error("%s cannot be sent to host %s: %s", method,
			head_host_name(x->head, x->number), strerror(-r));
}

void head_say(struct head_host *x, const char *method, json_t *body)
{
	if (x->link)
		say_check(x, method, body ? link_send(x->link, method, body) : -ENOMEM);
	else
		json_decref(body);
}

void head_say_all(struct head *h, const char *method, const char *body, size_t len)
{
	struct head_host *x = NULL;

	while ((x = head_next_member(h, x)))
		if (x->link && !head_is_own(h, x) &&
			link_send_text(x->link, method, body, len) == -ENOMEM)
			log_error("out of memory: a host gets no %s", method);
}

static void say_text(struct head_host *x, const char *method, const char *text)
{
	if (x->link)
		say_check(x, method,
			text ? link_send_text(x->link, method, text, strlen(text)) : -ENOMEM);
}

void head_texts_fini(struct head_texts *t)
{
	free(t->stop);
	free(t->end);
}

void head_say_assign(struct head *h, struct head_host *x)
{
	const struct round_host *host = round_host(h->round, x->number);
	_cleanup_json_ json_t *starts =
		host->seat ? sharing_group_starts_json(h->sharing, host->first_rank, host->workers)
			   : NULL;
	const struct message_assign a = { .spec = h->spec,
		.roles = &h->roles,
		.host = host,
		.world = round_world(h->round),
		.attempt = h->attempt - (host->seat != NULL),
		.restarts = h->budget.used,
		.starts = starts,
		.failure = head_short_cause(h) };

	head_say(x, "Assign", message_assign(&a));
}

/* The text of Start, which is the same for all hosts of the round. Owned, or NULL. */
static char *say_start_text(const struct head *h)
{
	const struct spec_rendezvous *z = &h->spec->rendezvous;
	uint64_t round = round_number(h->round);
	_cleanup_json_ json_t *body = NULL, *cluster = json_array();
	const struct head_host *master = NULL, *x = NULL;
	const char *addr = NULL;

	while ((x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (!host || host->round != round)
			continue;
		json_array_extend(cluster, x->addresses);
		if (host->group_rank == 0)
			master = x;
	}
	if (master)
		addr = z->master_addr	     ? z->master_addr
		       : master->master_addr ? master->master_addr
					     : master->address;
	body = message_start(round, addr, master ? master->master_port : 0,
		spec_tf_config(h->spec) ? cluster : NULL);
	return json_dumps(body, JSON_COMPACT);
}

void head_say_start(struct head *h, struct head_host *x)
{
	x->vacated = false;
	say_text(x, "Start", h->start);
}

void head_say_start_all(struct head *h)
{
	struct head_host *x = NULL;

	free(h->start);
	h->start = say_start_text(h);
	while ((x = head_next_member(h, x))) {
		const struct round_host *host = round_host(h->round, x->number);

		if (host && host->state == HOST_STARTING)
			head_say_start(h, x);
	}
}

static char *say_stop_text(const struct head *h)
{
	_cleanup_json_ json_t *body =
		message_stop(round_number(h->round), h->why ? h->why : "membership",
			*h->cause ? h->cause : h->change, h->stop_timeout_ms);

	return json_dumps(body, JSON_COMPACT);
}

void head_say_stop(struct head *h, struct head_host *x, struct head_texts *texts)
{
	if (!texts->stop)
		texts->stop = say_stop_text(h);
	say_text(x, "Stop", texts->stop);
}

/* The host that prints the report: of those that get the verdict, the one with the lowest rank in
 * the last round with workers. */
static int say_reporter(const struct head *h)
{
	const struct round_host *host = NULL, *best = NULL;

	while ((host = round_next_host(h->round, host))) {
		if (host->state != HOST_CLOSING)
			continue;
		if (!best || host->last_round > best->last_round ||
			(host->last_round == best->last_round && host->last_rank < best->last_rank))
			best = host;
	}
	return best ? best->number : -1;
}

static char *say_end_text(const struct head *h, bool report)
{
	_cleanup_json_ json_t *body = message_end(h->verdict, report);

	return json_dumps(body, JSON_COMPACT);
}

void head_say_end(struct head *h, struct head_host *x, struct head_texts *texts)
{
	if (!h->reported) {
		h->reported = true;
		h->reporter = say_reporter(h);
	}
	if (h->reporter == x->number) {
		_cleanup_free_ char *text = say_end_text(h, true);

		h->reporter = -1;
		say_text(x, "End", text);
		return;
	}
	if (!texts->end)
		texts->end = say_end_text(h, false);
	say_text(x, "End", texts->end);
}
