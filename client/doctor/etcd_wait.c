/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/etcd_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_entries(struct etcd_wait *w, const struct etcd_result *first)
{
	w->n = first->n;
	if (!first->n)
		return;
	w->value = strndup(first->entries[0].value, first->entries[0].len);
}

void etcd_wait_answer(void *arg, const struct etcd_answer *a)
{
	struct etcd_wait *w = arg;

	w->answered = true;
	w->status = a->status;
	w->succeeded = a->succeeded;
	w->cluster = a->cluster;
	if (a->status != STATUS_OK)
		snprintf(w->text, sizeof(w->text), "%s", a->text);
	if (a->n_leases)
		w->lease = a->leases[0].id;
	if (a->member) {
		snprintf(w->version, sizeof(w->version), "%s", a->member->version);
		w->leader = a->member->leader;
		w->no_space = a->member->no_space;
		w->corrupt = a->member->corrupt;
	}
	if (a->n_results)
		keep_entries(w, &a->results[0]);
	loop_quit(w->loop, 0);
}

bool etcd_wait_for(struct etcd_wait *w, int r)
{
	while (r >= 0 && !w->answered)
		r = loop_run(w->loop);
	if (r < 0) {
		w->status = STATUS_INTERNAL;
		snprintf(w->text, sizeof(w->text), "etcd cannot be asked: %s", strerror(-r));
	}
	return w->status == STATUS_OK;
}

void etcd_wait_fini(struct etcd_wait *w)
{
	free(w->value);
	*w = (struct etcd_wait){ .loop = w->loop };
}
