/* SPDX-License-Identifier: Apache-2.0 */
/* attach: runs one worker in the caller's terminal, while the agent runs the others. */
#include "client/base/foreground.h"
#include "client/base/job.h"
#include "client/verbs/verbs.h"
#include "client/verbs/workers.h"
#include "common/base/clock.h"
#include "common/base/printable.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ATTACH_GRACE_MS = 10000, /* from the end of the attachment to SIGKILL */
	LAST_WORDS_MS = 5000,	 /* from the program's end to the agent's end of connection */
	EXIT_NO_EXEC = 126,
	EXIT_NOT_FOUND = 127,
};

struct attach {
	struct ctl *ctl;
	struct foreground program;
	struct varlink_sync *orders; /* NULL: the agent has nothing more to say */
	char *job, *role;
	int index;
	char worker[128];
	bool ignore_exit;
	int64_t kill_ms; /* CLOCK_MONOTONIC; when we kill the program; -1: never */
};

/* Prints "\r\n": the program may have left the terminal in raw mode. */
static void print_message(const struct attach *a, const char *text)
{
	_cleanup_free_ char *shown = text && *text ? printable_dup(text) : NULL;

	if (shown && !a->ctl->quiet)
		fprintf(stderr, "\r\nelasticctl: %s: %s\r\n", a->worker, shown);
}

static void obey_order(struct attach *a, const json_t *order)
{
	const char *what = get_text(order, "order"), *signal = get_text(order, "signal");
	int signo = signal ? signals_from_string(signal) : -1;

	/* The user sees that the program ended: no need to print it. */
	if (!a->program.ended || !what || strcmp(what, "end") != 0)
		print_message(a, get_text(order, "text"));
	if (what && !strcmp(what, "signal") && signo > 0)
		foreground_signal(&a->program, signo);
}

/* The agent is gone, so nothing supervises the program any more: asks it to end first. */
static void end_program(struct attach *a)
{
	a->orders = varlink_sync_free(a->orders);
	if (a->program.ended || a->kill_ms >= 0)
		return;
	foreground_signal(&a->program, SIGTERM);
	/* Interactive shells ignore SIGTERM but end by SIGHUP. */
	foreground_signal(&a->program, SIGHUP);
	a->kill_ms = (int64_t)monotonic_ms() + ATTACH_GRACE_MS;
}

static void take_order(struct attach *a)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	bool more = false;
	int r = varlink_sync_receive(a->orders, &answer, &name, &more, &err);

	if (r == -EINTR)
		return;
	if (r == 0)
		obey_order(a, json_object_get(answer, "order"));
	else if (r != -EREMOTEIO)
		print_message(a, "the connection to elasticd broke");
	else
		print_message(a, "its agent has left");
	if (r < 0 || !more)
		end_program(a);
}

static void wait_for_end(struct attach *a)
{
	while (!a->program.ended) {
		struct pollfd fds[2] = { { .fd = a->program.signal_fd, .events = POLLIN },
			{ .fd = a->orders ? varlink_sync_fd(a->orders) : -1, .events = POLLIN } };
		int64_t left = a->kill_ms < 0 ? -1 : a->kill_ms - (int64_t)monotonic_ms();

		if (a->kill_ms >= 0 && left <= 0) {
			foreground_kill(&a->program);
			return;
		}
		/* Input that was read ahead does not make the descriptor ready. */
		if (a->orders && varlink_sync_wait(a->orders, 0) == 1)
			left = 0;
		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			foreground_take(&a->program);
		if (!a->program.ended && a->orders && varlink_sync_wait(a->orders, 0) != 0)
			take_order(a);
	}
}

static json_t *worker_parameters(const struct attach *a)
{
	return ctl_with(ctl_job(a->job), "worker", json_string(a->worker));
}

/* Reports to the agent how the program ended, unless the agent has closed the connection. Returns
 * the exit status. */
static int report_end(struct attach *a, int code)
{
	json_t *p = worker_parameters(a);
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };

	if (code < 0 && WIFSIGNALED(a->program.status)) {
		code = 128 + WTERMSIG(a->program.status);
		p = ctl_with(p, "signal", json_integer(WTERMSIG(a->program.status)));
	} else {
		code = code < 0 ? WEXITSTATUS(a->program.status) : code;
		p = ctl_with(p, "code", json_integer(code));
	}
	if (!a->orders) {
		json_decref(p);
		return code;
	}
	/* If the report does not arrive, the agent counts the worker as lost. */
	a->ctl->deadline_ms = -1;
	(void)!ctl_try(a->ctl, "AttachEnded", p, NULL, &name, &err);
	/* The reason for a stop may arrive after the program's end. */
	while (a->orders && varlink_sync_wait(a->orders, LAST_WORDS_MS) == 1)
		take_order(a);
	return code;
}

/* Reports to the agent why the program could not be started. */
static void print_exec_error(const struct attach *a, const struct foreground_program *p, int error)
{
	const char *text = strerror(error);

	if (a->program.stage == FOREGROUND_CWD)
		ctl_error(
			a->ctl, 0, "the worker's directory %s cannot be entered: %s", p->cwd, text);
	else if (a->program.stage == FOREGROUND_LIMITS)
		ctl_error(a->ctl, 0, "the role's limits cannot be set: %s", text);
	else
		ctl_error(a->ctl, 0, "%s cannot be executed: %s", p->argv[0], text);
}

/* Reports the program to the agent, lets it go, and stays with it until its end. */
static int run_program(struct attach *a, const struct foreground_program *program)
{
	int r = ctl_call(a->ctl, "AttachStarted",
		ctl_with(worker_parameters(a), "pid", json_integer(a->program.pid)), NULL);
	int code = -1;

	if (r != 0)
		return r;
	r = foreground_go(&a->program);
	if (r < 0)
		code = r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NO_EXEC;
	else
		wait_for_end(a);
	foreground_end(&a->program);
	if (r < 0)
		print_exec_error(a, program, -r);
	return report_end(a, code);
}

/* Makes a NULL-ended array of texts from list and more, both borrowed; an entry of more replaces
 * the one of the same name in list. */
static char **merge_texts(const json_t *list, char *const *more, size_t n_more)
{
	char **v = calloc(json_array_size(list) + n_more + 1, sizeof(*v));
	json_t *text;
	size_t i, n = 0;

	json_array_foreach (list, i, text) {
		const char *t = json_string_value(text);
		bool hidden = !t;

		for (size_t k = 0; !hidden && k < n_more; k++)
			hidden = !strncmp(t, more[k], strcspn(more[k], "=") + 1);
		if (v && !hidden)
			v[n++] = (char *)t;
	}
	for (size_t k = 0; v && k < n_more; k++)
		v[n++] = more[k];
	return v;
}

/* The worker's environment, with the caller's own values for its terminal. */
static char **worker_environment(const json_t *order)
{
	static const char *const names[] = { "TERM", "COLORTERM", "COLUMNS", "LINES", "DISPLAY",
		"WAYLAND_DISPLAY", "XAUTHORITY" };
	char *own[sizeof(names) / sizeof(names[0])];
	size_t n = 0;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
		for (char **e = environ; *e; e++)
			if (!strncmp(*e, names[k], strlen(names[k])) &&
				(*e)[strlen(names[k])] == '=')
				own[n++] = *e;
	return merge_texts(json_object_get(order, "env"), own, n);
}

/* Tells the user, before anything runs, what the program's end will mean for the other workers. */
static void print_what_counts(const struct attach *a)
{
	if (a->ctl->quiet)
		return;
	if (a->ignore_exit)
		ctl_error(a->ctl, 0,
			"%s: when the program ends the worker is stopped, whatever its exit",
			a->worker);
	else
		ctl_error(a->ctl, 0,
			"%s: the exit of the program counts as the worker's; "
			"--detached-exit=ignore leaves it out",
			a->worker);
}

static int start_program(struct attach *a, const json_t *order, char **argv)
{
	_cleanup_free_ char **command = merge_texts(json_object_get(order, "command"), NULL, 0);
	_cleanup_free_ char **env = worker_environment(order);
	const json_t *limits = json_object_get(order, "limits");
	_cleanup_free_ struct spec_rlimit *rlimits = NULL;
	struct foreground_program program = { .envp = env,
		.cwd = get_text(order, "cwd"),
		.umask = (int)json_get_int(order, "umask", SPEC_UNSET) };
	struct error err = { 0 };
	int r;

	program.argv = *argv ? argv : command;
	if (!command || !env)
		return ctl_error(a->ctl, CTL_FAILED, "out of memory");
	if (!program.argv[0])
		return ctl_error(a->ctl, CTL_FAILED, "there is no program to run");
	if (limits && spec_limits_from_json(limits, &rlimits, &program.n_limits, &err) < 0)
		return ctl_error(a->ctl, CTL_FAILED, "%s", err.text);
	program.limits = rlimits;
	print_what_counts(a);
	if (foreground_start(&a->program, &program, &err) < 0)
		return ctl_error(a->ctl, CTL_FAILED, "%s", err.text);
	r = run_program(a, &program);
	if (a->program.signal_fd >= 0)
		foreground_end(&a->program);
	return r;
}

/* Gets the agent's first answer. With replace, the agent stops the worker first if it runs;
 * without, an error then hints at it. */
static int first_order(struct attach *a, bool replace, json_t **ret)
{
	_cleanup_free_ char *name = NULL;
	bool more = false;
	json_t *p = ctl_with(ctl_with(ctl_job(a->job), "role", json_string(a->role)), "index",
		json_integer(a->index));
	struct error err = { 0 };
	int r;

	if (replace)
		p = ctl_with(p, "replace", json_true());
	if (a->ignore_exit)
		p = ctl_with(p, "ignore_exit", json_true());
	r = ctl_stream(a->ctl, "Attach", p, &a->orders);
	if (r == 0)
		r = ctl_try_next(a->ctl, a->orders, ret, &more, &name, &err);
	if (name && !strcmp(name, "FailedPrecondition") && !replace &&
		get_text(a->ctl->refusal, "worker"))
		return ctl_error(a->ctl, r,
			"%s; 'elasticctl stop %s/%s' ends it, and so does --replace", err.text,
			a->job, a->worker);
	return name ? ctl_error(a->ctl, r, "%s", err.text) : r;
}

int cmd_attach(struct ctl *ctl, struct args *args)
{
	_cleanup_(address_fini) struct address address = { 0 };
	_cleanup_json_ json_t *answer = NULL;
	struct attach a = { .ctl = ctl, .kill_ms = -1 };
	struct error err = { 0 };
	const char *exit = args_get(args, "detached-exit");
	int r;

	if (address_parse(args->argv[0], &address, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (exit && strcmp(exit, "ignore") != 0 && strcmp(exit, "count") != 0)
		return ctl_usage(
			ctl, "--detached-exit: expected count or ignore, got \"%s\"", exit);
	a.ignore_exit = exit && !strcmp(exit, "ignore");
	r = workers_one(ctl, &address, &a.role, &a.index);
	if (r == 0) {
		a.job = address.job;
		snprintf(a.worker, sizeof(a.worker), "%.100s:%d", a.role, a.index);
		r = first_order(&a, args_has(args, "replace"), &answer);
	}
	if (r == 0)
		r = start_program(&a, json_object_get(answer, "order"), args->argv + 1);
	varlink_sync_free(a.orders);
	free(a.role);
	return r;
}
