/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/worker_methods.h"

#include "agent/api/caller.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct stop_call {
	struct supervisor *sv;
	struct varlink_call *call;
	int stopped;
};

/* Answers with the error for the refusal r of agent/supervise/worker_requests.c. worker: the
 * caller's text; err->field may name the part of it that is wrong. */
static int worker_method_refuse(struct supervisor *sv, struct varlink_call *call,
	const char *worker, int r, const struct error *err)
{
	switch (r) {
	case -ESHUTDOWN:
		return varlink_error(call, "FailedPrecondition",
			manager_not_active(supervisor_spec(sv)->name,
				supervisor_leader_over(sv)
					? "stopping"
					: group_state_name(supervisor_group(sv)->state)));
	case -ENOENT:
		return varlink_error(
			call, "NotFound", manager_no_worker(*err->field ? err->field : worker));
	case -EINVAL:
		return varlink_error(
			call, "InvalidArgument", manager_invalid("workers", worker, err->text));
	case -ENOSPC:
		return varlink_error(
			call, "ResourceExhausted", manager_limit("workers", SPEC_REPLICAS_MAX));
	case -ENOMEM:
		return -ENOMEM;
	default:
		return varlink_error(call, "Internal", manager_internal(err->text, r));
	}
}

int worker_method_start(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct request_start_args what = { .role = json_get_string(p, "role", ""),
		.index = (int)json_get_int(p, "index", -1),
		.command = json_get_array(p, "command"),
		.env = json_get_array(p, "env") };
	struct error err = { 0 };
	char name[160], caller[USER_NAME_MAX];
	struct worker *w;
	int r = request_start(sv, &what, &w, &err);

	snprintf(name, sizeof(name), what.index >= 0 ? "%.100s:%d" : "%.100s", what.role,
		what.index);
	if (r == -EEXIST) {
		w = worker_named(sv, what.role, what.index);
		return varlink_error(call, "FailedPrecondition",
			manager_worker_active(name, worker_state_name(w->state)));
	}
	if (r == -ENOENT)
		return varlink_error(call, "NotFound", manager_no_role(what.role));
	if (r == -EINVAL)
		return varlink_error(call, "Internal", manager_internal(err.text, r));
	if (r < 0)
		return worker_method_refuse(sv, call, name, r, &err);
	log_notice("%s is started on request of user %s", worker_name(w),
		caller_name(call, p, caller));
	return varlink_reply(
		call, json_pack("{s:s, s:i}", "worker", worker_name(w), "rank", w->rank));
}

static void stop_call_done(void *arg)
{
	struct stop_call *c = arg;

	varlink_reply(c->call, json_pack("{s:i}", "stopped", c->stopped));
	free(c);
}

static void stop_call_gone(void *arg)
{
	struct stop_call *c = arg;

	request_forget(c->sv, c);
	free(c);
}

int worker_method_stop(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *text = json_get_string(p, "workers", "");
	struct stop_call *c = calloc(1, sizeof(*c));
	_cleanup_free_ int *places = NULL;
	char caller[USER_NAME_MAX];
	struct error err = { 0 };
	size_t n;
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct stop_call){ .sv = sv, .call = call };
	supervisor_settle(sv);
	r = worker_select(sv, text, &places, &n, &err);
	if (!r)
		r = request_stop(sv, places, n, json_get_int(p, "timeout_ms", SPEC_UNSET),
			json_get_bool(p, "again", false), stop_call_done, c, &c->stopped, &err);
	if (r < 0) {
		free(c);
		return worker_method_refuse(sv, call, text, r, &err);
	}
	log_notice("%s: stopped on request of user %s", text, caller_name(call, p, caller));
	varlink_call_on_gone(call, stop_call_gone, c);
	return 0;
}
