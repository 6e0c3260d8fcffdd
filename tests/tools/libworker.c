/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A scripted worker that uses the library: every argument is one step, NAME or NAME:ARGUMENT, done
 * in order; after the last one it exits 0. Each step that makes a call prints one line: its name
 * and what came, or its name, the status, the text, and after a bar who is missing. In arguments %r
 * is the rank, %i the index, %a the attempt, %n the worker's start, %% a percent sign.
 *
 * who; put:KEY=VALUE, over:KEY=VALUE, keep:KEY=VALUE (persistent), get:KEY, try:KEY, wait:MS:KEY,
 * list:KEY, delete:KEY, watch:KEY:N (from revision 0, N changes); barrier:NAME, meet:MS:NAME,
 * alive, states, result:TEXT, error:CODE:TEXT, wait-error, ready, leave; step:N (a line only where
 * there is something to do), log:TEXT, write-error:TEXT; train:FROM:TO[:MS[:SAVE_MS]] (steps of MS,
 * 1 where left out; saves and leaves when the library asks), hooks:FROM:TO (the same by hooks),
 * saved:N:PATH, notify:GRACE_MS:REASON, preempted, exit-code, await-notice, await-end:TASK;
 * in-child:STEP (of fork(), whose code becomes the exit code), threads:N:KEY (N threads meet
 * through keys), child:KEY=VALUE (a child of fork() puts it), touch:PATH, exit:N, kill, hang,
 * if-rank:N:STEP, if-attempt:N:STEP.
 */

#include "worker/elasticd.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct elasticd *h;

static void run_step(const char *step);

/* Prints what a step came to; text only where it succeeded. */
static void say(const char *step, int r, const char *text)
{
	if (r)
		printf("%s %s: %s|%s\n", step, elasticd_status_name(r), elasticd_error_text(),
			elasticd_error_missing());
	else
		printf("%s %s\n", step, text);
	fflush(stdout);
}

static char *expand(const char *text)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	for (; *text; text++) {
		if (*text != '%' || !text[1]) {
			fputc(*text, f);
			continue;
		}
		switch (*++text) {
		case 'r':
			fprintf(f, "%d", elasticd_rank(h));
			break;
		case 'i':
			fprintf(f, "%d", elasticd_index(h));
			break;
		case 'a':
			fprintf(f, "%d", elasticd_attempt(h));
			break;
		case 'n':
			fprintf(f, "%d", elasticd_start(h));
			break;
		default:
			fputc(*text, f);
		}
	}
	fclose(f);
	return out;
}

/* The text behind the first separator, which becomes the end of the text before it. */
static char *split(char *text, char separator)
{
	char *at = strchr(text, separator);

	if (!at)
		return text + strlen(text);
	*at = '\0';
	return at + 1;
}

static void do_who(const char *step, char *arg)
{
	printf("who %d %s %s:%d rank %d of %d attempt %d start %d\n", elasticd_supervised(h),
		elasticd_job(h), elasticd_role(h), elasticd_index(h), elasticd_rank(h),
		elasticd_world_size(h), elasticd_attempt(h), elasticd_start(h));
	fflush(stdout);
}

static void do_put(const char *step, char *arg)
{
	char *value = split(arg, '=');
	int flags = *step == 'o'   ? ELASTICD_PUT_OVERWRITE
		    : *step == 'k' ? ELASTICD_PUT_PERSISTENT
				   : 0;

	say(step, elasticd_put(h, arg, value, strlen(value), flags), arg);
}

static void do_get(const char *step, char *arg)
{
	char *key = *step == 'w' ? split(arg, ':') : arg;
	int ms = *step == 'w' ? atoi(arg) : *step == 't' ? 0 : -1;
	void *value = NULL;
	int r = elasticd_get(h, key, ms, &value, NULL);

	say(step, r, value);
	free(value);
}

static void do_list(const char *step, char *arg)
{
	struct elasticd_entry *e = NULL;
	size_t n = 0, len;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);
	int r = elasticd_list(h, arg, &e, &n);

	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%s=%s", i ? " " : "", e[i].key, (char *)e[i].value);
	fclose(f);
	say(step, r, text);
	free(text);
	elasticd_entries_free(e, n);
}

static void do_delete(const char *step, char *arg)
{
	char text[32];
	int64_t n = 0;
	int r = elasticd_delete(h, arg, &n);

	snprintf(text, sizeof(text), "%d", (int)n);
	say(step, r, text);
}

static void do_watch(const char *step, char *arg)
{
	char *count = split(arg, ':');
	struct elasticd_watch *w = NULL;
	struct elasticd_entry *e;
	int r = elasticd_watch_open(h, arg, 0, &w);

	for (int i = 0; i < atoi(count) && !r; i++) {
		char text[2048];

		r = elasticd_watch_next(w, -1, &e);
		if (r)
			break;
		snprintf(text, sizeof(text), "%s=%s", e->key,
			e->value ? (char *)e->value : "(gone)");
		say(step, 0, text);
		elasticd_entries_free(e, 1);
	}
	if (r)
		say(step, r, "");
	elasticd_watch_close(w);
}

static void do_barrier(const char *step, char *arg)
{
	char *name = *step == 'm' ? split(arg, ':') : arg;

	say(step, elasticd_barrier(h, name, NULL, 0, *step == 'm' ? atoi(arg) : -1), name);
}

static void do_alive(const char *step, char *arg)
{
	char **names = NULL, text[4096] = "";
	size_t n = 0, len = 0;
	int r = elasticd_alive(h, NULL, 0, -1, &names, &n);

	for (size_t i = 0; i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s%s", i ? " " : "", names[i]);
	say(step, r, text);
	elasticd_names_free(names, n);
}

static void do_states(const char *step, char *arg)
{
	struct elasticd_worker *m = NULL;
	char text[4096] = "";
	size_t n = 0, len = 0;
	int r = elasticd_states(h, NULL, 0, &m, &n);

	for (size_t i = 0; i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s%s%s%s",
			i ? ", " : "", m[i].worker, m[i].state, m[i].healthy ? "" : " unhealthy",
			m[i].left ? " left" : "", m[i].error ? " error" : "");
	say(step, r, text);
	elasticd_workers_free(m, n);
}

static void do_result(const char *step, char *arg)
{
	say(step, elasticd_result(h, arg, strlen(arg)), arg);
}

static void do_error(const char *step, char *arg)
{
	char *text = split(arg, ':');

	say(step, elasticd_report_error(h, atoi(arg), text), text);
}

static void do_wait_error(const char *step, char *arg)
{
	struct elasticd_error *e = NULL;
	char text[512] = "";
	int r = elasticd_wait_error(h, -1, &e);

	if (e)
		snprintf(text, sizeof(text), "%s %s %s", elasticd_status_name(e->code), e->worker,
			e->message);
	say(step, r, text);
	elasticd_error_free(e);
}

static void do_ready(const char *step, char *arg)
{
	say(step, elasticd_ready(h), "said");
}

static void do_leave(const char *step, char *arg)
{
	say(step, elasticd_leave(h, -1), "done");
}

/* --- preemption */

static const char *const actions[] = { "continue", "save", "save_exit", "exit" };

static void do_step(const char *step, char *arg)
{
	char text[64];
	enum elasticd_action action = ELASTICD_ACTION_CONTINUE;
	enum elasticd_status status = elasticd_step(h, atoll(arg), &action);

	snprintf(text, sizeof(text), "%s %s", arg, status ? "" : actions[action]);
	if (status || action != ELASTICD_ACTION_CONTINUE)
		say(step, status, text);
}

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void save(int64_t n, int ms)
{
	char text[32], path[64];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	snprintf(path, sizeof(path), "/ckpt/%d-%s", elasticd_rank(h), text);
	say("save", 0, text);
	pause_ms(ms);
	say("saved", elasticd_saved(h, n, path), text);
}

static void do_train(const char *step, char *arg)
{
	char *to = split(arg, ':'), *ms = split(to, ':'), *save_ms = split(ms, ':');
	char text[32];

	for (int64_t n = atoll(arg); n < atoll(to); n++) {
		enum elasticd_action r;
		enum elasticd_status status = elasticd_step(h, n, &r);

		if (status) {
			say(step, status, "");
			return;
		}
		if (r == ELASTICD_ACTION_SAVE || r == ELASTICD_ACTION_SAVE_AND_EXIT)
			save(n, atoi(save_ms));
		if (r == ELASTICD_ACTION_SAVE_AND_EXIT || r == ELASTICD_ACTION_EXIT) {
			snprintf(text, sizeof(text), "%s %d",
				r == ELASTICD_ACTION_EXIT ? "unsaved" : "saved",
				elasticd_exit_code(h));
			say("left", 0, text);
			exit(elasticd_exit_code(h));
		}
		pause_ms(*ms ? atoi(ms) : 1);
	}
}

static int save_hook(void *arg, int64_t n, char *path, size_t path_size)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	snprintf(path, path_size, "/ckpt/%d-%s", elasticd_rank(h), text);
	say("save", 0, text);
	return 0;
}

static void do_hooks(const char *step, char *arg)
{
	char *to = split(arg, ':');

	for (int64_t n = atoll(arg); n < atoll(to); n++) {
		enum elasticd_status status =
			elasticd_checkpoint(h, n, save_hook, NULL, NULL, NULL);

		if (status) {
			say(step, status, "");
			return;
		}
		pause_ms(1);
	}
}

static void do_saved(const char *step, char *arg)
{
	char *path = split(arg, ':');

	say(step, elasticd_saved(h, atoll(arg), *path ? path : NULL), arg);
}

static void do_notify(const char *step, char *arg)
{
	char *reason = split(arg, ':');

	say(step, elasticd_notify(h, reason, atoll(arg)), reason);
}

static void do_preempted(const char *step, char *arg)
{
	struct elasticd_preemption p = { .deadline_us = -1 };
	enum elasticd_status r = elasticd_preempted(h, &p);
	char text[700];

	snprintf(text, sizeof(text), "%d %s: %s final %d%s", !r, p.source, p.reason, p.final,
		p.deadline_us < 0 ? "" : " with a deadline");
	say(step, r == ELASTICD_STATUS_NOT_FOUND ? 0 : r, text);
}

static void do_exit_code(const char *step, char *arg)
{
	printf("%s %d\n", step, elasticd_exit_code(h));
	fflush(stdout);
}

static void do_await_notice(const char *step, char *arg)
{
	while (!elasticd_notice(h))
		pause_ms(1);
}

/* Until a task does not run. */
static void do_await_end(const char *step, char *arg)
{
	for (bool runs = true; runs; pause_ms(10)) {
		struct elasticd_worker *m;
		size_t n;
		int r = elasticd_states(h, NULL, 0, &m, &n);

		if (r) {
			say(step, r, "");
			return;
		}
		for (size_t i = 0; i < n; i++)
			if (strcmp(m[i].worker, arg) == 0)
				runs = strcmp(m[i].state, "running") == 0;
		elasticd_workers_free(m, n);
	}
}

static void do_in_child(const char *step, char *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		run_step(arg);
		exit(0);
	}
	waitpid(pid, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void do_log(const char *step, char *arg)
{
	say(step, elasticd_log(h, "info", arg, "{\"by\":\"libworker\"}"), arg);
}

static void do_write_error(const char *step, char *arg)
{
	say(step, elasticd_write_error(h, arg, "no traceback"), arg);
}

struct meeting {
	const char *key;
	int n, i, r;
};

/* Writes its own key and waits for those of all. */
static void *meet(void *arg)
{
	struct meeting *m = arg;
	char key[256];
	void *value;

	snprintf(key, sizeof(key), "%s/%d", m->key, m->i);
	m->r = elasticd_put(h, key, "", 0, 0);
	for (int i = 0; i < m->n && !m->r; i++) {
		snprintf(key, sizeof(key), "%s/%d", m->key, i);
		m->r = elasticd_get(h, key, -1, &value, NULL);
		if (!m->r)
			free(value);
	}
	return NULL;
}

static void do_threads(const char *step, char *arg)
{
	char *key = split(arg, ':');
	int n = atoi(arg), r = 0;
	struct meeting *m = calloc((size_t)n, sizeof(*m));
	pthread_t *t = calloc((size_t)n, sizeof(*t));

	for (int i = 0; i < n; i++) {
		m[i] = (struct meeting){ .key = key, .n = n, .i = i };
		if (pthread_create(&t[i], NULL, meet, &m[i]) != 0)
			exit(98);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
		r = r ? r : m[i].r;
	}
	say(step, r, key);
	free(m);
	free(t);
}

static void do_child(const char *step, char *arg)
{
	char *value = split(arg, '=');
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int r = elasticd_put(h, arg, value, strlen(value), 0);

		elasticd_close(h);
		_exit(r);
	}
	waitpid(pid, &status, 0);
	printf("%s %d\n", step, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	fflush(stdout);
}

static void do_touch(const char *step, char *arg)
{
	FILE *f = fopen(arg, "ae");

	if (!f)
		exit(98);
	fclose(f);
}

static void do_exit(const char *step, char *arg)
{
	exit(atoi(arg));
}

static void do_kill(const char *step, char *arg)
{
	raise(SIGKILL);
}

static void do_hang(const char *step, char *arg)
{
	for (;;)
		pause();
}

static void do_if(const char *step, char *arg)
{
	char *then = split(arg, ':');

	if (atoi(arg) == (step[3] == 'r' ? elasticd_rank(h) : elasticd_attempt(h)))
		run_step(then);
}

static const struct {
	const char *name;
	void (*fn)(const char *step, char *arg);
} steps[] = {
	{ "who", do_who },
	{ "put", do_put },
	{ "over", do_put },
	{ "keep", do_put },
	{ "get", do_get },
	{ "try", do_get },
	{ "wait", do_get },
	{ "list", do_list },
	{ "delete", do_delete },
	{ "watch", do_watch },
	{ "barrier", do_barrier },
	{ "meet", do_barrier },
	{ "alive", do_alive },
	{ "states", do_states },
	{ "result", do_result },
	{ "error", do_error },
	{ "wait-error", do_wait_error },
	{ "ready", do_ready },
	{ "leave", do_leave },
	{ "step", do_step },
	{ "train", do_train },
	{ "hooks", do_hooks },
	{ "saved", do_saved },
	{ "notify", do_notify },
	{ "preempted", do_preempted },
	{ "exit-code", do_exit_code },
	{ "await-notice", do_await_notice },
	{ "await-end", do_await_end },
	{ "in-child", do_in_child },
	{ "log", do_log },
	{ "write-error", do_write_error },
	{ "threads", do_threads },
	{ "child", do_child },
	{ "touch", do_touch },
	{ "exit", do_exit },
	{ "kill", do_kill },
	{ "hang", do_hang },
	{ "if-rank", do_if },
	{ "if-attempt", do_if },
};

static void run_step(const char *step)
{
	size_t len = strcspn(step, ":");

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strlen(steps[i].name) == len && strncmp(steps[i].name, step, len) == 0) {
			char *arg = expand(step[len] ? step + len + 1 : "");

			steps[i].fn(steps[i].name, arg);
			free(arg);
			return;
		}
	}
	fprintf(stderr, "libworker: no step \"%s\"\n", step);
	exit(97);
}

int main(int argc, char *argv[])
{
	int r = elasticd_open(&h);

	if (r) {
		say("open", r, "");
		return 96;
	}
	for (int i = 1; i < argc; i++)
		run_step(argv[i]);
	elasticd_close(h);
	return 0;
}
