/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/resources/private.h"
#include "agent/supervise/side_program.h"
#include "common/base/log.h"
#include "common/base/platform.h"
#include "common/text/duration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A program beside the agent reads how much memory of the GPUs is in use when the first attempt
 * begins. Before each other one, another run of it waits until no more is.
 */

enum {
	GPUS_FREE_MS = 10000, /* unless the specification says another time */
	GPUS_MOST_MS = 1000000,
	GPUS_LOOK_MS = 10000, /* how long the library may take besides */
};

struct gpus {
	struct supervisor *sv;
	int64_t limit_ms;
	bool looked;
	char *before;		      /* what that program printed; NULL: nothing yet */
	struct side_program *program; /* NULL: none runs */
	loop_fn fn;		      /* NULL: none waits */
	void *arg;
};

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
	return 0;
}

struct gpus *gpus_free(struct gpus *g)
{
	if (g) {
		side_program_free(g->program);
		free(g->before);
		free(g);
	}
	return NULL;
}

/* The GPUs of the job, joined by commas; "": all; NULL: none of NVIDIA's. Owned. */
static char *gpus_list(const struct gpus *g)
{
	const struct spec_devices *devices = &supervisor_spec(g->sv)->resources.devices;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char *list = NULL, *more;

	if (!devices->ids)
		return visible && !*visible ? NULL : strdup(visible ? visible : "");
	if (strcmp(devices->env, "CUDA_VISIBLE_DEVICES") != 0)
		return NULL;
	for (int i = 0; devices->ids[i]; i++) {
		if (asprintf(&more, "%s%s%s", list ? list : "", i ? "," : "", devices->ids[i]) < 0)
			more = NULL;
		free(list);
		list = more;
		if (!list)
			break;
	}
	return list;
}

static void gpus_on_end(void *arg, const struct side_program_end *end)
{
	struct gpus *g = arg;
	loop_fn fn = g->fn;
	char fault[512];

	side_program_fault(end, fault, sizeof(fault));
	if (!fn && !fault[0])
		g->before = strdup(end->out);
	else if (fn && !end->late && end->code == CLD_EXITED && end->status == 1)
		snprintf(fault, sizeof(fault), "%s", end->out);
	g->program = side_program_free(g->program);
	g->fn = NULL;
	if (fault[0] && fn) {
		log_warning("the next attempt begins though %s", fault);
		events_add(supervisor_events(g->sv), "gpus-not-free", supervisor_attempt(g->sv), -1,
			NULL, "the next attempt begins though %s", fault);
	} else if (fault[0]) {
		log_info("the memory of GPUs is not watched: %s", fault);
	}
	if (fn)
		fn(g->arg);
}

static int gpus_start(struct gpus *g, const char *before, struct error *err)
{
	static char self[] = "/proc/self/exe";
	_cleanup_free_ char *list = gpus_list(g), *gpus = NULL, *free_in = NULL, *than = NULL;
	char *argv[5] = { self };
	struct side_program_request req = { .argv = argv,
		.envp = environ,
		.limit_ms = GPUS_LOOK_MS + (before ? (uint64_t)g->limit_ms : 0) };

	if (!list)
		return error_set(err, -ENODEV, "the job has none of NVIDIA's");
	if (asprintf(&gpus, "--gpu-memory=%s", list) < 0 ||
		asprintf(&free_in, "--free-within=%lld", (long long)g->limit_ms) < 0 ||
		asprintf(&than, "--free-as=%s", before ? before : "") < 0)
		return error_set(err, -ENOMEM, "out of memory");
	argv[1] = gpus;
	argv[2] = before ? free_in : NULL;
	argv[3] = before ? than : NULL;
	return side_program_new(g->sv, &req, gpus_on_end, g, &g->program, err);
}

void gpus_look(struct gpus *g)
{
	struct error err = { 0 };

	if (!g || g->looked)
		return;
	g->looked = true;
	if (gpus_start(g, NULL, &err) < 0)
		log_info("the memory of GPUs is not watched: %s", err.text);
}

bool gpus_wait(struct gpus *g, loop_fn fn, void *arg)
{
	struct error err = { 0 };

	if (!g || !g->looked)
		return false;
	if (g->program) { /* too slow for so short an attempt */
		g->program = side_program_free(g->program);
		g->looked = false;
	}
	if (!g->before || gpus_start(g, g->before, &err) < 0)
		return false;
	g->fn = fn;
	g->arg = arg;
	return true;
}

void gpus_leave(struct gpus *g)
{
	if (!g || !g->fn)
		return;
	g->fn = NULL;
	g->program = side_program_free(g->program);
}

bool gpus_child_exited(struct gpus *g, const siginfo_t *si)
{
	return g && side_program_exited(g->program, si);
}

pid_t gpus_pid(const struct gpus *g)
{
	return g && g->program ? side_program_pid(g->program) : 0;
}
