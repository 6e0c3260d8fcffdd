/* SPDX-License-Identifier: Apache-2.0 */
/* The library where no agent supervises the process: a group of one. */
#include "tests/unit/alone_agent.h"

#include <sys/syscall.h>

static struct elasticd *h;

static void setup(void)
{
	alone_environment();
	ck_assert_int_eq(elasticd_open(&h), 0);
}

static void teardown(void)
{
	elasticd_close(h);
}

static void put(const char *key, const char *value, int flags)
{
	ck_assert_msg(elasticd_put(h, key, value, strlen(value), flags) == 0, "%s",
		elasticd_error_text());
}

static void holds(const char *key, const char *value)
{
	void *got = NULL;
	size_t len;

	ck_assert_int_eq(elasticd_get(h, key, 0, &got, &len), 0);
	ck_assert_str_eq(got, value);
	ck_assert_uint_eq(len, strlen(value));
	free(got);
}

START_TEST(a_process_by_hand_is_a_group_of_one)
{
	ck_assert_int_eq(elasticd_supervised(h), 0);
	ck_assert_str_eq(elasticd_job(h), "");
	ck_assert_str_eq(elasticd_run(h), "");
	ck_assert_str_eq(elasticd_role(h), "worker");
	ck_assert_int_eq(elasticd_index(h), 0);
	ck_assert_int_eq(elasticd_rank(h), 0);
	ck_assert_int_eq(elasticd_local_rank(h), 0);
	ck_assert_int_eq(elasticd_world_size(h), 1);
	ck_assert_int_eq(elasticd_attempt(h), 0);
	ck_assert_int_eq(elasticd_start(h), 0);
	elasticd_beat(h);
	elasticd_step(h, 1, NULL);
	ck_assert_int_eq(elasticd_notice(h), 0);
	ck_assert_int_eq(elasticd_stopping(h), 0);
}
END_TEST

START_TEST(a_key_is_written_once_unless_overwritten)
{
	put("/a//b/", "1", 0);
	ck_assert_int_eq(elasticd_put(h, "a/b", "2", 1, 0), ELASTICD_STATUS_ALREADY_EXISTS);
	holds("a/b", "1");
	put("a/b", "2", ELASTICD_PUT_OVERWRITE);
	holds("a/b", "2");
	put("empty", "", 0);
	holds("empty", "");
}
END_TEST

START_TEST(values_are_any_bytes)
{
	void *got;
	size_t len;

	ck_assert_int_eq(elasticd_put(h, "k", "a\0\xff", 3, 0), 0);
	ck_assert_int_eq(elasticd_get(h, "k", 0, &got, &len), 0);
	ck_assert_uint_eq(len, 3);
	ck_assert_int_eq(memcmp(got, "a\0\xff", 4), 0);
	free(got);
}
END_TEST

START_TEST(a_missing_key_is_not_found_or_its_time_is_over)
{
	void *got = NULL;
	size_t len;

	ck_assert_int_eq(elasticd_get(h, "k", 0, &got, &len), ELASTICD_STATUS_NOT_FOUND);
	ck_assert_int_eq(elasticd_get(h, "k", 1, &got, &len), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_ptr_null(got);
}
END_TEST

static void gets(struct worker *me)
{
	me->r = elasticd_get(me->h, "k", -1, &me->value, &me->n);
}

/* Whether the thread sleeps in poll(2), as in a wait of the library; -1 where the kernel does not
 * say. */
static int sleeps(pid_t tid)
{
	char path[64];
	long call = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &call) != 1)
		call = -1;
	fclose(f);
#ifdef SYS_poll
	if (call == SYS_poll)
		return 1;
#endif
	return call == SYS_ppoll;
}

static atomic_int waiter;

static void gets_slowly(struct worker *me)
{
	atomic_store(&waiter, (int)gettid());
	gets(me);
}

/* A thread in elasticd_get(h, "k", -1); false where the kernel does not say. */
static bool waiter_start(struct worker *w)
{
	int asleep;

	atomic_store(&waiter, 0);
	worker_start(w, gets_slowly, h);
	while (!atomic_load(&waiter))
		sched_yield();
	while ((asleep = sleeps(atomic_load(&waiter))) == 0)
		sched_yield();
	return asleep > 0;
}

START_TEST(a_get_waits_for_the_put_of_another_thread)
{
	struct worker w[3];

	for (int i = 0; i < 3; i++)
		waiter_start(&w[i]);
	put("other", "x", 0);
	put("k", "v", 0);
	/* That the key is deleted again does not matter to the gets that waited. */
	if (sleeps(getpid()) >= 0)
		ck_assert_int_eq(elasticd_delete(h, "k", NULL), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(worker_end(&w[i]), 0);
		ck_assert_str_eq(w[i].value, "v");
		free(w[i].value);
	}
}
END_TEST

START_TEST(closing_a_handle_ends_only_its_own_waits)
{
	struct elasticd *other;
	struct worker w;

	ck_assert_int_eq(elasticd_open(&other), 0);
	if (!waiter_start(&w)) {
		put("k", "v", 0);
		ck_assert_int_eq(worker_end(&w), 0);
		free(w.value);
		elasticd_close(other);
		return;
	}
	elasticd_close(other);
	elasticd_close(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_open(&h), 0);
}
END_TEST

START_TEST(a_cancelled_handle_refuses_calls_until_it_is_closed)
{
	struct elasticd *other = h;
	struct elasticd_watch *watch = NULL;
	struct elasticd_events *events = NULL;
	struct elasticd_entry *e = NULL;
	struct elasticd_event *event = NULL;
	struct elasticd_worker *m = NULL;
	struct elasticd_error *error = NULL;
	char **names = NULL;
	void *value = NULL;
	size_t n = 0;

	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_watch_open(other, "", -1, &watch), 0);
	ck_assert_int_eq(elasticd_events_open(other, &events), 0);
	elasticd_cancel(other);
	elasticd_cancel(other);
	ck_assert_int_eq(elasticd_put(other, "k", "v", 1, 0), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_get(other, "k", -1, &value, &n), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_list(other, "", &e, &n), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_delete(other, "k", NULL), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_watch_next(watch, -1, &e), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_events_next(events, -1, &event), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_barrier(other, "b", NULL, 0, -1), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_barrier_cancel(other, "b", NULL), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_alive(other, NULL, 0, -1, &names, &n), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_states(other, NULL, 0, &m, &n), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_result(other, "", 0), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_report_error(other, 10, ""), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_wait_error(other, -1, &error), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_leave(other, -1), ELASTICD_STATUS_CANCELLED);
	elasticd_watch_close(watch);
	elasticd_events_close(events);
	watch = NULL;
	events = NULL;
	ck_assert_int_eq(elasticd_watch_open(other, "", -1, &watch), ELASTICD_STATUS_CANCELLED);
	ck_assert_int_eq(elasticd_events_open(other, &events), ELASTICD_STATUS_CANCELLED);
	ck_assert(!watch && !events && !e && !event && !m && !error && !names && !value);
	elasticd_close(other);
	put("k", "v", 0);
}
END_TEST

START_TEST(handles_of_a_process_share_what_is_stored)
{
	struct elasticd *first = h;

	put("k", "v", 0);
	ck_assert_int_eq(elasticd_open(&h), 0);
	holds("k", "v");
	elasticd_close(first);
	holds("k", "v");
}
END_TEST

START_TEST(a_list_has_the_keys_below_sorted)
{
	struct elasticd_entry *e;
	size_t n;

	put("a", "0", 0);
	put("a/c", "2", 0);
	put("a/b/c", "1", 0);
	put("a-b", "3", 0);
	put("ab", "4", 0);
	ck_assert_int_eq(elasticd_list(h, "a", &e, &n), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(e[0].key, "a/b/c");
	ck_assert_str_eq(e[1].key, "a/c");
	ck_assert_str_eq(e[1].value, "2");
	ck_assert_int_lt(e[1].revision, e[0].revision);
	elasticd_entries_free(e, n);
	ck_assert_int_eq(elasticd_list(h, "", &e, &n), 0);
	ck_assert_uint_eq(n, 5);
	elasticd_entries_free(e, n);
	ck_assert_int_eq(elasticd_list(h, "none", &e, &n), 0);
	ck_assert_uint_eq(n, 0);
	elasticd_entries_free(e, n);
}
END_TEST

START_TEST(a_delete_takes_the_keys_below_along)
{
	int64_t n;

	put("a", "0", 0);
	put("a/b", "1", 0);
	put("ab", "2", 0);
	ck_assert_int_eq(elasticd_delete(h, "a", &n), 0);
	ck_assert_int_eq(n, 2);
	holds("ab", "2");
	ck_assert_int_eq(elasticd_delete(h, "a", &n), 0);
	ck_assert_int_eq(n, 0);
}
END_TEST

static void changed(struct elasticd_watch *w, const char *key, const char *value)
{
	struct elasticd_entry *e;

	ck_assert_int_eq(elasticd_watch_next(w, -1, &e), 0);
	ck_assert_str_eq(e->key, key);
	if (value)
		ck_assert_str_eq(e->value, value);
	else
		ck_assert_ptr_null(e->value);
	elasticd_entries_free(e, 1);
}

START_TEST(a_watch_returns_every_change_from_its_beginning_on)
{
	struct elasticd_watch *w, *all;
	struct elasticd_entry *e;

	put("a/1", "old", 0);
	ck_assert_int_eq(elasticd_watch_open(h, "a", -1, &w), 0);
	ck_assert_int_eq(elasticd_watch_open(h, "", 0, &all), 0);
	ck_assert_int_ge(elasticd_watch_fd(w), 0);
	ck_assert_int_eq(elasticd_watch_next(w, 0, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	put("b", "x", 0);
	put("a/1", "new", ELASTICD_PUT_OVERWRITE);
	ck_assert_int_eq(elasticd_delete(h, "a", NULL), 0);
	changed(w, "a/1", "new");
	changed(w, "a/1", NULL);
	ck_assert_int_eq(elasticd_watch_next(w, 1, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	changed(all, "a/1", "old");
	changed(all, "b", "x");
	changed(all, "a/1", "new");
	elasticd_watch_close(w);
	elasticd_watch_close(all);
}
END_TEST

START_TEST(the_group_is_this_worker)
{
	static const char *const self[] = { "worker:0", "worker:0" },
				 *const none[] = { "worker:1" }, *const role[] = { "chief" };
	struct elasticd_worker *m;
	char **names;
	size_t n;

	ck_assert_int_eq(elasticd_barrier(h, "b", NULL, 0, -1), 0);
	ck_assert_int_eq(elasticd_barrier(h, "b", self, 1, 0), 0);
	ck_assert_int_eq(elasticd_barrier(h, "b", self, 0, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_barrier(h, "b", none, 1, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_barrier(h, "b", self, 2, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(
		elasticd_error_text(), "members: expected 1 to the 1 workers of this job, got 2");
	ck_assert_int_eq(
		elasticd_alive(h, self, 2, -1, &names, &n), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(
		elasticd_barrier_cancel(h, "b", NULL), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_alive(h, NULL, 0, -1, &names, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(names[0], "worker:0");
	elasticd_names_free(names, n);
	ck_assert_int_eq(elasticd_states(h, NULL, 0, &m, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(m->worker, "worker:0");
	ck_assert_str_eq(m->state, "running");
	ck_assert(m->healthy && !m->left && !m->error);
	elasticd_workers_free(m, n);
	ck_assert_int_eq(elasticd_states(h, role, 1, &m, &n), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_result(h, "42", 2), 0);
	ck_assert_int_eq(elasticd_leave(h, -1), 0);
	ck_assert_int_eq(elasticd_states(h, NULL, 0, &m, &n), 0);
	ck_assert(m->left && !m->healthy);
	elasticd_workers_free(m, n);
}
END_TEST

START_TEST(a_worker_that_has_left_is_in_no_barrier)
{
	static const char *const self[] = { "worker:0" }, *const none[] = { "worker:1" };
	char **names;
	size_t n;

	ck_assert_int_eq(elasticd_leave(h, -1), 0);
	for (size_t i = 0; i < 2; i++) { /* left out, and named */
		ck_assert_int_eq(elasticd_barrier(h, "b", i ? self : NULL, i, -1),
			ELASTICD_STATUS_FAILED_PRECONDITION);
		ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "has taken its leave"));
		ck_assert_int_eq(elasticd_alive(h, i ? self : NULL, i, -1, &names, &n), 0);
		ck_assert_uint_eq(n, 0);
		elasticd_names_free(names, n);
	}
	ck_assert_int_eq(elasticd_barrier(h, "b", none, 1, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_leave(h, -1), 0);
}
END_TEST

START_TEST(its_own_error_is_the_error_of_the_group)
{
	struct elasticd_events *events;
	struct elasticd_event *event;
	struct elasticd_error *e;
	struct elasticd_worker *m;
	size_t n;

	ck_assert_int_eq(elasticd_events_open(h, &events), 0);
	ck_assert_int_ge(elasticd_events_fd(events), 0);
	ck_assert_int_eq(
		elasticd_events_next(events, 0, &event), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_wait_error(h, 1, &e), ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_report_error(h, ELASTICD_STATUS_ABORTED, "bad"), 0);
	ck_assert_int_eq(elasticd_report_error(h, ELASTICD_STATUS_INTERNAL, "worse"), 0);
	ck_assert_int_eq(elasticd_wait_error(h, -1, &e), 0);
	ck_assert_int_eq(e->code, ELASTICD_STATUS_ABORTED);
	ck_assert_str_eq(e->message, "bad");
	ck_assert_str_eq(e->worker, "worker:0");
	ck_assert_int_eq(e->reported, 1);
	elasticd_error_free(e);
	ck_assert_int_eq(elasticd_events_next(events, -1, &event), 0);
	ck_assert_str_eq(event->event, "error");
	ck_assert_int_eq(event->error->code, ELASTICD_STATUS_ABORTED);
	elasticd_event_free(event);
	elasticd_events_close(events);
	ck_assert_int_eq(elasticd_states(h, NULL, 0, &m, &n), 0);
	ck_assert_str_eq(m->error->message, "bad");
	ck_assert(!m->healthy);
	elasticd_workers_free(m, n);
}
END_TEST

static atomic_bool stop;
static atomic_int n_busy;

/* The allocators of sanitizers have locks of their own, which a child of fork() may find taken for
 * ever: with them the child makes a call that takes the library's lock and allocates no memory. */
static int makes_a_call(struct elasticd *of)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return elasticd_saved(of, 1, NULL) != ELASTICD_STATUS_FAILED_PRECONDITION;
#else
	return elasticd_put(of, "busy", "x", 1, ELASTICD_PUT_OVERWRITE);
#endif
}

static void is_busy_all_the_time(struct worker *me)
{
	me->r = makes_a_call(me->h);
	atomic_fetch_add(&n_busy, 1);
	while (!atomic_load(&stop) && !me->r)
		me->r = makes_a_call(me->h);
}

START_TEST(a_child_uses_the_same_agent_while_other_threads_call)
{
	struct worker w[2];

	put("k", "parent", 0);
	for (int i = 0; i < 2; i++)
		worker_start(&w[i], is_busy_all_the_time, h);
	while (atomic_load(&n_busy) < 2)
		sched_yield();
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			void *got;
			size_t len;
			int r = elasticd_put(h, "k", "child", 5, ELASTICD_PUT_OVERWRITE);

			if (!r)
				r = elasticd_get(h, "k", -1, &got, &len);
			elasticd_close(h);
			/* Memory of the other threads is unreachable here: no search for leaks at
			 * an exit. */
			raise(r ? SIGTERM : SIGKILL);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(worker_end(&w[i]), 0);
	holds("k", "child");
}
END_TEST

static void passes_a_token(struct worker *me)
{
	char key[32];
	void *got;
	size_t len;

	for (int i = 0; i < 50 && !me->r; i++) {
		snprintf(key, sizeof(key), "ping/%d", i);
		me->r = elasticd_get(me->h, key, -1, &got, &len);
		if (me->r)
			break;
		free(got);
		snprintf(key, sizeof(key), "pong/%d", i);
		me->r = elasticd_put(me->h, key, "", 0, 0);
	}
}

START_TEST(threads_exchange_keys)
{
	struct worker w;
	char key[32];
	void *got;
	size_t len;

	worker_start(&w, passes_a_token, h);
	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "ping/%d", i);
		put(key, "", 0);
		snprintf(key, sizeof(key), "pong/%d", i);
		ck_assert_int_eq(elasticd_get(h, key, -1, &got, &len), 0);
		free(got);
	}
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

START_TEST(a_pipeline_makes_its_calls_in_order)
{
	struct elasticd_op ops[] = {
		{ .kind = ELASTICD_OP_PUT, .key = "p/a", .value = "1", .len = 1 },
		{ .kind = ELASTICD_OP_GET, .key = "p/a" },
		{ .kind = ELASTICD_OP_PUT, .key = "p/a", .value = "2", .len = 1 },
		{ .kind = ELASTICD_OP_GET, .key = "p/never" },
		{ .kind = ELASTICD_OP_GET, .key = "" },
		{ .kind = ELASTICD_OP_DELETE, .key = "p" },
	};

	ck_assert_int_eq(elasticd_pipeline(h, ops, 6, 1), ELASTICD_STATUS_ALREADY_EXISTS);
	ck_assert_int_eq(ops[0].status, 0);
	ck_assert_str_eq(ops[1].ret_value, "1");
	ck_assert_int_eq(ops[2].status, ELASTICD_STATUS_ALREADY_EXISTS);
	ck_assert_str_eq(ops[2].text, elasticd_error_text());
	ck_assert_int_eq(ops[3].status, ELASTICD_STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(ops[4].status, ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(ops[5].ret_deleted, 1);
	elasticd_ops_clear(ops, 6);
	ck_assert_int_eq(elasticd_pipeline(h, ops, 3, 0), ELASTICD_STATUS_ALREADY_EXISTS);
	elasticd_ops_clear(ops, 6);
	ck_assert_int_eq(elasticd_pipeline(h, NULL, 0, 0), 0);
	ck_assert_int_eq(elasticd_pipeline(h, NULL, 1, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
}
END_TEST

static atomic_int ended_children;

static void on_child(int signo)
{
	atomic_fetch_add(&ended_children, 1);
}

START_TEST(the_agent_is_not_a_child_of_the_program)
{
	struct sigaction sa = { .sa_handler = on_child };

	ck_assert_int_eq(sigaction(SIGCHLD, &sa, NULL), 0);
	put("k", "v", 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	ck_assert_int_eq(atomic_load(&ended_children), 0);
}
END_TEST

START_TEST(without_an_agent_only_sharing_fails)
{
	setenv("ELASTIC_AGENT", "/nowhere/elastic-agent", 1);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(step_action(h, i), ELASTICD_ACTION_CONTINUE);
	elasticd_beat(h);
	ck_assert(!elasticd_notice(h));
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, 0), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(
		strstr(elasticd_error_text(), "/nowhere/elastic-agent: No such file"));
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "outside elasticd"));
	/* It may be installed meanwhile. */
	alone_environment();
	put("k", "v", 0);
}
END_TEST

START_TEST(a_program_that_is_not_an_agent_is_named)
{
	setenv("ELASTIC_AGENT", "/bin/false", 1);
	ck_assert_int_eq(elasticd_put(h, "k", "v", 1, 0), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(elasticd_error_text(), "/bin/false --alone has ended"));
}
END_TEST

START_TEST(a_grandchild_keeps_the_agent_when_its_parents_have_ended)
{
	int ready[2], status;
	pid_t pid;
	char byte;

	put("k", "v", 0);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (fork() != 0)
			_exit(0);
		while (getppid() == pid)
			sched_yield();
		_exit(elasticd_put(h, "grandchild", "was here", 8, 0));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 0); /* it has ended */
	close(ready[0]);
	holds("grandchild", "was here");
}
END_TEST

START_TEST(closing_all_descriptors_loses_the_agent)
{
	void *got;
	size_t len;

	put("k", "v", 0);
	closefrom(3);
	elasticd_close(h);
	ck_assert_int_eq(elasticd_open(&h), 0);
	ck_assert_int_eq(elasticd_get(h, "k", 0, &got, &len), ELASTICD_STATUS_UNAVAILABLE);
	ck_assert_str_eq(elasticd_error_text(), "the agent that this program started is gone");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("alone");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_process_by_hand_is_a_group_of_one);
	tcase_add_test(t, a_key_is_written_once_unless_overwritten);
	tcase_add_test(t, a_pipeline_makes_its_calls_in_order);
	tcase_add_test(t, values_are_any_bytes);
	tcase_add_test(t, a_missing_key_is_not_found_or_its_time_is_over);
	tcase_add_test(t, a_get_waits_for_the_put_of_another_thread);
	tcase_add_test(t, closing_a_handle_ends_only_its_own_waits);
	tcase_add_test(t, a_cancelled_handle_refuses_calls_until_it_is_closed);
	tcase_add_test(t, handles_of_a_process_share_what_is_stored);
	tcase_add_test(t, a_list_has_the_keys_below_sorted);
	tcase_add_test(t, a_delete_takes_the_keys_below_along);
	tcase_add_test(t, a_watch_returns_every_change_from_its_beginning_on);
	tcase_add_test(t, the_group_is_this_worker);
	tcase_add_test(t, a_worker_that_has_left_is_in_no_barrier);
	tcase_add_test(t, its_own_error_is_the_error_of_the_group);
	tcase_add_test(t, a_child_uses_the_same_agent_while_other_threads_call);
	tcase_add_test(t, threads_exchange_keys);
	tcase_add_test(t, the_agent_is_not_a_child_of_the_program);
	tcase_add_test(t, without_an_agent_only_sharing_fails);
	tcase_add_test(t, a_program_that_is_not_an_agent_is_named);
	tcase_add_test(t, a_grandchild_keeps_the_agent_when_its_parents_have_ended);
	tcase_add_test(t, closing_all_descriptors_loses_the_agent);
	return tests_run(t);
}
