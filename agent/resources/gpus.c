/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/private.h"
#include "agent/supervise/side_program.h"
#include "agent/supervise/worker_environment.h"
#include "common/base/log.h"
#include "common/base/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Before the first attempt a program beside the agent reads how much memory of the GPUs is in use:
 * workers that run already would count. Before each other one, another run of it waits until no
 * more is. A driver may hang, and its program then cannot even be killed, so no attempt waits for
 * more than a time.
 */

enum {
	GPUS_FREE_MS = 10000, /* unless the specification says another time */
	GPUS_MOST_MS = 1000000,
	GPUS_READ_MS = 1000,  /* of the first attempt, which never waits for longer */
	GPUS_LOOK_MS = 10000, /* how long the library may take besides */
};

struct gpus {
	struct supervisor *sv;
	int64_t limit_ms;
	bool looked;
	char *list;		      /* the GPUs, joined by commas; "": all */
	char *before;		      /* what that program printed; NULL: it could not */
	struct side_program *program; /* until it has ended, however late; NULL: none runs */
	struct loop_timer *timer;     /* the attempt waits no longer */
	loop_fn fn;		      /* NULL: none waits */
	void *arg;
};

static void gpus_on_timer(void *arg);

int gpus_new(struct resources *x, struct error *err)
{
	int64_t limit = supervisor_spec(x->sv)->resources.gpu_free_timeout_ms;

	if (limit == SPEC_UNSET)
		limit = platform_has_gpu() ? GPUS_FREE_MS : 0;
	if (!limit)
		return 0;
	x->gpus = calloc(1, sizeof(*x->gpus));
	if (!x->gpus)
		return error_set(err, -ENOMEM, "out of memory");
	x->gpus->sv = x->sv;
	x->gpus->limit_ms = limit < GPUS_MOST_MS ? limit : GPUS_MOST_MS;
	if (loop_timer_new(supervisor_loop(x->sv), gpus_on_timer, x->gpus, &x->gpus->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

struct gpus *gpus_free(struct gpus *g)
{
	if (g) {
		side_program_free(g->program);
		loop_timer_free(g->timer);
		free(g->list);
		free(g->before);
		free(g);
	}
	return NULL;
}

static bool gpus_has(const char *list, const char *id, size_t len)
{
	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, id, n))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

static int gpus_add(char **list, const char *id, size_t len)
{
	char *longer;

	if (*list && gpus_has(*list, id, len))
		return 0;
	if (asprintf(&longer, "%s%s%.*s", *list ? *list : "", *list ? "," : "", (int)len, id) < 0)
		return -ENOMEM;
	free(*list);
	*list = longer;
	return 0;
}

/* Adds the devices of a list such as "0,1". A negative number and what follows are none (CUDA). */
static int gpus_add_list(char **list, const char *more)
{
	int r = 0;

	while (*more && *more != '-' && r == 0) {
		size_t len = strcspn(more, ",");

		r = gpus_add(list, more, len);
		more += len + (more[len] == ',');
	}
	return r;
}

/* Adds the GPUs of w. Returns 1 if it sees all. */
static int gpus_add_worker(const struct gpus *g, const struct worker *w, char **list)
{
	const struct spec *spec = supervisor_spec(g->sv);
	const struct spec_devices *devices = &spec->resources.devices;
	_cleanup_(env_fini) struct env env = { 0 };
	const char *visible;
	int r = 0;

	if (spec_wants_device(spec, w->role, w->index)) {
		bool cuda = !strcmp(devices->env, "CUDA_VISIBLE_DEVICES");

		for (int i = 0; cuda && devices->ids[i] && r == 0; i++)
			r = gpus_add(list, devices->ids[i], strlen(devices->ids[i]));
		return r;
	}
	r = environ_devices(g->sv, w, &env);
	if (r == -ERANGE) /* the worker's start fails, and names the missing device */
		return 0;
	if (r < 0)
		return r;
	visible = env_get(&env, "CUDA_VISIBLE_DEVICES");
	return visible ? gpus_add_list(list, visible) : 1;
}

/* The GPUs of all workers. They are not made yet when the first attempt waits. Returns 1 if one
 * sees all. */
static int gpus_add_all(const struct gpus *g, char **list)
{
	const struct spec *spec = supervisor_spec(g->sv);
	struct worker w = { 0 };
	int r = 0;

	for (size_t i = 0; i < spec->n_roles && r == 0; i++) {
		w.role = &spec->roles[i];
		for (w.index = 0; w.index < supervisor_replicas(g->sv, i) && r == 0; w.index++) {
			r = gpus_add_worker(g, &w, list);
			w.local_rank++;
		}
	}
	return r;
}

static int gpus_find(struct gpus *g, struct error *err)
{
	char *list = NULL;
	int r = gpus_add_all(g, &list);

	if (r == 0 && list) {
		g->list = list;
		return 0;
	}
	free(list);
	if (r == 0)
		return error_set(err, -ENODEV, "the job has none of NVIDIA's");
	if (r > 0)
		g->list = strdup("");
	return g->list ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Warns only where the specification asks for the wait. */
static void gpus_unwatched(const struct gpus *g, const char *why)
{
	bool asked = supervisor_spec(g->sv)->resources.gpu_free_timeout_ms != SPEC_UNSET;

	log_msg(asked ? LOG_WARNING : LOG_INFO, "the memory of GPUs is not watched: %s", why);
}

/* The program is over, or the time. */
static void gpus_over(struct gpus *g, const char *fault)
{
	loop_fn fn = g->fn;

	gpus_leave(g);
	if (*fault && g->looked) {
		log_warning("the next attempt begins though %s", fault);
		events_add(supervisor_events(g->sv), "gpus-not-free", supervisor_attempt(g->sv), -1,
			NULL, "the next attempt begins though %s", fault);
	} else if (*fault) {
		gpus_unwatched(g, fault);
	}
	g->looked = true;
	fn(g->arg);
}

static void gpus_on_end(void *arg, const struct side_program_end *end)
{
	struct gpus *g = arg;
	char fault[512];

	side_program_fault(end, fault, sizeof(fault));
	if (g->fn && !g->looked && !fault[0])
		g->before = strdup(end->out);
	else if (g->looked && end->code == CLD_EXITED && end->status == 1)
		snprintf(fault, sizeof(fault), "%s", end->out);
	g->program = side_program_free(g->program);
	if (g->fn)
		gpus_over(g, fault);
}

static void gpus_on_timer(void *arg)
{
	gpus_over(arg, "the driver does not answer");
}

static int gpus_start(struct gpus *g, struct error *err)
{
	static char self[] = "/proc/self/exe";
	_cleanup_free_ char *gpus = NULL, *free_in = NULL, *than = NULL;
	uint64_t most = g->looked ? GPUS_LOOK_MS + (uint64_t)g->limit_ms : GPUS_READ_MS;
	char *argv[5] = { self };
	struct side_program_request req = { .argv = argv, .envp = environ, .limit_ms = 2 * most };
	int r;

	if (asprintf(&gpus, "--gpu-memory=%s", g->list) < 0 ||
		asprintf(&free_in, "--free-within=%lld", (long long)g->limit_ms) < 0 ||
		asprintf(&than, "--free-as=%s", g->looked ? g->before : "") < 0)
		return error_set(err, -ENOMEM, "out of memory");
	argv[1] = gpus;
	argv[2] = g->looked ? free_in : NULL;
	argv[3] = g->looked ? than : NULL;
	r = side_program_new(g->sv, &req, gpus_on_end, g, &g->program, err);
	if (r == 0)
		loop_timer_arm(g->timer, most);
	return r;
}

bool gpus_wait(struct gpus *g, loop_fn fn, void *arg)
{
	struct error err = { 0 };

	if (!g || (g->looked && !g->before))
		return false;
	if (g->program)
		error_set(&err, -EBUSY, "the driver does not answer");
	if (g->program || (!g->list && gpus_find(g, &err) < 0) || gpus_start(g, &err) < 0) {
		gpus_unwatched(g, err.text);
		g->looked = true;
		return false;
	}
	g->fn = fn;
	g->arg = arg;
	return true;
}

void gpus_leave(struct gpus *g)
{
	if (!g)
		return;
	g->fn = NULL;
	if (g->program)
		side_program_kill(g->program);
	loop_timer_disarm(g->timer);
}

bool gpus_child_exited(struct gpus *g, const siginfo_t *si)
{
	return g && side_program_exited(g->program, si);
}

pid_t gpus_pid(const struct gpus *g)
{
	return g && g->program ? side_program_pid(g->program) : 0;
}
