/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep: a queue exists as long as a Keep call is open, or the client's socket after it. elasticd
 * hands that socket to the agent once the client has its answer, so the queue outlives elasticd.
 * Without the socket the queue is given up with the call.
 */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

struct dispatch_keeper {
	LIST_ENTRY(dispatch_keeper) link;
	struct dispatch *d;
	struct varlink_call *call; /* NULL: the call has ended */
	int fd;			   /* then the client's socket */
	struct loop_fd *watch;
	char queue[];
};

static void keeper_free(struct dispatch_keeper *k)
{
	LIST_REMOVE(k, link);
	loop_fd_free(k->watch);
	close_fd(k->fd);
	free(k);
}

static void keeper_gone(struct dispatch_keeper *k)
{
	struct dispatch *d = k->d;

	queue_unkeep(d->q, k->queue, loop_now_ms());
	keeper_free(k);
	dispatch_run_soon(d);
}

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 1;
}

/* Reads nothing: no message on this socket is for the agent. */
static void on_client(int fd, int events, void *arg)
{
	if (hung_up(fd))
		keeper_gone(arg);
}

/* The call has ended. If the client's socket came with it and is open, keeps the queue until the
 * client closes it. */
static void on_call_gone(void *arg)
{
	struct dispatch_keeper *k = arg;
	int brought = varlink_call_descriptor(k->call);

	k->call = NULL;
	k->fd = brought < 0 ? -1 : fcntl(brought, F_DUPFD_CLOEXEC, 0);
	if (k->fd < 0 || hung_up(k->fd) ||
		loop_fd_new(supervisor_loop(k->d->sv), k->fd, LOOP_WRITE | LOOP_EDGE, on_client, k,
			&k->watch) < 0)
		keeper_gone(k);
}

static struct dispatch_keeper *keeper_new(
	struct dispatch *d, struct varlink_call *call, const char *queue)
{
	struct dispatch_keeper *k = malloc(sizeof(*k) + strlen(queue) + 1);

	if (!k)
		return NULL;
	*k = (struct dispatch_keeper){ .d = d, .call = call, .fd = -1 };
	strcpy(k->queue, queue);
	LIST_INSERT_HEAD(&d->keepers, k, link);
	return k;
}

static int refuse_keep(struct varlink_call *call, enum status status, const char *queue)
{
	if (status == STATUS_RESOURCE_EXHAUSTED)
		return sharing_fail(call, status,
			"queue: there are %d queues already, which is the limit, or out of memory",
			QUEUE_QUEUES_MAX);
	return sharing_fail(call, status,
		"queue: expected at most %d of A-Z, a-z, 0-9, _, . and -, got \"%.100s\"",
		QUEUE_NAME_MAX, queue);
}

int dispatch_keep(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *queue = json_get_string(p, "queue", "");
	struct dispatch_keeper *k;
	enum status status;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	k = keeper_new(d, call, queue);
	if (!k)
		return dispatch_no_memory(call);
	status = queue_keep(d->q, queue);
	if (status != STATUS_OK) {
		keeper_free(k);
		return refuse_keep(call, status, queue);
	}
	varlink_call_on_gone(call, on_call_gone, k);
	(void)varlink_notify_text(call, "{}", 2);
	dispatch_run(d);
	return 0;
}

void dispatch_keepers_end(struct dispatch *d, const char *why)
{
	struct dispatch_keeper *k;

	while ((k = LIST_FIRST(&d->keepers))) {
		if (k->call)
			sharing_fail(k->call, STATUS_UNAVAILABLE, "%s", why);
		keeper_free(k);
	}
}

void dispatch_keepers_free(struct dispatch *d)
{
	while (!LIST_EMPTY(&d->keepers))
		keeper_free(LIST_FIRST(&d->keepers));
}
