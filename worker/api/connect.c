/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a handle of a program outside the job, which talks to elasticd. */
#include "worker/base/calls.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"

#include "common/base/paths.h"

#include <errno.h>
#include <string.h>

enum { CONNECT_TIMEOUT_MS = 60000 };

static enum elasticd_status connect_outside(struct elasticd *h, const char *job, const char *socket)
{
	const struct wait wait = { .timeout_ms = CONNECT_TIMEOUT_MS };
	struct identity *i = &h->identity;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	struct error err = { 0 };
	bool found;

	h->outside = true;
	i->job = strdup(job);
	i->run = strdup("");
	i->role = strdup("");
	i->world_size = 1;
	h->socket = paths_client_socket(socket, &found);
	if (!i->job || !i->run || !i->role || !h->socket)
		return fail_memory();
	if (found && paths_check_socket(h->socket, &err) == -EPERM)
		return fail(ELASTICD_STATUS_PERMISSION_DENIED, "%s", err.text);
	status = handle_own_board(h);
	if (status)
		return status;
	status = call_make(h, "org.varlink.service.GetInfo", &a, wait, NULL);
	if (status == ELASTICD_STATUS_DEADLINE_EXCEEDED)
		return fail(ELASTICD_STATUS_UNAVAILABLE, "%s: elasticd does not answer", h->socket);
	return status;
}

enum elasticd_status elasticd_queue_connect(
	const char *job, const char *socket, struct elasticd **ret)
{
	enum elasticd_status status = check_text("job", job, WORKER_NAME_MAX);
	struct elasticd *h;

	if (!status && !*job)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT, "job: expected a name, got \"\"");
	if (status)
		return status;
	h = handle_new();
	if (!h)
		return fail_memory();
	status = connect_outside(h, job, socket);
	if (status)
		handle_free(h);
	else
		*ret = h;
	return status;
}
