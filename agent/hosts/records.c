/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

/*
 * Features of the head whose state outlives it: they send records to the deputy, and etcd has a
 * note which hosts have all of them.
 */

static void records_send(void *arg, const char *method, json_t *body)
{
	struct head *h = arg;

	if (h->deputy)
		head_say(h->deputy, method, body);
	else
		json_decref(body);
}

static void records_note(void *arg, json_t *edition)
{
	const struct head *h = arg;

	if (h->hosts->lead)
		lead_note_edition(h->hosts->lead, edition);
	else
		json_decref(edition);
}

static bool records_ended(void *arg)
{
	return ((struct head *)arg)->end.state;
}

/* The name of the host that led before, as the state of the group has it. */
static const char *records_before(const json_t *state)
{
	const char *run = json_get_string(state, "head", "");
	const json_t *one;
	size_t i;

	json_array_foreach (json_get_array(state, "hosts"), i, one)
		if (!strcmp(json_get_string(one, "run", ""), run))
			return json_get_string(one, "name", NULL);
	return NULL;
}

void head_leads(struct head *h)
{
	const struct lead *l = h->hosts->lead;
	const struct hosts_lead lead = { .term = l ? l->term : 0,
		.before = l ? records_before(l->seen[LEAD_STATE].value) : NULL,
		.edition = l ? l->seen[LEAD_EDITION].value : NULL,
		.send = records_send,
		.note = records_note,
		.ended = records_ended,
		.arg = h };

	sharing_group_lead(h->sharing, &lead);
}

void head_set_deputy(struct head *h, struct head_host *x)
{
	if (x == h->deputy)
		return;
	h->deputy = x;
	FEATURES_CALL(h->hosts->sv, hosts_deputy, h->hosts->sv,
		x ? round_host(h->round, x->number)->name : NULL);
}

int head_hear_recorded(struct head_host *x, const json_t *p, struct error *err)
{
	return x == x->head->deputy ? features_hosts_recorded(x->head->hosts->sv, p, err) : 0;
}

void member_hear_records(struct member *m, const json_t *p)
{
	json_t *recorded = m->hosts->lead ? features_hosts_records(m->sv, p) : NULL;

	if (recorded)
		member_say_recorded(m, recorded);
}
