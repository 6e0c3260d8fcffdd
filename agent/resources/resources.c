/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>

/* NULL before init and after fini. */
static struct resources *resources_of(const struct supervisor *sv)
{
	return feature_state(sv, &resources_feature);
}

static int resources_init(struct supervisor *sv, struct error *err)
{
	struct resources *x = calloc(1, sizeof(*x));

	if (!x)
		return error_set(err, -ENOMEM, "out of memory");
	x->sv = sv;
	x->kernel = kernel_log_open("/dev/kmsg");
	feature_set_state(sv, &resources_feature, x);
	return gpu_wait_new(x, err) < 0 ? -ENOMEM : gate_new(x, err);
}

static void resources_fini(struct supervisor *sv)
{
	struct resources *x = resources_of(sv);

	if (!x)
		return;
	feature_set_state(sv, &resources_feature, NULL);
	gate_free(x->gate);
	gpu_wait_free(x->gpu_wait);
	kernel_log_close(x->kernel);
	binding_free(x->binding);
	free(x);
}

static bool resources_delays(struct supervisor *sv, feature_ready_fn fn, void *arg)
{
	return gate_delays(resources_of(sv)->gate, fn, arg);
}

static void resources_group_changed(struct supervisor *sv)
{
	if (supervisor_group(sv)->state != GROUP_RENDEZVOUS)
		gate_cancel(resources_of(sv)->gate);
}

static bool resources_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	const struct resources *x = resources_of(sv);

	return x && (gate_child_exited(x->gate, si) || gpu_wait_child_exited(x->gpu_wait, si));
}

static size_t resources_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	const struct resources *x = resources_of(sv);
	pid_t mine[] = { x ? gate_pid(x->gate) : 0, x ? gpu_wait_pid(x->gpu_wait) : 0 };
	size_t n = 0;

	for (size_t i = 0; i < 2 && n < max; i++)
		if (mine[i] > 0)
			pids[n++] = mine[i];
	return n;
}

static void resources_begins(struct supervisor *sv)
{
	kernel_log_begin(resources_of(sv)->kernel);
}

static void resources_end_known(struct supervisor *sv, struct worker *w)
{
	struct resources *x = resources_of(sv);

	core_dump_find(x, w);
	kernel_note_end(x, w);
}

static int resources_prepared(struct supervisor *sv, struct error *err)
{
	return binding_prepare(resources_of(sv), err);
}

static int resources_environment(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	return binding_environment(resources_of(sv), w, e);
}

static void resources_spawning(struct supervisor *sv, struct worker *w, struct spawn_request *req)
{
	struct resources *x = resources_of(sv);

	req->cpus = binding_cpus(x, w);
	core_dump_limit(x, req);
}

static void resources_describe(
	const struct supervisor *sv, const struct worker *w, json_t *worker, bool live)
{
	const struct cpus *cpus = binding_cpus(resources_of(sv), w);
	_cleanup_free_ char *text = cpus ? cpus_to_string(cpus) : NULL;

	if (text)
		json_put_string(worker, "cpus", text);
}

const struct feature resources_feature = {
	.name = "resources",
	.init = resources_init,
	.fini = resources_fini,
	.delays_attempt = resources_delays,
	.group_changed = resources_group_changed,
	.child_exited = resources_child_exited,
	.helper_pids = resources_helpers,
	.attempt_prepared = resources_prepared,
	.attempt_begins = resources_begins,
	.worker_environment = resources_environment,
	.worker_spawning = resources_spawning,
	.worker_end_known = resources_end_known,
	.describe_worker = resources_describe,
};
