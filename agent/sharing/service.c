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

struct task *worker_task(const struct workers *w, int slot)
{
	struct agent *a = w->a;
	struct worker_slot *s = &w->slots[slot];

	if (s->rank < a->n_tasks && a->tasks[s->rank].slot == slot)
		return &a->tasks[s->rank];
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].slot == slot) {
			s->rank = i;
			return &a->tasks[i];
		}
	return NULL;
}

const char *worker_slot_name(void *arg, int slot)
{
	const struct workers *w = arg;

	return slot >= 0 && slot < w->n_slots && w->slots[slot].name ? w->slots[slot].name : "?";
}

/* Where in by_name the slot of that name is, or would be. */
static int name_place(const struct workers *w, const char *name)
{
	int low = 0, high = w->n_named;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (strcmp(w->slots[w->by_name[middle]].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int worker_slot_named(const struct workers *w, const char *name)
{
	int at = name_place(w, name), slot = at < w->n_named ? w->by_name[at] : -1;

	if (slot < 0 || strcmp(w->slots[slot].name, name) != 0)
		return -1;
	return worker_task(w, slot) ? slot : -1;
}

static int name_slot(struct workers *w, int slot, const struct task *t)
{
	struct worker_slot *s = &w->slots[slot];
	size_t n = (size_t)w->n_named;
	int *grown = reallocarray(w->by_name, n + 1, sizeof(*grown)), at;

	if (!grown)
		return -ENOMEM;
	w->by_name = grown;
	if (asprintf(&s->name, "%s:%d", t->role->name, t->index) < 0) {
		s->name = NULL;
		return -ENOMEM;
	}
	at = name_place(w, s->name);
	memmove(grown + at + 1, grown + at, (n - (size_t)at) * sizeof(*grown));
	grown[at] = slot;
	w->n_named++;
	return 0;
}

bool worker_is_default(const struct task *t)
{
	return !t->role->evaluator && !t->extra;
}

/* Has a slot for t, whose number the roster has given. */
static int make_slot(struct workers *w, const struct task *t)
{
	struct worker_slot *grown, *s;

	if (t->slot < 0 || t->slot >= BOARD_SLOTS)
		return -ENOSPC;
	if (t->slot >= w->n_slots) {
		grown = reallocarray(w->slots, (size_t)t->slot + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + w->n_slots, 0,
			((size_t)t->slot + 1 - (size_t)w->n_slots) * sizeof(*grown));
		w->slots = grown;
		w->n_slots = t->slot + 1;
		worker_board_reserve(w, w->n_slots);
		worker_limit_connections(w);
	}
	s = &w->slots[t->slot];
	if (!s->name && name_slot(w, t->slot, t) < 0)
		return -ENOMEM;
	s->rank = t->rank;
	return 0;
}

/* False where there is none to be had: the task then shares nothing. */
static bool give_slot(struct workers *w, const struct task *t)
{
	int r = make_slot(w, t);

	if (r < 0)
		log_error("%s:%d has no part in what workers share: %s", t->role->name, t->index,
			strerror(-r));
	return r == 0;
}

void worker_give_slots(struct workers *w)
{
	for (int i = 0; i < w->a->n_tasks; i++)
		if (!worker_has_slot(w, &w->a->tasks[i]))
			(void)give_slot(w, &w->a->tasks[i]);
}

bool worker_has_slot(const struct workers *w, const struct task *t)
{
	return t->slot >= 0 && t->slot < w->n_slots && w->slots[t->slot].name;
}

/* --- life ---------------------------------------------------------------------------------------
 */

static void on_group_error(void *arg, const struct members_error *error)
{
	struct workers *w = arg;
	const char *name = worker_slot_name(w, error->slot);

	log_debug("the group has an error: %s: %s", name, error->message);
	worker_event(w, "error", error->slot, error, error->message);
}

static int open_store(struct workers *w)
{
	struct members_options m = {
		.answer = worker_members_answer,
		.error = on_group_error,
		.name = worker_slot_name,
		.arg = w,
	};
	struct loop *loop = w->a->loop;
	int r = store_memory_new(loop, WORKERS_STORE_BYTES, &w->store);

	if (r == 0)
		r = kv_new(loop, w->store, &w->kv);
	if (r == 0)
		r = barriers_new(worker_barrier_answer, worker_slot_name, w, &w->barriers);
	if (r == 0)
		r = members_new(&m, &w->members);
	if (r == 0)
		kv_on_wait(w->kv, worker_lost_look, w);
	if (r == 0)
		r = loop_timer_new(loop, worker_deadlines, w, &w->timer);
	return r;
}

static void leaving(void *arg)
{
	struct agent *a = ((struct workers *)arg)->a;

	FEATURES_CALL(a, answers_leaving, a);
}

static int open_server(struct workers *w, struct error *err)
{
	struct varlink_also also[WORKERS_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = worker_idl,
		.methods = w->methods,
		.flat = worker_flat_methods,
		.ranges = worker_ranges,
		.also = also,
		.limits = {
			.message_bytes = WORKERS_MESSAGE_BYTES,
			.reply_bytes = WORKERS_REPLY_BYTES,
			.queued_bytes = WORKERS_QUEUED_BYTES,
			.connections = WORKERS_CONNECTIONS,
			.account_bytes = WORKERS_UNREAD_TASK_BYTES + WORKERS_REPLY_BYTES,
			.account_name = "one task",
		},
		.account = worker_account,
		.authorize = worker_authorize,
		.opened = worker_opened,
		.closed = worker_closed,
		.leaving = features_rely_on_disk(w->a) ? leaving : NULL,
		.limit_error = "ResourceExhausted",
		.arg = w,
	};
	int r;

	if (!w->methods)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(w->a, true, also, WORKERS_INTERFACES);
	r = varlink_server_new(w->a->loop, &opt, &w->server, err);
	if (r < 0)
		return r;
	worker_limit_connections(w);
	return w->socket_path ? varlink_server_listen_path(w->server, w->socket_path, 0600, err)
			      : 0;
}

static bool make_paths(struct workers *w, const char *dir)
{
	return asprintf(&w->socket_path, "%s/worker.sock", dir) >= 0 &&
	       asprintf(&w->board_path, "%s/board", dir) >= 0 &&
	       asprintf(&w->board_file_path, "%s" BOARD_FILE_SUFFIX, w->board_path) >= 0;
}

static int workers_new(struct agent *a, struct error *err)
{
	struct workers *w;

	if (!a->opt.runtime_dir && !a->opt.alone)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(err, -ENOMEM, "out of memory");
	a->workers = w;
	w->a = a;
	w->uid = getuid();
	w->board_fd = w->board_file_fd = -1;
	w->board_save_at = INT64_MIN;
	if ((!a->opt.alone && !make_paths(w, a->opt.runtime_dir)) || open_store(w) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	w->methods = features_methods(a, true);
	return worker_board_open(w, err);
}

static int workers_serve(struct agent *a, struct error *err)
{
	return a->workers ? open_server(a->workers, err) : 0;
}

int workers_serve_socket(struct agent *a, int fd, struct error *err)
{
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
		close(fd);
		return error_set(err, -errno, "not a socket: %s", strerror(errno));
	}
	return varlink_server_add_connection(a->workers->server, fd, err);
}

int workers_board_fd(const struct agent *a)
{
	return a->workers->board_fd;
}

/* Ends the calls that wait. */
static void workers_hang_up(struct agent *a)
{
	struct workers *w = a->workers;

	if (w)
		w->server = varlink_server_free(w->server);
}

static void slot_fini(struct worker_slot *s)
{
	free(s->name);
	free(s->result);
	free(s->error_code);
	free(s->error_message);
}

static void workers_free(struct agent *a)
{
	struct workers *w = a->workers;

	if (!w)
		return;
	a->workers = NULL;
	free(w->methods);
	worker_watches_free(w);
	worker_lost_clear(w);
	worker_streams_free(w);
	worker_board_close(w);
	loop_cancel(a->loop, worker_deadlines, w);
	members_free(w->members);
	barriers_free(w->barriers);
	kv_free(w->kv);
	store_free(w->store);
	loop_timer_free(w->timer);
	for (int i = 0; i < w->n_slots; i++)
		slot_fini(&w->slots[i]);
	free(w->slots);
	free(w->by_name);
	free(w->socket_path);
	free(w->board_path);
	free(w->board_file_path);
	free(w->why);
	free(w);
}

/* After whatever may have changed the error that workers are to fail with: the board says whether
 * there is one, and the feature that waits for it hears of it. */
void worker_error_changed(struct workers *w)
{
	bool up = members_reported_error(w->members) != NULL;

	if (w->error_up != up) {
		w->error_up = up;
		worker_board_error(w, up);
	}
	if (up && w->error_fn)
		w->error_fn(w->error_arg);
}

void workers_on_error(struct agent *a, void (*fn)(void *arg), void *arg)
{
	if (!a->workers)
		return;
	a->workers->error_fn = fn;
	a->workers->error_arg = arg;
}

/* --- what happens to tasks ----------------------------------------------------------------------
 */

static void workers_begin(struct agent *a)
{
	struct workers *w = a->workers;

	if (!w)
		return;
	w->stopping = false;
	free(w->why);
	w->why = NULL;
	for (int i = 0; i < w->n_slots; i++)
		w->slots[i].rank = INT32_MAX; /* unless it is still there */
	for (int i = 0; i < a->n_tasks; i++)
		(void)give_slot(w, &a->tasks[i]);
	worker_results_clear(w);
	worker_lost_clear(w);
	worker_watches_end(w);
	kv_begin(w->kv, a->attempt);
	barriers_reset(w->barriers, "another attempt of the group begins");
	members_reset(w->members, "another attempt of the group begins");
	worker_error_changed(w);
	worker_board_set(w, (uint64_t)a->attempt, 0);
}

static uint64_t draw_token(void)
{
	uint64_t token = 0;

	while (!token)
		if (getrandom(&token, sizeof(token), 0) != sizeof(token))
			token = loop_real_us(); /* early at boot, or an old kernel */
	return token;
}

/* Its process is none of the job's any more. */
static void forget_token(struct worker_slot *s)
{
	if (s->token)
		s->past[s->n_past++ % WORKERS_PAST] = s->token;
	s->token = 0;
	s->pid = 0;
}

static void workers_task_starting(struct agent *a, struct task *t)
{
	struct workers *w = a->workers;
	struct worker_slot *s;

	if (!w || !give_slot(w, t))
		return;
	s = &w->slots[t->slot];
	forget_token(s);
	worker_result_clear(w, t->slot);
	s->token = t->token = a->opt.alone ? ALONE_TOKEN : draw_token();
	s->cancels = 0;
	worker_board_expect(w, t->slot, t->token);
}

static int env_log_file(const struct task *t, struct env *e)
{
	const char *slash = t->error_file ? strrchr(t->error_file, '/') : NULL;

	if (!slash)
		return env_put(e, "ELASTICD_LOG_FILE=");
	return env_setf(e, "ELASTICD_LOG_FILE", "%.*s/log.jsonl", (int)(slash - t->error_file),
		t->error_file);
}

static int workers_env(const struct agent *a, const struct task *t, struct env *e)
{
	const struct workers *w = a->workers;
	int r;

	if (!w || !worker_has_slot(w, t))
		return 0;
	r = env_setf(e, "ELASTICD_WORKER_SOCKET", "%s", w->socket_path);
	if (!r && worker_board_has(w, t->slot))
		r = env_setf(e, "ELASTICD_BOARD", "%s", w->board_path);
	if (!r && worker_board_has(w, t->slot))
		r = env_setf(e, "ELASTICD_SLOT", "%d", t->slot);
	if (!r)
		r = env_setf(e, "ELASTICD_TOKEN", "%" PRIu64, t->token);
	if (!r)
		r = env_setf(e, "ELASTICD_INCARNATION", "%d", t->incarnation);
	return r ? r : env_log_file(t, e);
}

static void workers_task_started(struct agent *a, struct task *t)
{
	struct workers *w = a->workers;
	char text[128];

	if (!w || !worker_has_slot(w, t))
		return;
	w->slots[t->slot].pid = t->pid;
	barriers_task_started(w->barriers, t->slot);
	if (members_started(
		    w->members, t->slot, t->role->recoverable, t->role->evaluator || t->extra) < 0)
		log_error("%s: out of memory: others are not told of it", w->slots[t->slot].name);
	worker_error_changed(w);
	snprintf(text, sizeof(text), "%.80s has started", w->slots[t->slot].name);
	worker_event(w, "joined", t->slot, NULL, text);
}

/* Whether others wait for its next process, as far as is known before its end is judged: one that
 * ended well has none, but where a person starts it again. */
static bool comes_again(const struct agent *a, const struct task *t)
{
	if (!t->role->recoverable || a->leader_over || a->on_notice)
		return false;
	return t->state == TASK_FAILED || t->state == TASK_WAITING;
}

/* A process is gone, and nothing knows it yet: what it had sent before is read first, so a result
 * or an error written just before exit is never lost. */
static void workers_task_ending(struct agent *a)
{
	if (a->workers)
		varlink_server_receive(a->workers->server);
}

static void workers_task_ended(struct agent *a, struct task *t)
{
	struct workers *w = a->workers;
	struct worker_slot *s;
	char text[512];
	bool bad = t->state == TASK_FAILED;

	if (!w || !worker_has_slot(w, t))
		return;
	s = &w->slots[t->slot];
	forget_token(s);
	worker_board_expect(w, t->slot, 0);
	/* Of one that is started again the arrival was the old process's. */
	barriers_task_ended(w->barriers, t->slot, bad || t->state == TASK_WAITING,
		comes_again(a, t), t->exit.text);
	members_ended(w->members, t->slot, bad, t->exit.text, t->ended_us);
	worker_error_changed(w);
	if (bad && !members_left(w->members, t->slot))
		worker_lost(w, t, t->exit.text);
	worker_lost_look(w);
	snprintf(text, sizeof(text), "%.80s has ended: %s", s->name, t->exit.text);
	worker_event(w, "gone", t->slot, NULL, text);
}

static void workers_task_stopping(struct agent *a, struct task *t)
{
	struct workers *w = a->workers;

	if (w && worker_has_slot(w, t))
		barriers_task_stopped(w->barriers, t->slot);
}

static void workers_flush(struct agent *a)
{
	if (a->workers)
		varlink_server_flush(a->workers->server);
}

static void workers_task_over(struct agent *a, struct task *t)
{
	const char *why = t->exit.ended ? t->exit.text : "it is not started";
	struct workers *w = a->workers;

	if (!w || !worker_has_slot(w, t))
		return;
	barriers_task_ended(w->barriers, t->slot, true, false, why);
	if (!t->on_purpose)
		worker_lost(w, t, why);
}

static void workers_stopping(struct agent *a, const char *why)
{
	struct workers *w = a->workers;
	char text[800];

	if (!w || w->stopping)
		return;
	w->stopping = true;
	snprintf(text, sizeof(text), "the group is being stopped%s%s", why && *why ? ": " : "",
		why ? why : "");
	free(w->why);
	w->why = strdup(text);
	worker_board_set(w, (uint64_t)a->attempt, (uint64_t)a->attempt + 1);
	worker_event(w, "stopping", -1, NULL, text);
	worker_watches_end(w);
	kv_stop(w->kv, STATUS_CANCELLED, text);
	barriers_stop(w->barriers, STATUS_CANCELLED, text);
	members_stop(w->members, STATUS_CANCELLED, text);
}

void workers_notice(struct agent *a, const char *text)
{
	if (a->workers)
		worker_event(a->workers, "notice", -1, NULL, text);
}

void workers_board_notice(struct agent *a, uint64_t notice, int64_t save_at)
{
	if (a->workers)
		worker_board_notice(a->workers, notice, save_at);
}

bool workers_spoke(const struct agent *a, const struct task *t)
{
	const struct workers *w = a->workers;

	return w && worker_has_slot(w, t) && t->token && w->slots[t->slot].spoke == t->token;
}

const struct board_slot *workers_slot(const struct agent *a, const struct task *t)
{
	return a->workers ? worker_board_look(a->workers, t->slot) : NULL;
}

/* --- the feature --------------------------------------------------------------------------------
 */

/* What a worker says of its own progress. */
static void workers_describe(const struct agent *a, const struct task *t, json_t *j, bool live)
{
	const struct board_slot *slot = live ? workers_slot(a, t) : NULL;
	int64_t step;

	if (!slot || !task_alive(t) ||
		atomic_load_explicit(&slot->token, memory_order_acquire) != t->token)
		return;
	step = atomic_load_explicit(&slot->step, memory_order_relaxed);
	if (step >= 0)
		json_put(j, "step", json_integer(step));
}

static const struct varlink_method manager_methods[] = {
	{ "Results", workers_method_results },
	{ NULL, NULL },
};

const struct feature sharing_feature = {
	.name = "sharing",
	.init = workers_new,
	.serve = workers_serve,
	.hang_up = workers_hang_up,
	.fini = workers_free,
	.manager_methods = manager_methods,
	.worker_methods = worker_methods,
	.attempt_begins = workers_begin,
	.group_stopping = workers_stopping,
	.job_ended = workers_record,
	.worker_environment = workers_env,
	.worker_starting = workers_task_starting,
	.worker_not_started = workers_task_ended,
	.worker_started = workers_task_started,
	.worker_stopped = workers_task_stopping,
	.before_reap = workers_task_ending,
	.worker_exited = workers_task_ended,
	.worker_over = workers_task_over,
	.flush = workers_flush,
	.describe_worker = workers_describe,
};
