/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a connection is. The token of a task's present process says it best; a program that knows
 * nothing of tokens is known by where its process runs: each task has a session of its own. A
 * connection stays with the process that it was made for: when that is gone, a child that lives on
 * is told so.
 *
 * Connections are shared out so that no task can take another's: each is sure of a few, the rest is
 * for whoever comes first.
 */
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TREE_DEPTH_MAX = 64 };

static int slot_of_pid(const struct workers *w, pid_t pid)
{
	for (int i = 0; pid > 0 && i < w->n_slots; i++)
		if (w->slots[i].token && w->slots[i].pid == pid)
			return i;
	return -1;
}

static int slot_of_session(const struct workers *w, pid_t pid)
{
	int slot = slot_of_pid(w, pid);

	return slot >= 0 || pid <= 0 ? slot : slot_of_pid(w, getsid(pid));
}

/* Also for one that has left its session, and for a task in a terminal of somebody's session. */
static int slot_of_tree(const struct workers *w, pid_t pid)
{
	int slot = slot_of_session(w, pid);
	struct proc_stat st;

	for (int i = 0; slot < 0 && i < TREE_DEPTH_MAX && pid > 1; i++) {
		if (proc_stat_read(pid, &st) < 0)
			break;
		pid = st.ppid;
		slot = slot_of_session(w, pid);
	}
	return slot;
}

size_t worker_unread_bytes(const struct workers *w)
{
	return WORKERS_UNREAD_BYTES + (size_t)w->n_slots * WORKERS_UNREAD_MORE_BYTES;
}

void worker_account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg)
{
	const struct worker_peer *p = user;

	/* Those that are nobody's count together. */
	*ret = (struct varlink_account){ .key = (uint64_t)p->counted };
}

void worker_limit_connections(struct workers *w)
{
	struct rlimit rl = { .rlim_cur = 1024 };
	int n = w->n_slots > 0 ? w->n_slots : 1, total;
	rlim_t most;

	getrlimit(RLIMIT_NOFILE, &rl);
	/* Half of the descriptors stay for what supervision needs. */
	most = rl.rlim_cur / 2 < 1 << 20 ? rl.rlim_cur / 2 : 1 << 20;
	total = WORKERS_PER_TASK * n + WORKERS_SHARED;
	if (total < WORKERS_CONNECTIONS)
		total = WORKERS_CONNECTIONS;
	if (total > (int)most)
		total = (int)most;
	w->per_task = WORKERS_PER_TASK;
	while (w->per_task > 1 && w->per_task * n > total * 3 / 4)
		w->per_task--;
	w->max_connections = total;
	varlink_server_limit_connections(w->server, total);
	varlink_server_limit_bytes(w->server, worker_unread_bytes(w) + WORKERS_REPLY_BYTES);
}

/* Whether one more is within what the task is sure of, or what is left for all. */
static bool may_connect(const struct workers *w, int slot)
{
	int shared = w->max_connections - w->per_task * w->n_slots, used = w->connections;

	if (slot >= 0 && w->slots[slot].connections < w->per_task)
		return true;
	for (int i = 0; i < w->n_slots; i++) {
		int c = w->slots[i].connections;

		used -= c < w->per_task ? c : w->per_task;
	}
	return used < shared;
}

static void count_for(struct worker_peer *peer, int slot)
{
	if (peer->counted >= 0)
		peer->w->slots[peer->counted].connections--;
	peer->counted = slot;
	if (slot >= 0)
		peer->w->slots[slot].connections++;
}

int worker_opened(const struct varlink_peer *peer, void **ret_user, void *arg)
{
	struct workers *w = arg;
	int slot = slot_of_session(w, peer->pid);
	struct worker_peer *p;

	if (!may_connect(w, slot)) {
		log_debug("pid %d of %s has too many connections", (int)peer->pid,
			slot >= 0 ? w->slots[slot].name : "no task");
		return 1;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return 1;
	*p = (struct worker_peer){ .w = w, .slot = -1, .counted = -1 };
	w->connections++;
	count_for(p, slot);
	*ret_user = p;
	return 0;
}

void worker_closed(void *user, void *arg)
{
	struct worker_peer *p = user;

	FEATURES_CALL(p->w->a, worker_hung_up, p->w->a, p);
	count_for(p, -1);
	p->w->connections--;
	free(p);
}

int worker_of(const struct varlink_call *call)
{
	const struct worker_peer *p = varlink_call_user(call);

	return p->slot;
}

static void bind_peer(struct varlink_call *call, struct worker_peer *p, int slot)
{
	bool counts = p->counted == slot;

	if (p->slot < 0)
		FEATURES_CALL(p->w->a, worker_connected, p->w->a, slot);
	p->slot = slot;
	p->token = p->w->slots[slot].token;
	p->w->slots[slot].spoke = p->token;
	count_for(p, slot);
	if (!counts)
		varlink_call_recount(call);
}

/* A process that should be gone still speaks; once for each token an event says so. */
static int refuse_stale(struct workers *w, struct varlink_call *call, int slot, uint64_t token)
{
	struct worker_slot *s = &w->slots[slot];
	pid_t pid = varlink_call_peer(call)->pid;

	if (s->told != token) {
		s->told = token;
		log_warning("%s: pid %d belongs to an earlier process of it and is refused",
			s->name, (int)pid);
		events_add(w->a->events, "stale-worker", w->a->attempt, s->rank, NULL,
			"%s: pid %d belongs to an earlier process of it and is refused", s->name,
			(int)pid);
	}
	return worker_fail(call, STATUS_ABORTED, "this is an earlier process of %s%s", s->name,
		s->token ? "; another one is running" : ", which has ended");
}

int worker_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	struct workers *w = arg;
	struct worker_peer *peer = varlink_call_user(call);
	const struct varlink_peer *who = varlink_call_peer(call);
	int slot;

	/* There is one, and whoever it has given a connection to. */
	if (w->a->opt.alone) {
		if (peer->slot < 0)
			bind_peer(call, peer, 0);
		return 0;
	}
	if (who->uid != 0 && who->uid != w->uid) {
		worker_fail(call, STATUS_PERMISSION_DENIED,
			"only root and the job's own user may speak to its workers' service");
		return 1;
	}
	if (!strcmp(method, "Hello"))
		return 0;
	if (peer->slot < 0) {
		slot = slot_of_tree(w, who->pid);
		if (slot < 0) {
			worker_fail(call, STATUS_FAILED_PRECONDITION,
				"pid %d is no worker of this job: call Hello with its ELASTICD_TOKEN",
				(int)who->pid);
			return 1;
		}
		bind_peer(call, peer, slot);
	}
	if (w->slots[peer->slot].token == peer->token)
		return 0;
	refuse_stale(w, call, peer->slot, peer->token);
	return 1;
}

static bool parse_token(const char *text, uint64_t *ret)
{
	char *end;

	if (*text < '1' || *text > '9' || strlen(text) > 20)
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !*end && !errno;
}

static bool is_past(const struct worker_slot *s, uint64_t token)
{
	for (int i = 0; i < WORKERS_PAST; i++)
		if (s->past[i] == token)
			return true;
	return false;
}

static int hello_reply(struct workers *w, struct varlink_call *call, int slot)
{
	const struct task *t = worker_task(w, slot);
	json_t *members = json_array(), *p = json_object();

	for (int i = 0; i < w->a->n_tasks; i++)
		if (worker_is_default(&w->a->tasks[i]) && worker_has_slot(w, &w->a->tasks[i]))
			json_add(members, json_string(w->slots[w->a->tasks[i].slot].name));
	json_put_string(p, "job", w->a->spec->name);
	json_put_string(p, "run", w->a->opt.run);
	json_put_string(p, "task", w->slots[slot].name);
	json_put_int(p, "rank", t ? t->rank : -1);
	json_put_int(p, "attempt", w->a->attempt);
	json_put_int(p, "incarnation", t ? t->incarnation : 0);
	json_put(p, "members", members);
	return varlink_reply(call, p);
}

int worker_hello(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	struct worker_peer *peer = varlink_call_user(call);
	const char *text = json_get_string(p, "token", "");
	uint64_t token;

	if (!parse_token(text, &token))
		return worker_fail(call, STATUS_INVALID_ARGUMENT,
			"token: expected the number in ELASTICD_TOKEN, got \"%.40s\"", text);
	for (int i = 0; i < w->n_slots; i++) {
		if (is_past(&w->slots[i], token))
			return refuse_stale(w, call, i, token);
		if (w->slots[i].token != token)
			continue;
		if (peer->slot >= 0 && (peer->slot != i || peer->token != token))
			return worker_fail(call, STATUS_FAILED_PRECONDITION,
				"this connection belongs to a process of %s already",
				w->slots[peer->slot].name);
		bind_peer(call, peer, i);
		return hello_reply(w, call, i);
	}
	return worker_fail(call, STATUS_PERMISSION_DENIED, "the token is of no worker of this job");
}
