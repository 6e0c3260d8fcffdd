/* SPDX-License-Identifier: Apache-2.0 */
/* A handle to the queues of a job, for a program that is no task of it. */
#include "worker/base/connection.h"

#include "common/base/paths.h"

#include <errno.h>
#include <string.h>

enum { CONNECT_TIMEOUT_MS = 60000 };

static int control_open(struct elasticd *h, const char *job, const char *socket)
{
	const struct wait wait = { .timeout_ms = CONNECT_TIMEOUT_MS };
	struct args a = ARGS_EMPTY;
	struct who *w = &h->who;
	struct error err = { 0 };
	bool found;
	int r;

	h->side = &side_remote;
	h->control = true;
	w->job = strdup(job);
	w->run = strdup("");
	w->role = strdup("");
	w->world_size = 1;
	h->socket = paths_client_socket(socket, &found);
	if (!w->job || !w->run || !w->role || !h->socket)
		return fail_memory();
	if (found && paths_check_socket(h->socket, &err) == -EPERM)
		return fail(ELASTICD_PERMISSION_DENIED, "%s", err.text);
	r = board_private(h);
	if (r)
		return r;
	r = remote_call(h, "org.varlink.service.GetInfo", &a, wait, NULL);
	if (r == ELASTICD_DEADLINE_EXCEEDED)
		return fail(ELASTICD_UNAVAILABLE, "%s: elasticd does not answer", h->socket);
	return r;
}

int elasticd_connect(const char *job, const char *socket, struct elasticd **ret)
{
	int r = check_text("job", job, WORKER_NAME_MAX);
	struct elasticd *h;

	if (!r && !*job)
		r = fail(ELASTICD_INVALID_ARGUMENT, "job: expected a name, got \"\"");
	if (r)
		return r;
	h = handle_new();
	if (!h)
		return fail_memory();
	r = control_open(h, job, socket);
	if (r)
		handle_free(h);
	else
		*ret = h;
	return r;
}
