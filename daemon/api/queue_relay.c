/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/queue_relay.h"

#include "common/base/descriptors.h"
#include "common/text/json.h"
#include "common/varlink/client.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/methods.h"
#include "daemon/jobs/agent_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#define INTERFACE "io.elasticd.Queue."

enum {
	LINKS_MAX = 8,	       /* agents that one client uses at a time */
	AGENT_WAIT_MS = 30000, /* how long a call waits for an agent that starts or was lost */
	/* Polled: a busy agent sends no event when it can take connections again. */
	RETRY_MS = 10,
	RETRY_MOST_MS = 500,
};

TAILQ_HEAD(calls, queue_call);

/* A client's connection to one agent. */
struct queue_link {
	LIST_ENTRY(queue_link) link;
	struct queue_peer *peer;
	char *run;
	struct varlink_client *client; /* NULL: the connection has ended */
	struct calls calls;	       /* that the agent has to answer, in order */
	bool paused;
	bool given; /* the agent has the client's socket */
};

/* A client; the user pointer of its connection. */
struct queue_peer {
	LIST_HEAD(, queue_link) links;
	int n_links;
	struct calls waiting; /* calls that wait for an agent, in order */
	struct loop_timer *retry;
	uint64_t retry_ms;
};

struct queue_call {
	TAILQ_ENTRY(queue_call) entry; /* of its link's calls, or of the waiting ones */
	struct daemon *d;
	struct varlink_call *call;
	struct queue_peer *peer;
	struct queue_link *link; /* NULL: waits for the agent */
	/* while it waits: */
	bool busy; /* an agent is there, but takes no connection now */
	struct job *job;
	struct job_watch watch;
	struct loop_timer *timer;
	json_t *params;
	uint64_t begun_ms;
};

/* Connections to agents. */

static void link_free(struct queue_link *l)
{
	LIST_REMOVE(l, link);
	l->peer->n_links--;
	varlink_client_free(l->client);
	free(l->run);
	free(l);
}

void queue_relay_closed(void *user, void *arg)
{
	struct queue_peer *p = user;
	struct queue_link *l;

	while ((l = LIST_FIRST(&p->links)))
		link_free(l);
	loop_timer_free(p->retry);
	free(p);
}

static void on_retry(void *arg);

static struct queue_peer *peer_of(struct daemon *d, struct varlink_call *call)
{
	struct queue_peer *p = varlink_call_user(call);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (p && loop_timer_new(d->loop, on_retry, p, &p->retry) < 0) {
		free(p);
		p = NULL;
	}
	if (!p)
		return NULL;
	LIST_INIT(&p->links);
	TAILQ_INIT(&p->waiting);
	varlink_call_set_user(call, p);
	return p;
}

/* Each open call got "disconnected" before. */
static void on_closed(void *arg)
{
	struct queue_link *l = arg;

	l->client = varlink_client_free(l->client);
	if (TAILQ_EMPTY(&l->calls))
		link_free(l);
}

/* Closes a connection that has no open calls. */
static void make_room(struct queue_peer *p)
{
	struct queue_link *l, *idle = NULL;

	LIST_FOREACH (l, &p->links, link)
		if (TAILQ_EMPTY(&l->calls))
			idle = l;
	if (idle)
		link_free(idle);
}

/* Returns 0, -EMFILE with too many links, -ECONNREFUSED or -ENOENT while no agent listens, -EAGAIN
 * while it takes no connection, or another negative errno. */
static int find_link(
	const struct queue_call *c, const struct job *j, struct queue_link **ret, struct error *err)
{
	struct daemon *d = c->d;
	struct queue_peer *p = c->peer;
	struct queue_link *l;
	int fd, r;

	LIST_FOREACH (l, &p->links, link)
		if (l->client && !strcmp(l->run, j->rec.run)) {
			*ret = l;
			return 0;
		}
	if (p->n_links == LINKS_MAX)
		make_room(p);
	if (p->n_links == LINKS_MAX)
		return -EMFILE;
	fd = agent_process_connect(d->host.runtime_dir, j->rec.name, err);
	if (fd >= 0 && !varlink_call_account(c->call).trusted && descriptor_is_reserved(fd)) {
		close(fd);
		return error_set(err, -ENFILE, "elasticd has no descriptor left");
	}
	if (fd < 0)
		return fd;
	l = calloc(1, sizeof(*l));
	if (l)
		l->run = strdup(j->rec.run);
	r = l && l->run ? varlink_client_new_fd(d->loop, fd, on_closed, l, &l->client) : -ENOMEM;
	if (r == 0)
		r = job_count_client(j, l->client);
	if (r < 0) {
		if (!l || !l->run)
			close(fd);
		if (l) {
			varlink_client_free(l->client);
			free(l->run);
		}
		free(l);
		return r;
	}
	TAILQ_INIT(&l->calls);
	l->peer = p;
	LIST_INSERT_HEAD(&p->links, l, link);
	p->n_links++;
	*ret = l;
	return 0;
}

/* Calls. */

static void stop_waiting(struct queue_call *c)
{
	if (c->job) {
		job_unwatch(c->job, &c->watch);
		TAILQ_REMOVE(&c->peer->waiting, c, entry);
	}
	c->job = NULL;
	c->timer = loop_timer_free(c->timer);
	json_decref(c->params);
	c->params = NULL;
}

/* Frees c and returns its call, which the caller has to answer. */
static struct varlink_call *take_call(struct queue_call *c)
{
	struct varlink_call *call = c->call;

	stop_waiting(c);
	if (c->link)
		TAILQ_REMOVE(&c->link->calls, c, entry);
	free(c);
	return call;
}

static void on_gone(void *arg)
{
	struct queue_call *c = arg;

	/* Closing the connection cancels all of the client's calls; the agent sees that at once. */
	if (c->link)
		c->link->client = varlink_client_free(c->link->client);
	take_call(c);
}

static int answer_error(struct varlink_call *call, const char *error, const char *text)
{
	varlink_error(
		call, error, json_pack("{s:o}", "message", json_string_lossy(text, strlen(text))));
	return 0;
}

static void fail_unavailable(struct queue_call *c, const struct job *j, const char *what)
{
	char text[256];

	snprintf(text, sizeof(text), "job %.64s: %s", j->rec.name, what);
	answer_error(take_call(c), "Unavailable", text);
}

static void fail_links(struct queue_call *c)
{
	char text[64];

	snprintf(text, sizeof(text), "too many jobs on one connection (limit %d)", LINKS_MAX);
	answer_error(take_call(c), "ResourceExhausted", text);
}

static void on_drained(void *arg)
{
	struct queue_link *l = arg;

	l->paused = false;
	if (l->client)
		varlink_client_pause(l->client, false);
}

/* Stops reading the agent's answers while the client does not read its own. */
static void hold_back(struct queue_link *l)
{
	struct queue_call *first = TAILQ_FIRST(&l->calls);

	if (!first || !l->client || !varlink_call_congested(first->call, on_drained, l))
		return;
	l->paused = true;
	varlink_client_pause(l->client, true);
}

static void on_nothing(void *arg, const char *error, json_t *parameters, bool continues)
{
}

/* The caller of Keep keeps its queue also while elasticd is away: after the first answer the agent
 * gets the client's socket, passed along with a GetInfo call whose answer would come behind that of
 * Keep, so never. The agent could then read and answer other calls on that connection, so clients
 * use a connection of their own for each Keep. Where elasticd has no descriptor to spare, the queue
 * is kept only as long as this relay lives. */
static void pass_socket(const struct queue_call *c)
{
	struct queue_link *l = c->link;
	int fd;

	if (!l->client || l->given || strcmp(varlink_call_method(c->call), "Keep") != 0)
		return;
	fd = fcntl(varlink_call_socket(c->call), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return;
	varlink_call_flush(c->call);
	varlink_client_send_descriptor(l->client, fd);
	l->given = varlink_client_call(l->client, "org.varlink.service.GetInfo", NULL, false,
			   on_nothing, NULL) == 0;
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct queue_call *c = arg;
	struct queue_link *l = c->link;

	if (error && !strcmp(error, "disconnected"))
		answer_error(take_call(c), "Unavailable",
			"the agent of the job has gone: it was lost, or the job is over");
	else if (error && !strcmp(error, VARLINK_TOO_MUCH))
		varlink_error_limit(take_call(c), "values in one answer of the job's agent",
			json_get_int(parameters, "limit", 0));
	else if (error)
		varlink_error(take_call(c), error, json_incref(parameters));
	else if (continues) {
		varlink_notify(c->call, json_incref(parameters));
		pass_socket(c);
	} else
		varlink_reply(take_call(c), json_incref(parameters));
	hold_back(l);
}

/* The wait limit in the call's parameters and the name of that parameter; negative: none. */
static int64_t own_wait(const json_t *params, const char **ret_name)
{
	bool room = json_is_integer(json_object_get(params, "wait_ms"));
	const char *name = room ? "wait_ms" : "timeout_ms";

	*ret_name = name;
	return json_get_int(params, name, -1);
}

/* Whether the job's first agent is starting. Calls to it wait, however short their limits. */
static bool is_starting(const struct job *j)
{
	return j->life == LIFE_STARTING && !j->n_losses && !j->returns;
}

/* The call's own limit counts from its arrival. While no agent listens it waits for AGENT_WAIT_MS
 * at most. */
static void arm_patience(struct queue_call *c)
{
	const char *name;
	int64_t wait = own_wait(c->params, &name);
	uint64_t waited = loop_now_ms() - c->begun_ms, left = UINT64_MAX;

	if (wait >= 0)
		left = (uint64_t)wait > waited ? (uint64_t)wait - waited : 0;
	if (!c->busy && (left > AGENT_WAIT_MS || is_starting(c->job)))
		left = AGENT_WAIT_MS;
	if (left == UINT64_MAX)
		loop_timer_disarm(c->timer);
	else
		loop_timer_arm(c->timer, left);
}

/* Deducts the time waited here from the call's own limit. */
static int take_wait(struct queue_call *c)
{
	uint64_t waited = loop_now_ms() - c->begun_ms;
	const char *name;
	int64_t wait = own_wait(c->params, &name);

	if (!waited || wait <= 0)
		return 0;
	return json_put_int(c->params, name, (uint64_t)wait > waited ? wait - (int64_t)waited : 0);
}

/* Answers c with an error where sending fails. */
static void send_call(struct queue_call *c, struct queue_link *l)
{
	char name[64];
	bool more = varlink_call_more(c->call);
	json_t *params;
	int r;

	if (take_wait(c) < 0) {
		methods_failed(take_call(c), -ENOMEM, strerror(ENOMEM));
		return;
	}
	params = TAKE_PTR(c->params);
	stop_waiting(c);
	if (l->paused && TAILQ_EMPTY(&l->calls))
		on_drained(l);
	c->link = l;
	TAILQ_INSERT_TAIL(&l->calls, c, entry);
	snprintf(name, sizeof(name), INTERFACE "%s", varlink_call_method(c->call));
	r = varlink_client_call(l->client, name, params, more, on_answer, c);
	if (r < 0)
		methods_failed(take_call(c), r, strerror(-r));
}

static void set_busy(struct queue_call *c, bool busy)
{
	struct queue_peer *p = c->peer;

	if (busy && !loop_timer_armed(p->retry)) {
		p->retry_ms = RETRY_MS;
		loop_timer_arm(p->retry, p->retry_ms);
	}
	if (c->busy == busy)
		return;
	c->busy = busy;
	arm_patience(c);
}

/* The first waiting call to c's job. It alone tries to connect; the others stay behind it. */
static struct queue_call *first_of(struct queue_call *c)
{
	struct queue_call *first;

	TAILQ_FOREACH (first, &c->peer->waiting, entry)
		if (first->job == c->job)
			break;
	return first;
}

static void send_or_wait(struct queue_call *c)
{
	struct queue_call *first = first_of(c);
	struct queue_link *l = NULL;
	struct job *j = c->job;
	struct error err = { 0 };
	int r;

	if (job_is_over(j)) {
		fail_unavailable(c, j, "it has ended");
		return;
	}
	if (first != c) {
		set_busy(c, first->busy);
		return;
	}
	r = find_link(c, j, &l, &err);
	if (r == 0)
		send_call(c, l);
	else if (r == -EMFILE)
		fail_links(c);
	else if (r == -EAGAIN || r == -ECONNREFUSED || r == -ENOENT)
		set_busy(c, r == -EAGAIN);
	else
		methods_failed(take_call(c), r, err.code ? err.text : strerror(-r));
}

static void on_retry(void *arg)
{
	struct queue_peer *p = arg;
	uint64_t next_ms = p->retry_ms * 2;
	struct queue_call *c, *next;

	for (c = TAILQ_FIRST(&p->waiting); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->busy)
			send_or_wait(c);
	}
	/* A call that found its agent still busy has armed the timer. */
	if (loop_timer_armed(p->retry)) {
		p->retry_ms = next_ms < RETRY_MOST_MS ? next_ms : RETRY_MOST_MS;
		loop_timer_arm(p->retry, p->retry_ms);
	}
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct queue_call *c = arg;

	if (news == JOB_GONE)
		varlink_error(take_call(c), "NotFound", manager_no_job(j->rec.name));
	else if (news == JOB_ATTACHED || news == JOB_VERDICT || news == JOB_ENDED)
		send_or_wait(c);
}

static void on_patience(void *arg)
{
	struct queue_call *c = arg;

	fail_unavailable(c, c->job,
		c->busy ? "its agent takes no more connections now"
			: "it has no agent that answers now");
}

static int on_queue(struct varlink_call *call, json_t *params, void *arg)
{
	struct daemon *d = arg;
	struct queue_peer *peer;
	struct queue_call *c;
	struct job *j;

	if (!json_get_string(params, "job", NULL))
		return answer_error(call, "InvalidArgument",
			"job: expected the name or the run of a job, got nothing");
	j = methods_job(d, call, params);
	if (!j)
		return 0;
	peer = peer_of(d, call);
	c = peer ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return -ENOMEM;
	*c = (struct queue_call){ .d = d, .call = call, .peer = peer };
	c->params = json_copy(params);
	if (!c->params || json_put_string(c->params, "job", j->rec.run) < 0 ||
		loop_timer_new(d->loop, on_patience, c, &c->timer) < 0) {
		take_call(c);
		return -ENOMEM;
	}
	c->job = j;
	job_watch(j, &c->watch, on_news, c);
	TAILQ_INSERT_TAIL(&peer->waiting, c, entry);
	c->begun_ms = loop_now_ms();
	arm_patience(c);
	varlink_call_on_gone(call, on_gone, c);
	send_or_wait(c);
	return 0;
}

/* Leases belong to a process of the job, on its own connection to the agent. */
static int on_worker(struct varlink_call *call, json_t *params, void *arg)
{
	char text[128];

	snprintf(text, sizeof(text), "%s is for the job's own processes, on their worker.sock",
		varlink_call_method(call));
	return answer_error(call, "PermissionDenied", text);
}

const struct varlink_method queue_relay_methods[] = {
	{ "Submit", on_queue },
	{ "SubmitMany", on_queue },
	{ "Fetch", on_queue },
	{ "FetchMany", on_queue },
	{ "Release", on_queue },
	{ "Join", on_queue },
	{ "Done", on_queue },
	{ "Cancel", on_queue },
	{ "Close", on_queue },
	{ "List", on_queue },
	{ "Stats", on_queue },
	{ "Keep", on_queue },
	{ "CreateResource", on_queue },
	{ "DropResource", on_queue },
	{ "Resources", on_queue },
	{ "Call", on_queue },
	{ "Work", on_worker },
	{ "Finish", on_worker },
	{ "Fail", on_worker },
	{ "PutBack", on_worker },
	{ "Look", on_worker },
	{ "Cancels", on_worker },
	{ NULL, NULL },
};
