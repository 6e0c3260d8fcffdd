/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/group.h"
#include "agent/sharing/private.h"
#include "common/base/alone.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/varlink/worker_idl.h"
#include "common/varlink/worker_ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

/* --- names --- */

/* Makes the slot of w, whose number the core has given. */
static int make_slot(struct sharing *sh, const struct worker *w)
{
	struct sharing_slot *grown;

	if (w->slot < 0 || w->slot >= BOARD_SLOTS)
		return -ENOSPC;
	if (w->slot >= sh->n_slots) {
		grown = array_grow(
			sh->slots, (size_t)sh->n_slots, (size_t)w->slot + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		sh->slots = grown;
		sh->n_slots = w->slot + 1;
		sharing_board_reserve(sh, sh->n_slots);
		sharing_limit_connections(sh);
	}
	return commons_give_slot(sh->commons, w);
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
		if (!commons_has_slot(sh->commons, supervisor_worker(sh->sv, i)))
			(void)give_slot(sh, supervisor_worker(sh->sv, i));
}

/* --- the commons of this host's workers --- */

static int own_count(void *arg)
{
	return supervisor_n_workers(((struct sharing *)arg)->sv);
}

static struct worker *own_worker(void *arg, int place)
{
	return supervisor_worker(((struct sharing *)arg)->sv, place);
}

static bool own_on_notice(void *arg)
{
	return supervisor_on_notice(((struct sharing *)arg)->sv);
}

static int own_attempt(void *arg)
{
	return supervisor_attempt(((struct sharing *)arg)->sv);
}

static void own_error_changed(void *arg, bool up)
{
	struct sharing *sh = arg;

	/* Where another agent has the group's errors, it says what the board shows. */
	if (sh->board_error != up && !sh->relay)
		sharing_board_error(sh, up);
	if (up)
		FEATURES_CALL(sh->sv, group_error, sh->sv);
}

static void own_worker_error(void *arg, struct worker *w, const char *code, const char *message)
{
	supervisor_worker_error(((struct sharing *)arg)->sv, w, code, message);
}

static struct commons_state own_state(void *arg)
{
	const struct supervisor *sv = ((struct sharing *)arg)->sv;
	const struct group *group = supervisor_group(sv);

	return (struct commons_state){
		.phase = supervisor_ended(sv)		 ? COMMONS_ENDED
			 : stop_group_active(sv)	 ? COMMONS_STOPPING
			 : group->state == GROUP_RUNNING ? COMMONS_RUNNING
							 : COMMONS_STARTING,
		.goal = group->goal,
		.reason = supervisor_reason(sv),
		.leader_over = supervisor_leader_over(sv),
	};
}

static void own_decide(void *arg)
{
	struct supervisor *sv = ((struct sharing *)arg)->sv;

	apply_decisions(sv);
	supervisor_changed(sv);
}

static void own_event(void *arg, const char *event, int rank, json_t *data, const char *text)
{
	struct supervisor *sv = ((struct sharing *)arg)->sv;

	supervisor_event(sv, event, rank, data, "%s", text);
}

static void own_barrier_passed(void *arg)
{
	struct supervisor *sv = ((struct sharing *)arg)->sv;

	FEATURES_CALL(sv, barrier_passed, sv);
}

static int open_commons(struct sharing *sh)
{
	const struct commons_options opt = {
		.loop = supervisor_loop(sh->sv),
		.spec = supervisor_spec(sh->sv),
		.run = supervisor_options(sh->sv)->run,
		.reply_bytes = SHARING_REPLY_BYTES,
		.owner = { .count = own_count,
			.at = own_worker,
			.on_notice = own_on_notice,
			.attempt = own_attempt,
			.error_changed = own_error_changed,
			.worker_error = own_worker_error,
			.event = own_event,
			.state = own_state,
			.decide = own_decide,
			.barrier_passed = own_barrier_passed,
			.arg = sh },
	};

	return commons_new(&opt, &sh->commons);
}

struct commons *sharing_commons(const struct supervisor *sv)
{
	return sharing_of(sv) ? sharing_of(sv)->commons : NULL;
}

/* --- life --- */

void sharing_answers_leaving(void *arg)
{
	struct supervisor *sv = arg;

	FEATURES_CALL(sv, answers_leaving, sv);
}

void sharing_server_options(struct supervisor *sv, const struct varlink_method *methods,
	struct varlink_interface_options *more, struct varlink_options *ret)
{
	features_interfaces(sv, true, more, SHARING_INTERFACES);
	*ret = (struct varlink_options){
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = worker_idl,
		.methods = methods,
		.flat = sharing_flat_methods,
		.ranges = worker_ranges,
		.more_interfaces = more,
		.limits = {
			.message_bytes = SHARING_MESSAGE_BYTES,
			.queued_bytes = SHARING_QUEUED_BYTES,
			.account_bytes = SHARING_UNREAD_WORKER_BYTES + SHARING_REPLY_BYTES,
			.account_name = "one worker",
		},
		.account = sharing_account,
		.leaving = FEATURES_ANY(sv, relies_on_disk, sv) ? sharing_answers_leaving : NULL,
		.arg = sv,
	};
}

static int open_server(struct sharing *sh, struct error *err)
{
	struct varlink_interface_options more[SHARING_INTERFACES];
	struct varlink_options opt;
	int r;

	if (!sh->methods)
		return error_set(err, -ENOMEM, "out of memory");
	sharing_server_options(sh->sv, sh->methods, more, &opt);
	opt.limits.reply_bytes = SHARING_REPLY_BYTES;
	opt.limits.connections = SHARING_CONNECTIONS;
	opt.authorize = sharing_authorize;
	opt.relay = sh->relay ? sharing_relay_worker : NULL;
	opt.opened = sharing_opened;
	opt.shut = sharing_shut;
	opt.closed = sharing_closed;
	r = varlink_server_new(supervisor_loop(sh->sv), &opt, &sh->server, err);
	if (r < 0)
		return r;
	sh->commons->server = sh->server;
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
		open_commons(sh) < 0)
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

	if (!sh)
		return;
	sh->server = varlink_server_free(sh->server);
	if (sh->commons)
		sh->commons->server = NULL;
}

struct sharing *sharing_of(const struct supervisor *sv)
{
	return feature_state(sv, &sharing_feature);
}

static void sharing_free(struct supervisor *sv)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return;
	feature_set_state(sv, &sharing_feature, NULL);
	free(sh->methods);
	sharing_board_close(sh);
	commons_free(sh->commons);
	free(sh->relay);
	free(sh->slots);
	free(sh->socket_path);
	free(sh->board_path);
	free(sh->board_file_path);
	free(sh);
}

/* --- hooks --- */

static void sharing_begin(struct supervisor *sv)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return;
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		(void)give_slot(sh, supervisor_worker(sv, i));
	commons_begin(sh->commons);
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
	commons_worker_starting(sh->commons, w);
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

	if (!sh || !commons_has_slot(sh->commons, w))
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

	if (!sh || !commons_has_slot(sh->commons, w))
		return;
	sh->slots[w->slot].pid = w->pid;
	commons_worker_started(sh->commons, w);
}

/* True when others can wait for the next process of w. The core has not decided yet, so this says
 * what it allows: a worker that succeeded has no next process unless a person starts it again. */
bool sharing_may_restart(const struct supervisor *sv, const struct worker *w)
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

	if (!sh || !commons_has_slot(sh->commons, w))
		return;
	forget_token(&sh->slots[w->slot]);
	sharing_board_expect(sh, w->slot, 0);
	commons_worker_ended(sh->commons, w, sharing_may_restart(sv, w));
}

static void sharing_worker_stopping(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);

	if (sh && commons_has_slot(sh->commons, w))
		commons_worker_stopped(sh->commons, w);
}

static void sharing_flush(struct supervisor *sv)
{
	if (sharing_of(sv) && sharing_of(sv)->server)
		varlink_server_flush(sharing_of(sv)->server);
}

static void sharing_worker_over(struct supervisor *sv, struct worker *w)
{
	struct sharing *sh = sharing_of(sv);

	if (sh && commons_has_slot(sh->commons, w))
		commons_worker_over(sh->commons, w);
}

static void sharing_stopping(struct supervisor *sv, const char *why)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh || sh->commons->stopping)
		return;
	sharing_board_set(
		sh, (uint64_t)supervisor_attempt(sv), (uint64_t)supervisor_attempt(sv) + 1);
	commons_stop(sh->commons, why);
}

static void sharing_answers_kept(struct supervisor *sv)
{
	if (sharing_of(sv) && sharing_of(sv)->group)
		sharing_group_kept(sharing_of(sv)->group);
}

void sharing_lead(struct supervisor *sv, struct sharing_group *g)
{
	if (sharing_of(sv))
		sharing_of(sv)->group = g;
}

void sharing_set_notice(struct supervisor *sv, uint64_t notice, int64_t save_at)
{
	if (sharing_of(sv))
		sharing_board_notice(sharing_of(sv), notice, save_at);
}

bool sharing_has_called(const struct supervisor *sv, const struct worker *w)
{
	const struct sharing *sh = sharing_of(sv);

	return sh && commons_has_slot(sh->commons, w) && w->token &&
	       sh->slots[w->slot].last_caller == w->token;
}

const struct board_slot *sharing_board_slot(const struct supervisor *sv, const struct worker *w)
{
	return sharing_of(sv) ? sharing_board_read(sharing_of(sv), w->slot) : NULL;
}

/* --- the feature --- */

static const struct varlink_method manager_methods[] = {
	{ "Results", sharing_method_results },
	{ NULL, NULL },
};

static void sharing_show(struct supervisor *sv, uint64_t notice, int64_t save_at, bool error)
{
	struct sharing *sh = sharing_of(sv);

	if (!sh)
		return;
	sharing_board_notice(sh, notice, save_at);
	sharing_board_error(sh, error);
}

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
	.answers_kept = sharing_answers_kept,
	.worker_environment = sharing_env,
	.worker_starting = sharing_worker_starting,
	.worker_not_started = sharing_worker_ended,
	.worker_started = sharing_worker_started,
	.worker_stopped = sharing_worker_stopping,
	.before_reap = sharing_worker_ending,
	.worker_exited = sharing_worker_ended,
	.worker_over = sharing_worker_over,
	.flush = sharing_flush,
	.hosts_board = sharing_show,
	.relays_call = sharing_relay_operator,
};
