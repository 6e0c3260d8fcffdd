/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the worker that a connection belongs to. A client that sends the token of a worker's
 * present process is that worker. Any other client belongs to the worker in whose session it or one
 * of its parents is, since each worker has a session of its own. A connection stays with the
 * process that it was made for: once that has ended, calls of a child that lives on are Aborted.
 *
 * No worker can take another's connections: each may always open a few, and the rest go to the
 * first that asks.
 */
#include "agent/sharing/private.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TREE_DEPTH_MAX = 64 };

static int slot_of_pid(const struct sharing *sh, pid_t pid)
{
	for (int i = 0; pid > 0 && i < sh->n_slots; i++)
		if (sh->slots[i].token && sh->slots[i].pid == pid)
			return i;
	return -1;
}

static int slot_of_session(const struct sharing *sh, pid_t pid)
{
	int slot = slot_of_pid(sh, pid);

	return slot >= 0 || pid <= 0 ? slot : slot_of_pid(sh, getsid(pid));
}

/* Also finds a process that has left the worker's session, and a worker that runs in a terminal. */
static int slot_of_tree(const struct sharing *sh, pid_t pid)
{
	int slot = slot_of_session(sh, pid);
	struct proc_stat st;

	for (int i = 0; slot < 0 && i < TREE_DEPTH_MAX && pid > 1; i++) {
		if (proc_stat_read(pid, &st) < 0)
			break;
		pid = st.ppid;
		slot = slot_of_session(sh, pid);
	}
	return slot;
}

size_t sharing_unread_bytes(const struct commons *c)
{
	return SHARING_UNREAD_BYTES + (size_t)c->n_slots * SHARING_UNREAD_MORE_BYTES;
}

void sharing_account(
	const struct varlink_peer *peer, void *user, struct varlink_account *ret, void *arg)
{
	const struct sharing_peer *p = user;

	/* Connections without a worker have one account. */
	*ret = (struct varlink_account){ .key = (uint64_t)p->counted };
}

void sharing_limit_connections(struct sharing *sh)
{
	struct rlimit rl = { .rlim_cur = 1024 };
	int n = sh->n_slots > 0 ? sh->n_slots : 1, total;
	rlim_t most;

	getrlimit(RLIMIT_NOFILE, &rl);
	/* Half of the descriptors stay for what supervision needs. */
	most = rl.rlim_cur / 2 < 1 << 20 ? rl.rlim_cur / 2 : 1 << 20;
	total = SHARING_PER_WORKER * n + SHARING_SHARED;
	if (total < SHARING_CONNECTIONS)
		total = SHARING_CONNECTIONS;
	if (total > (int)most)
		total = (int)most;
	sh->per_worker = SHARING_PER_WORKER;
	while (sh->per_worker > 1 && sh->per_worker * n > total * 3 / 4)
		sh->per_worker--;
	sh->max_connections = total;
	varlink_server_limit_connections(sh->server, total);
	varlink_server_limit_bytes(
		sh->server, sharing_unread_bytes(sh->commons) + SHARING_REPLY_BYTES);
}

/* True when the worker may open one more connection: one of its own, or one of those left for all.
 */
static bool may_connect(const struct sharing *sh, int slot)
{
	int shared = sh->max_connections - sh->per_worker * sh->n_slots, used = sh->connections;

	if (slot >= 0 && sh->slots[slot].connections < sh->per_worker)
		return true;
	for (int i = 0; i < sh->n_slots; i++) {
		int c = sh->slots[i].connections;

		used -= c < sh->per_worker ? c : sh->per_worker;
	}
	return used < shared;
}

static void count_connection(struct sharing_peer *peer, int slot)
{
	if (peer->counted >= 0)
		peer->sh->slots[peer->counted].connections--;
	peer->counted = slot;
	if (slot >= 0)
		peer->sh->slots[slot].connections++;
}

int sharing_opened(const struct varlink_peer *peer, void **ret_user, void *arg)
{
	struct sharing *sh = sharing_of(arg);
	int slot = slot_of_session(sh, peer->pid);
	struct sharing_peer *p;

	if (!may_connect(sh, slot)) {
		log_debug("pid %d of %s has too many connections", (int)peer->pid,
			slot >= 0 ? commons_slot_name(sh->commons, slot) : "no worker");
		return 1;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return 1;
	*p = (struct sharing_peer){
		.sv = sh->sv, .commons = sh->commons, .sh = sh, .slot = -1, .counted = -1
	};
	sh->connections++;
	count_connection(p, slot);
	*ret_user = p;
	return 0;
}

void sharing_shut(void *user, void *arg)
{
	struct sharing_peer *p = user;

	if (p->sh->relay)
		sharing_relay_shut(p);
	else
		FEATURES_CALL(p->sh->sv, worker_shut, p->sh->sv, p);
}

void sharing_closed(void *user, void *arg)
{
	struct sharing_peer *p = user;

	if (p->sh->relay)
		sharing_relay_closed(p);
	else
		FEATURES_CALL(p->sh->sv, worker_hung_up, p->sh->sv, p);
	count_connection(p, -1);
	p->sh->connections--;
	free(p);
}

int sharing_slot_of(const struct varlink_call *call)
{
	const struct sharing_peer *p = varlink_call_user(call);

	return p->slot;
}

bool sharing_is_present(const struct varlink_call *call)
{
	const struct sharing_peer *p = varlink_call_user(call);
	const struct worker *w;

	if (p->sh)
		return p->token == p->sh->slots[p->slot].token;
	w = commons_worker(p->commons, p->slot);
	return w && worker_alive(w) && (uint64_t)w->start == p->token;
}

struct supervisor *sharing_supervisor_of(const struct varlink_call *call)
{
	const struct sharing_peer *p = varlink_call_user(call);

	return p->sv;
}

struct commons *sharing_commons_of(const struct varlink_call *call)
{
	const struct sharing_peer *p = varlink_call_user(call);

	return p->commons;
}

static void bind_peer(struct varlink_call *call, struct sharing_peer *p, int slot)
{
	bool counts = p->counted == slot;

	if (p->slot < 0 && !p->sh->relay)
		FEATURES_CALL(p->sh->sv, worker_connected, p->sh->sv, slot);
	p->slot = slot;
	p->token = p->sh->slots[slot].token;
	p->sh->slots[slot].last_caller = p->token;
	count_connection(p, slot);
	if (!counts)
		varlink_call_recount(call);
}

/* A process that should be gone still makes calls; writes one event for each token. */
static int refuse_stale(struct sharing *sh, struct varlink_call *call, int slot, uint64_t token)
{
	const char *name = commons_slot_name(sh->commons, slot);
	struct sharing_slot *s = &sh->slots[slot];
	pid_t pid = varlink_call_peer(call)->pid;

	if (s->stale_logged != token) {
		s->stale_logged = token;
		supervisor_report(sh->sv, LOG_WARNING, "stale-worker",
			sh->commons->slots[slot].rank, NULL,
			"%s: pid %d belongs to an earlier process of it and is refused", name,
			(int)pid);
	}
	return sharing_fail(call, STATUS_ABORTED, "this is an earlier process of %s%s", name,
		s->token ? "; another one is running" : ", which has ended");
}

int sharing_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	struct sharing *sh = sharing_of(arg);
	struct sharing_peer *peer = varlink_call_user(call);
	const struct varlink_peer *who = varlink_call_peer(call);
	int slot;

	/* The job has one worker, which may have passed its connection to a child. */
	if (supervisor_options(sh->sv)->alone) {
		if (peer->slot < 0)
			bind_peer(call, peer, 0);
		return 0;
	}
	if (who->uid != 0 && who->uid != sh->uid) {
		sharing_fail(call, STATUS_PERMISSION_DENIED,
			"only root and the job's own user may speak to its workers' service");
		return 1;
	}
	if (!strcmp(method, "Hello"))
		return 0;
	if (peer->slot < 0) {
		slot = slot_of_tree(sh, who->pid);
		if (slot < 0) {
			sharing_fail(call, STATUS_FAILED_PRECONDITION,
				"pid %d is no worker of this job: call Hello with its ELASTICD_TOKEN",
				(int)who->pid);
			return 1;
		}
		bind_peer(call, peer, slot);
	}
	if (sh->slots[peer->slot].token == peer->token)
		return 0;
	refuse_stale(sh, call, peer->slot, peer->token);
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

static bool is_past(const struct sharing_slot *s, uint64_t token)
{
	for (int i = 0; i < SHARING_PAST; i++)
		if (s->past[i] == token)
			return true;
	return false;
}

/* The head needs no token. */
static int relay_hello(struct varlink_call *call)
{
	_cleanup_json_ json_t *p = json_pack("{s:s}", "token", "1");

	return sharing_relay_call(call, p);
}

int sharing_hello(struct varlink_call *call, json_t *p, void *arg)
{
	struct sharing *sh = sharing_of(arg);
	struct sharing_peer *peer = varlink_call_user(call);
	const char *text = json_get_string(p, "token", "");
	uint64_t token;

	if (!parse_token(text, &token))
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			"token: expected the number in ELASTICD_TOKEN, got \"%.40s\"", text);
	for (int i = 0; i < sh->n_slots; i++) {
		if (is_past(&sh->slots[i], token))
			return refuse_stale(sh, call, i, token);
		if (sh->slots[i].token != token)
			continue;
		if (peer->slot >= 0 && (peer->slot != i || peer->token != token))
			return sharing_fail(call, STATUS_FAILED_PRECONDITION,
				"this connection belongs to a process of %s already",
				commons_slot_name(sh->commons, peer->slot));
		bind_peer(call, peer, i);
		return sh->relay ? relay_hello(call) : sharing_hello_reply(call);
	}
	return sharing_fail(
		call, STATUS_PERMISSION_DENIED, "the token is of no worker of this job");
}
