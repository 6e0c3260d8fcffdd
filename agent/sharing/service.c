/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/private.h"
#include "common/base/alone.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/text/json.h"
#include "common/varlink/worker_idl.h"
#include "common/varlink/worker_ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

/* --- names --------------------------------------------------------------------------------------
 */

struct worker *sharing_worker(const struct sharing *sh, int slot)
{
	struct supervisor *sv = sh->sv;
	struct sharing_slot *s = &sh->slots[slot];

	if (s->place < supervisor_n_workers(sv) && supervisor_worker(sv, s->place)->slot == slot)
		return supervisor_worker(sv, s->place);
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		if (supervisor_worker(sv, i)->slot == slot) {
			s->place = i;
			return supervisor_worker(sv, i);
		}
	return NULL;
}

const char *sharing_slot_name(void *arg, int slot)
{
	const struct sharing *sh = arg;

	return slot >= 0 && slot < sh->n_slots && sh->slots[slot].name ? sh->slots[slot].name : "?";
}

/* The position in by_name where the slot of that name is, or would be. */
static int name_position(const struct sharing *sh, const char *name)
{
	int low = 0, high = sh->n_named;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (strcmp(sh->slots[sh->by_name[middle]].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int sharing_slot_named(const struct sharing *sh, const char *name)
{
	int at = name_position(sh, name), slot = at < sh->n_named ? sh->by_name[at] : -1;

	if (slot < 0 || strcmp(sh->slots[slot].name, name) != 0)
		return -1;
	return sharing_worker(sh, slot) ? slot : -1;
}

static int name_slot(struct sharing *sh, int slot, const struct worker *w)
{
	struct sharing_slot *s = &sh->slots[slot];
	size_t n = (size_t)sh->n_named;
	int *grown = reallocarray(sh->by_name, n + 1, sizeof(*grown)), at;

	if (!grown)
		return -ENOMEM;
	sh->by_name = grown;
	if (asprintf(&s->name, "%s:%d", w->role->name, w->index) < 0) {
		s->name = NULL;
		return -ENOMEM;
	}
	at = name_position(sh, s->name);
	memmove(grown + at + 1, grown + at, (n - (size_t)at) * sizeof(*grown));
	grown[at] = slot;
	sh->n_named++;
	return 0;
}

bool sharing_is_default(const struct worker *w)
{
	return !w->role->evaluator && !w->extra;
}

/* Makes the slot of w, whose number the core has given. */
static int make_slot(struct sharing *sh, const struct worker *w)
{
	struct sharing_slot *grown, *s;

	if (w->slot < 0 || w->slot >= BOARD_SLOTS)
		return -ENOSPC;
	if (w->slot >= sh->n_slots) {
		grown = reallocarray(sh->slots, (size_t)w->slot + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + sh->n_slots, 0,
			((size_t)w->slot + 1 - (size_t)sh->n_slots) * sizeof(*grown));
		sh->slots = grown;
		sh->n_slots = w->slot + 1;
		sharing_board_reserve(sh, sh->n_slots);
		sharing_limit_connections(sh);
	}
	s = &sh->slots[w->slot];
	if (!s->name && name_slot(sh, w->slot, w) < 0)
		return -ENOMEM;
	s->place = w->place;
	s->rank = w->rank;
	return 0;
}

/* Returns false without memory: the worker then shares nothing. */
static bool give_slot(struct sharing *sh, const struct worker *w)
{
	int r = make_slot(sh, w);

	if (r < 0)
		log_error("%s:%d has no part in what workers share: %s", w->role->name, w->index,
			strerror(-r));
	return r == 0;
}

void sharing_give_slots(struct sharing *sh)
{
	for (int i = 0; i < supervisor_n_workers(sh->sv); i++)
		if (!sharing_has_slot(sh, supervisor_worker(sh->sv, i)))
			(void)give_slot(sh, supervisor_worker(sh->sv, i));
}

bool sharing_has_slot(const struct sharing *sh, const struct worker *w)
{
	return w->slot >= 0 && w->slot < sh->n_slots && sh->slots[w->slot].name;
}

/* --- life ---------------------------------------------------------------------------------------
 */

static void on_group_error(void *arg, const struct members_error *error)
{
	struct sharing *sh = arg;
	const char *name = sharing_slot_name(sh, error->slot);

	log_debug("the group has an error: %s: %s", name, error->message);
	sharing_event(sh, "error", error->slot, error, error->message);
}

static int open_store(struct sharing *sh)
{
	struct members_options m = {
		.answer = sharing_members_answer,
		.error = on_group_error,
		.name = sharing_slot_name,
		.arg = sh,
	};
	struct loop *loop = supervisor_loop(sh->sv);
	int r = store_memory_new(loop, SHARING_STORE_BYTES, &sh->store);

	if (r == 0)
		r = kv_new(loop, sh->store, &sh->kv);
	if (r == 0)
		r = barriers_new(sharing_barrier_answer, sharing_slot_name, sh, &sh->barriers);
	if (r == 0)
		r = members_new(&m, &sh->members);
	if (r == 0)
		kv_on_wait(sh->kv, sharing_lost_check, sh);
	if (r == 0)
		r = loop_timer_new(loop, sharing_deadlines, sh, &sh->timer);
	return r;
}

static void on_leaving(void *arg)
{
	struct supervisor *sv = ((struct sharing *)arg)->sv;

	FEATURES_CALL(sv, answers_leaving, sv);
}

static int open_server(struct sharing *sh, struct error *err)
{
	struct varlink_also also[SHARING_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = worker_idl,
		.methods = sh->methods,
		.flat = sharing_flat_methods,
		.ranges = worker_ranges,
		.also = also,
		.limits = {
			.message_bytes = SHARING_MESSAGE_BYTES,
			.reply_bytes = SHARING_REPLY_BYTES,
			.queued_bytes = SHARING_QUEUED_BYTES,
			.connections = SHARING_CONNECTIONS,
			.account_bytes = SHARING_UNREAD_WORKER_BYTES + SHARING_REPLY_BYTES,
			.account_name = "one worker",
		},
		.account = sharing_account,
		.authorize = sharing_authorize,
		.opened = sharing_opened,
		.shut = sharing_shut,
		.closed = sharing_closed,
		.leaving = features_rely_on_disk(sh->sv) ? on_leaving : NULL,
		.arg = sh,
	};
	int r;

	if (!sh->methods)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(sh->sv, true, also, SHARING_INTERFACES);
	r = varlink_server_new(supervisor_loop(sh->sv), &opt, &sh->server, err);
	if (r < 0)
		return r;
	sharing_limit_connections(sh);
	return sh->socket_path ? varlink_server_listen_path(sh->server, sh->socket_path, 0600, err)
			       : 0;
}

static bool make_paths(struct sharing *sh, const char *dir)
{
	return asprintf(&sh->socket_path, "%s/worker.sock", dir) >= 0 &&
	       asprintf(&sh->board_path, "%s/board", dir) >= 0 &&
	       asprintf(&sh->board_file_path, "%s" BOARD_FILE_SUFFIX, sh->board_path) >= 0;
}

static int sharing_new(struct supervisor *sv, struct error *err)
{
	struct sharing *sh;

	if (!supervisor_options(sv)->runtime_dir && !supervisor_options(sv)->alone)
		return 0;
	sh = calloc(1, sizeof(*sh));
	if (!sh)
		return error_set(err, -ENOMEM, "out of memory");
	feature_set_state(sv, &sharing_feature, sh);
	sh->sv = sv;
	sh->uid = getuid();
	sh->board_fd = sh->board_file_fd = -1;
	sh->board_save_at = INT64_MIN;
	if ((!supervisor_options(sv)->alone &&
		    !make_paths(sh, supervisor_options(sv)->runtime_dir)) ||
		open_store(sh) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	sh->methods = features_methods(sv, true);
	return sharing_board_open(sh, err);
}

static int sharing_serve(struct supervisor *sv, struct error *err)
{
	return sharing_of(sv) ? open_server(sharing_of(sv), err) : 0;
}

int sharing_serve_socket(struct supervisor *sv, int fd, struct error *err)
{
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
		close(fd);
		return error_set(err, -errno, "not a socket: %s", strerror(errno));
	}
	return varlink_server_add_connection(sharing_of(sv)->server, fd, err);
}

int sharing_board_memory(const struct supervisor *sv)
{
	return sharing_of(sv)->board_fd;
}

/* Ends the calls that wait. */
static void sharing_hang_up(struct supervisor *sv)
{
	struct sharing *sh = sharing_of(sv);

	if (sh)
		sh->server = varlink_server_free(sh->server);
}

struct sharing *sharing_of(const struct supervisor *sv)
{
	return feature_state(sv, &sharing_feature);
}

static void slot_fini(struct sharing_slot *s)
{
	free(s->name);
	free(s->result);
	free(s->error_code);
	free(s->error_message);
}

static void sharing_free(struct supervisor *sv)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return;
	feature_set_state(sv, &sharing_feature, NULL);
	free(sh->methods);
	sharing_watches_free(sh);
	sharing_lost_clear(sh);
	sharing_streams_free(sh);
	sharing_board_close(sh);
	loop_cancel(supervisor_loop(sv), sharing_deadlines, sh);
	members_free(sh->members);
	barriers_free(sh->barriers);
	kv_free(sh->kv);
	store_free(sh->store);
	loop_timer_free(sh->timer);
	for (int i = 0; i < sh->n_slots; i++)
		slot_fini(&sh->slots[i]);
	free(sh->slots);
	free(sh->by_name);
	free(sh->socket_path);
	free(sh->board_path);
	free(sh->board_file_path);
	free(sh->why);
	free(sh);
}

/* Call it when the error that workers fail with may have changed: writes to the board whether there
 * is one, and calls the feature that waits for it. */
void sharing_error_changed(struct sharing *sh)
{
	bool up = members_reported_error(sh->members) != NULL;

	if (sh->error_up != up) {
		sh->error_up = up;
		sharing_board_error(sh, up);
	}
	if (up && sh->error_fn)
		sh->error_fn(sh->error_arg);
}

void sharing_on_error(struct supervisor *sv, void (*fn)(void *arg), void *arg)
{
	if (!sharing_of(sv))
		return;
	sharing_of(sv)->error_fn = fn;
	sharing_of(sv)->error_arg = arg;
}

/* --- hooks --------------------------------------------------------------------------------------
 */

static void sharing_begin(struct supervisor *sv)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return;
	sh->stopping = false;
	free(sh->why);
	sh->why = NULL;
	for (int i = 0; i < sh->n_slots; i++)
		sh->slots[i].place = INT32_MAX; /* unless it is still there */
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		(void)give_slot(sh, supervisor_worker(sv, i));
	sharing_results_clear(sh);
	sharing_lost_clear(sh);
	sharing_watches_end(sh);
	kv_begin(sh->kv, supervisor_attempt(sv));
	barriers_reset(sh->barriers, "another attempt of the group begins");
	members_reset(sh->members, "another attempt of the group begins");
	sharing_error_changed(sh);
	sharing_board_set(sh, (uint64_t)supervisor_attempt(sv), 0);
}

static uint64_t draw_token(void)
{
	uint64_t token = 0;

	while (!token)
		if (getrandom(&token, sizeof(token), 0) != sizeof(token))
			token = loop_real_us(); /* early at boot, or an old kernel */
	return token;
}

/* The slot's process no longer belongs to the job. */
static void forget_token(struct sharing_slot *s)
{
	if (s->token)
		s->past[s->n_past++ % SHARING_PAST] = s->token;
	s->token = 0;
	s->pid = 0;
}

static void sharing_worker_starting(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);
	struct sharing_slot *s;

	if (!sh || !give_slot(sh, w))
		return;
	s = &sh->slots[w->slot];
	forget_token(s);
	sharing_result_clear(sh, w->slot);
	s->token = w->token = supervisor_options(sv)->alone ? ALONE_TOKEN : draw_token();
	s->cancels = 0;
	sharing_board_expect(sh, w->slot, w->token);
}

static int env_log_file(const struct worker *w, struct env *e)
{
	const char *slash = w->error_file ? strrchr(w->error_file, '/') : NULL;

	if (!slash)
		return env_put(e, "ELASTICD_LOG_FILE=");
	return env_setf(e, "ELASTICD_LOG_FILE", "%.*s/log.jsonl", (int)(slash - w->error_file),
		w->error_file);
}

static int sharing_env(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct sharing *sh = sharing_of(sv);
	int r;

	if (!sh || !sharing_has_slot(sh, w))
		return 0;
	r = env_setf(e, "ELASTICD_WORKER_SOCKET", "%s", sh->socket_path);
	if (!r && sharing_board_has(sh, w->slot))
		r = env_setf(e, "ELASTICD_BOARD", "%s", sh->board_path);
	if (!r && sharing_board_has(sh, w->slot))
		r = env_setf(e, "ELASTICD_SLOT", "%d", w->slot);
	if (!r)
		r = env_setf(e, "ELASTICD_TOKEN", "%" PRIu64, w->token);
	if (!r)
		r = env_setf(e, "ELASTICD_START", "%d", w->start);
	return r ? r : env_log_file(w, e);
}

static void sharing_worker_started(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);
	char text[128];

	if (!sh || !sharing_has_slot(sh, w))
		return;
	sh->slots[w->slot].pid = w->pid;
	barriers_worker_started(sh->barriers, w->slot);
	if (members_started(
		    sh->members, w->slot, w->role->recoverable, w->role->evaluator || w->extra) < 0)
		log_error("%s: out of memory: the group does not count it as a member",
			sh->slots[w->slot].name);
	sharing_error_changed(sh);
	snprintf(text, sizeof(text), "%.80s has started", sh->slots[w->slot].name);
	sharing_event(sh, "joined", w->slot, NULL, text);
}

/* Whether others can wait for the next process of w. The core has not decided yet, so this says
 * what it allows: a worker that succeeded has no next process unless a person starts it again. */
static bool may_restart(const struct supervisor *sv, const struct worker *w)
{
	if (!w->role->recoverable || supervisor_leader_over(sv) || supervisor_on_notice(sv))
		return false;
	return w->state == WORKER_FAILED || w->state == WORKER_WAITING;
}

/* Reads what a process had sent before any feature learns of its end, so that a result or an error
 * written just before exit is never lost. */
static void sharing_worker_ending(struct supervisor *sv)
{
	if (sharing_of(sv))
		varlink_server_receive(sharing_of(sv)->server);
}

static void sharing_worker_ended(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);
	struct sharing_slot *s;
	char text[512];
	bool bad = w->state == WORKER_FAILED;

	if (!sh || !sharing_has_slot(sh, w))
		return;
	s = &sh->slots[w->slot];
	forget_token(s);
	sharing_board_expect(sh, w->slot, 0);
	/* Its arrivals end with the process, even if the worker is started again. */
	barriers_worker_ended(sh->barriers, w->slot, bad || w->state == WORKER_WAITING,
		may_restart(sv, w), w->exit.text);
	members_ended(sh->members, w->slot, bad, w->exit.text, w->ended_us);
	sharing_error_changed(sh);
	if (bad && !members_left(sh->members, w->slot))
		sharing_lost(sh, w, w->exit.text);
	sharing_lost_check(sh);
	snprintf(text, sizeof(text), "%.80s has ended: %s", s->name, w->exit.text);
	sharing_event(sh, "gone", w->slot, NULL, text);
}

static void sharing_worker_stopping(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);

	if (sh && sharing_has_slot(sh, w))
		barriers_worker_stopped(sh->barriers, w->slot);
}

static void sharing_flush(struct supervisor *sv)
{
	if (sharing_of(sv))
		varlink_server_flush(sharing_of(sv)->server);
}

static void sharing_worker_over(struct supervisor *sv, struct worker *w)
{
	const char *why = w->exit.ended ? w->exit.text : "it is not started";
	struct sharing *sh = sharing_of(sv);

	if (!sh || !sharing_has_slot(sh, w))
		return;
	barriers_worker_ended(sh->barriers, w->slot, true, false, why);
	if (!w->on_purpose)
		sharing_lost(sh, w, why);
}

static void sharing_stopping(struct supervisor *sv, const char *why)
{
	struct sharing *sh = sharing_of(sv);
	char text[800];

	if (!sh || sh->stopping)
		return;
	sh->stopping = true;
	snprintf(text, sizeof(text), "the group is being stopped%s%s", why && *why ? ": " : "",
		why ? why : "");
	free(sh->why);
	sh->why = strdup(text);
	sharing_board_set(
		sh, (uint64_t)supervisor_attempt(sv), (uint64_t)supervisor_attempt(sv) + 1);
	sharing_event(sh, "stopping", -1, NULL, text);
	sharing_watches_end(sh);
	kv_stop(sh->kv, STATUS_CANCELLED, text);
	barriers_stop(sh->barriers, STATUS_CANCELLED, text);
	members_stop(sh->members, STATUS_CANCELLED, text);
}

void sharing_send_notice(struct supervisor *sv, const char *text)
{
	if (sharing_of(sv))
		sharing_event(sharing_of(sv), "notice", -1, NULL, text);
}

void sharing_set_notice(struct supervisor *sv, uint64_t notice, int64_t save_at)
{
	if (sharing_of(sv))
		sharing_board_notice(sharing_of(sv), notice, save_at);
}

bool sharing_has_called(const struct supervisor *sv, const struct worker *w)
{
	const struct sharing *sh = sharing_of(sv);

	return sh && sharing_has_slot(sh, w) && w->token &&
	       sh->slots[w->slot].last_caller == w->token;
}

const struct board_slot *sharing_board_slot(const struct supervisor *sv, const struct worker *w)
{
	return sharing_of(sv) ? sharing_board_read(sharing_of(sv), w->slot) : NULL;
}

/* --- the feature --------------------------------------------------------------------------------
 */

/* A worker's own report of its progress. */
static void sharing_describe(
	const struct supervisor *sv, const struct worker *w, json_t *j, bool live)
{
	const struct board_slot *slot = live ? sharing_board_slot(sv, w) : NULL;
	int64_t step;

	if (!slot || !worker_alive(w) ||
		atomic_load_explicit(&slot->token, memory_order_acquire) != w->token)
		return;
	step = atomic_load_explicit(&slot->step, memory_order_relaxed);
	if (step >= 0)
		json_put(j, "step", json_integer(step));
}

static const struct varlink_method manager_methods[] = {
	{ "Results", sharing_method_results },
	{ NULL, NULL },
};

const struct feature sharing_feature = {
	.name = "sharing",
	.init = sharing_new,
	.ready = sharing_serve,
	.hang_up = sharing_hang_up,
	.fini = sharing_free,
	.manager_methods = manager_methods,
	.worker_methods = sharing_methods,
	.attempt_begins = sharing_begin,
	.group_stopping = sharing_stopping,
	.job_ended = sharing_record,
	.worker_environment = sharing_env,
	.worker_starting = sharing_worker_starting,
	.worker_not_started = sharing_worker_ended,
	.worker_started = sharing_worker_started,
	.worker_stopped = sharing_worker_stopping,
	.before_reap = sharing_worker_ending,
	.worker_exited = sharing_worker_ended,
	.worker_over = sharing_worker_over,
	.flush = sharing_flush,
	.describe_worker = sharing_describe,
};
