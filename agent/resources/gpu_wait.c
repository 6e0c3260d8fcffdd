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
 * Before the first attempt, while no worker uses memory, a program beside the agent reads how much
 * memory of the GPUs is in use. Before each other attempt, another run of that program waits until
 * no more than that is in use. A driver may hang, and then even SIGKILL does not end the program:
 * so an attempt waits for a limited time.
 */

enum {
	GPUS_FREE_MS = 10000, /* unless the specification says another time */
	GPUS_MOST_MS = 1000000,
	GPUS_READ_MS = 1000,	 /* the first attempt waits no longer */
	GPUS_LIBRARY_MS = 10000, /* how long NVIDIA's library may take besides */
};

struct gpu_wait {
	struct supervisor *sv;
	int64_t limit_ms;
	bool did_read;		      /* the first run is over */
	char *list;		      /* the GPUs, joined by commas; "": all */
	char *before;		      /* printed by the first run; NULL: it could not read */
	struct side_program *program; /* until it has ended, however late; NULL: none runs */
	struct loop_timer *timer;     /* the attempt waits no longer */
	loop_fn fn;		      /* NULL: no attempt waits */
	void *arg;
};

static void gpu_wait_on_timer(void *arg);

int gpu_wait_new(struct resources *x, struct error *err)
{
	int64_t limit = supervisor_spec(x->sv)->resources.gpu_free_timeout_ms;

	if (limit == SPEC_UNSET)
		limit = platform_has_gpu() ? GPUS_FREE_MS : 0;
	if (!limit)
		return 0;
	x->gpu_wait = calloc(1, sizeof(*x->gpu_wait));
	if (!x->gpu_wait)
		return error_set(err, -ENOMEM, "out of memory");
	x->gpu_wait->sv = x->sv;
	x->gpu_wait->limit_ms = limit < GPUS_MOST_MS ? limit : GPUS_MOST_MS;
	if (loop_timer_new(supervisor_loop(x->sv), gpu_wait_on_timer, x->gpu_wait,
		    &x->gpu_wait->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

struct gpu_wait *gpu_wait_free(struct gpu_wait *g)
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

/* Adds the GPUs of w. Returns 1 if it sees all GPUs of the host. */
static int gpus_add_worker(const struct gpu_wait *g, const struct worker *w, char **list)
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
	r = environment_devices(g->sv, w, &env);
	if (r == -ERANGE) /* the worker's start fails, and names the missing device */
		return 0;
	if (r < 0)
		return r;
	visible = env_get(&env, "CUDA_VISIBLE_DEVICES");
	return visible ? gpus_add_list(list, visible) : 1;
}

/* Adds the GPUs of all workers, which do not exist yet when the first attempt waits. Returns 1 if a
 * worker sees all. */
static int gpus_add_all(const struct gpu_wait *g, char **list)
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

static int gpus_find(struct gpu_wait *g, struct error *err)
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

/* A warning only where the specification asks for the wait. */
static void gpu_wait_unwatched(const struct gpu_wait *g, const char *why)
{
	bool asked = supervisor_spec(g->sv)->resources.gpu_free_timeout_ms != SPEC_UNSET;

	log_msg(asked ? LOG_WARNING : LOG_INFO, "the memory of GPUs is not watched: %s", why);
}

/* The program has ended, or the time is over. */
static void gpu_wait_end(struct gpu_wait *g, const char *fault)
{
	loop_fn fn = g->fn;

	gpu_wait_cancel(g);
	if (*fault && g->did_read) {
		supervisor_report(g->sv, LOG_WARNING, "gpus-not-free", -1, NULL,
			"the next attempt begins though %s", fault);
	} else if (*fault) {
		gpu_wait_unwatched(g, fault);
	}
	g->did_read = true;
	fn(g->arg);
}

static void gpu_wait_on_program_end(void *arg, const struct side_program_end *end)
{
	struct gpu_wait *g = arg;
	char fault[512];

	side_program_fault(end, fault, sizeof(fault));
	if (g->fn && !g->did_read && !fault[0])
		g->before = strdup(end->out);
	else if (g->did_read && end->code == CLD_EXITED && end->status == 1)
		snprintf(fault, sizeof(fault), "%s", end->out);
	g->program = side_program_free(g->program);
	if (g->fn)
		gpu_wait_end(g, fault);
}

static void gpu_wait_on_timer(void *arg)
{
	gpu_wait_end(arg, "the driver does not answer");
}

static int gpu_wait_start(struct gpu_wait *g, struct error *err)
{
	static char self[] = "/proc/self/exe";
	_cleanup_free_ char *gpus = NULL, *free_in = NULL, *than = NULL;
	uint64_t most = g->did_read ? GPUS_LIBRARY_MS + (uint64_t)g->limit_ms : GPUS_READ_MS;
	char *argv[5] = { self };
	struct side_program_request req = { .argv = argv, .envp = environ, .limit_ms = 2 * most };
	int r;

	if (asprintf(&gpus, "--gpu-memory=%s", g->list) < 0 ||
		asprintf(&free_in, "--free-within=%lld", (long long)g->limit_ms) < 0 ||
		asprintf(&than, "--free-as=%s", g->did_read ? g->before : "") < 0)
		return error_set(err, -ENOMEM, "out of memory");
	argv[1] = gpus;
	argv[2] = g->did_read ? free_in : NULL;
	argv[3] = g->did_read ? than : NULL;
	r = side_program_new(g->sv, &req, gpu_wait_on_program_end, g, &g->program, err);
	if (r == 0)
		loop_timer_arm(g->timer, most);
	return r;
}

bool gpu_wait_begin(struct gpu_wait *g, loop_fn fn, void *arg)
{
	struct error err = { 0 };

	if (!g || (g->did_read && !g->before))
		return false;
	if (g->program)
		error_set(&err, -EBUSY, "the driver does not answer");
	if (g->program || (!g->list && gpus_find(g, &err) < 0) || gpu_wait_start(g, &err) < 0) {
		gpu_wait_unwatched(g, err.text);
		g->did_read = true;
		return false;
	}
	g->fn = fn;
	g->arg = arg;
	return true;
}

void gpu_wait_cancel(struct gpu_wait *g)
{
	if (!g)
		return;
	g->fn = NULL;
	if (g->program)
		side_program_kill(g->program);
	loop_timer_disarm(g->timer);
}

bool gpu_wait_child_exited(struct gpu_wait *g, const siginfo_t *si)
{
	return g && side_program_exited(g->program, si);
}

pid_t gpu_wait_pid(const struct gpu_wait *g)
{
	return g && g->program ? side_program_pid(g->program) : 0;
}
