/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/cooldown.h"
#include "agent/resources/private.h"
#include "agent/supervise/side_program.h"
#include "common/base/log.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Before each attempt the gate waits for GPU memory (gpu_wait.c), and then runs the program of
 * resources.health. While that fails, the gate delays the attempt and runs the program again, until
 * it succeeds or the supervisor wants no attempt any more.
 */

struct gate {
	struct supervisor *sv;
	struct gpu_wait *gpu_wait; /* may be NULL */
	bool waits;		   /* for gpu_wait */
	const struct spec_health *health;
	feature_ready_fn fn; /* NULL: no attempt waits */
	void *arg;
	struct side_program *program; /* NULL: none runs */
	struct loop_timer *timer;     /* the next run */
	struct error why;	      /* why the last run failed; code 0: it did not */
	struct cooldown cooldown;
};

static void gate_check(struct gate *g);

static void gate_on_timer(void *arg)
{
	gate_check(arg);
}

int gate_new(struct resources *x, struct error *err)
{
	const struct spec_health *health = &supervisor_spec(x->sv)->resources.health;

	if (!health->command && !x->gpu_wait)
		return 0;
	x->gate = calloc(1, sizeof(*x->gate));
	if (!x->gate)
		return error_set(err, -ENOMEM, "out of memory");
	x->gate->sv = x->sv;
	x->gate->gpu_wait = x->gpu_wait;
	x->gate->health = health;
	if (loop_timer_new(supervisor_loop(x->sv), gate_on_timer, x->gate, &x->gate->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

void gate_cancel(struct gate *g)
{
	if (!g)
		return;
	g->fn = NULL;
	g->why.code = 0;
	g->waits = false;
	gpu_wait_cancel(g->gpu_wait);
	g->program = side_program_free(g->program);
	loop_timer_disarm(g->timer);
}

struct gate *gate_free(struct gate *g)
{
	if (g) {
		gate_cancel(g);
		loop_timer_free(g->timer);
		free(g);
	}
	return NULL;
}

static void gate_open(struct gate *g)
{
	feature_ready_fn fn = g->fn;

	g->fn = NULL;
	if (g->why.code) {
		log_notice("resources.health: the program succeeds again");
		g->why.code = 0;
		supervisor_show_wait(g->sv, "", 0);
	}
	fn(g->arg, NULL);
}

static void gate_fail(struct gate *g, const char *fault)
{
	char text[DURATION_TEXT_MAX];
	bool over;
	uint64_t delay = cooldown_failed(&g->cooldown, g->health, loop_now_ms(), &over);
	int64_t next_us = (int64_t)(loop_real_us() + delay * 1000);

	duration_format((int64_t)delay, text);
	error_set(&g->why, -EHOSTDOWN, "resources.health: %.400s; %s %s", fault,
		over ? "after so many failures this host cools down for"
		     : "the program runs again in",
		text);
	supervisor_report(g->sv, LOG_WARNING, "unhealthy", -1,
		json_pack("{s:b, s:I}", "cooldown", over, "next_try_us", (json_int_t)next_us), "%s",
		g->why.text);
	supervisor_show_wait(g->sv, g->why.text, next_us);
	loop_timer_arm(g->timer, delay);
	g->fn(g->arg, &g->why);
}

static void gate_on_end(void *arg, const struct side_program_end *end)
{
	struct gate *g = arg;
	char fault[512];

	side_program_fault(end, fault, sizeof(fault));
	g->program = side_program_free(g->program);
	if (fault[0])
		gate_fail(g, fault);
	else
		gate_open(g);
}

static void gate_check(struct gate *g)
{
	_cleanup_(env_fini) struct env env = { 0 };
	struct side_program_request req = {
		.argv = g->health->command,
		.limit_ms = (uint64_t)g->health->timeout_ms,
	};
	struct error err = { 0 };
	int r = side_program_environment(g->sv, &env);

	req.envp = env.vars;
	r = r < 0 ? error_set(&err, r, "out of memory")
		  : side_program_new(g->sv, &req, gate_on_end, g, &g->program, &err);
	if (r < 0)
		gate_fail(g, err.text);
}

static void gate_when_free(void *arg)
{
	struct gate *g = arg;

	g->waits = false;
	if (g->health->command)
		gate_check(g);
	else
		gate_open(g);
}

bool gate_delays(struct gate *g, feature_ready_fn fn, void *arg)
{
	if (!g)
		return false;
	g->fn = fn;
	g->arg = arg;
	if (g->why.code)
		fn(arg, &g->why);
	if (g->why.code || g->program || g->waits)
		return true;
	g->waits = gpu_wait_begin(g->gpu_wait, gate_when_free, g);
	if (g->waits)
		return true;
	if (!g->health->command) {
		g->fn = NULL;
		return false;
	}
	gate_check(g);
	return true;
}

bool gate_child_exited(struct gate *g, const siginfo_t *si)
{
	return g && side_program_exited(g->program, si);
}

pid_t gate_pid(const struct gate *g)
{
	return g ? side_program_pid(g->program) : 0;
}
