/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attach/attach.h"

#include "common/base/log.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Attach of a worker that runs: stops it as an operator would, and reserves it for the caller until
 * all its processes are gone. Otherwise a job whose other workers have all ended would end in
 * between. If the caller leaves earlier, the worker stays stopped.
 */

struct attach_replace {
	struct supervisor *sv;
	struct varlink_call *call;
	char *role;
	int index;
	bool ignore_exit;
};

static struct attach_replace *replace_free(struct attach_replace *x)
{
	if (x)
		free(x->role);
	free(x);
	return NULL;
}

DEFINE_CLEANUP(struct attach_replace *, replace_free)

/* Ends the reservation. Finds the worker by name, since the list of workers may have changed. */
static void replace_release(struct attach_replace *x)
{
	struct worker *w = worker_named(x->sv, x->role, x->index);

	if (w)
		w->replaced = false;
}

static void replace_stopped(void *arg)
{
	_cleanup_(replace_freep) struct attach_replace *x = arg;
	struct supervisor *sv = x->sv;

	replace_release(x);
	varlink_call_on_gone(x->call, NULL, NULL);
	(void)attach_replaced(sv, x->call, x->role, x->index, x->ignore_exit);
	/* If the worker was not attached, it has ended now. */
	apply_decisions(sv);
	supervisor_changed(sv);
}

static void replace_gone(void *arg)
{
	_cleanup_(replace_freep) struct attach_replace *x = arg;
	struct supervisor *sv = x->sv;

	request_forget(sv, x);
	replace_release(x);
	if (supervisor_finalising(sv)) /* the agent ends */
		return;
	apply_decisions(sv);
	supervisor_changed(sv);
}

int attach_replace(
	struct supervisor *sv, struct varlink_call *call, struct worker *w, bool ignore_exit)
{
	_cleanup_(replace_freep) struct attach_replace *x = calloc(1, sizeof(*x));
	struct error err = { 0 };
	int r, n;

	if (!x)
		return -ENOMEM;
	*x = (struct attach_replace){
		.sv = sv, .call = call, .index = w->index, .ignore_exit = ignore_exit
	};
	x->role = strdup(w->role->name);
	if (!x->role)
		return -ENOMEM;
	log_notice("%s is stopped to be run in a terminal", worker_name(w));
	w->replaced = true;
	r = request_stop(sv, &w->place, 1, SPEC_UNSET, false, replace_stopped, x, &n, &err);
	if (r < 0) {
		replace_release(x);
		return varlink_error(call, "Internal", manager_internal(err.text, r));
	}
	varlink_call_on_gone(call, replace_gone, TAKE_PTR(x));
	return 0;
}
