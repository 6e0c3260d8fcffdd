/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, notices of preemption and errors of the group, with an agent. */
#include "worker/base/handle.h"

#include "tests/unit/child.h"
#include "tests/unit/fake_agent.h"

#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static struct elasticd *h;
static int fd;
static struct worker w;

static void setup(void)
{
	agent_start();
	setenv("ELASTICD_PREEMPTION_EXIT_CODE", "77", 1);
	h = handle_open(&fd);
}

static void teardown(void)
{
	elasticd_close(h);
	close_fd(fd);
	agent_stop();
}

/* A notice is up; steps before save_at continue. */
static void notice_up(int64_t save_at)
{
	atomic_store(&board->save_at, save_at);
	atomic_store(&board->notice, 1);
}

static void agent_is_silent(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ck_assert_int_eq(poll(&p, 1, 0), 0);
	p.fd = agent_listener;
	ck_assert_int_eq(poll(&p, 1, 0), 0);
}

/* --- steps */

static int64_t next_step;

static void steps(struct worker *me)
{
	me->action = ELASTICD_ACTION_EXIT;
	me->r = elasticd_step(me->h, next_step, &me->action);
}

/* The status of elasticd_step(n) after this answer. */
static int step_answered(int64_t n, const char *answer)
{
	char heard[128];

	next_step = n;
	worker_start(&w, steps, h);
	snprintf(heard, sizeof(heard),
		"{'method':'io.elasticd.Worker.Step','parameters':{'step':%lld}}", (long long)n);
	ck_assert_str_eq(agent_hear(fd), heard);
	agent_say(fd, answer);
	return worker_end(&w);
}

static enum elasticd_action action_answered(int64_t n, const char *answer)
{
	ck_assert_int_eq(step_answered(n, answer), 0);
	return w.action;
}

#define ACTION(name) "{'parameters':{'action':'" name "','at':41,'exit_code':43}}"

START_TEST(without_a_notice_a_step_does_not_ask_the_agent)
{
	for (int64_t n = -1; n < 100; n++)
		ck_assert_int_eq(step_action(h, n), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(board_slot(board, 3)->step, 99);
	ck_assert_uint_eq(board_slot(board, 3)->steps, 101);
	ck_assert_uint_eq(board_slot(board, 3)->token, 77);
	atomic_store(&board->notice, 2); /* it was up, and was taken back */
	ck_assert_int_eq(step_action(h, 100), ELASTICD_ACTION_CONTINUE);
	agent_is_silent();
}
END_TEST

START_TEST(a_step_before_the_agreed_one_does_not_ask_the_agent)
{
	notice_up(41);
	for (int64_t n = 30; n < 41; n++)
		ck_assert_int_eq(step_action(h, n), ELASTICD_ACTION_CONTINUE);
	agent_is_silent();
	ck_assert_int_eq(action_answered(41, ACTION("save")), ELASTICD_ACTION_SAVE);
	ck_assert_int_eq(board_slot(board, 3)->step, 41);
	ck_assert_int_eq(action_answered(43, ACTION("continue")), ELASTICD_ACTION_CONTINUE);
	atomic_store(&board->save_at, INT64_MAX);
	ck_assert_int_eq(step_action(h, 44), ELASTICD_ACTION_CONTINUE);
	agent_is_silent();
}
END_TEST

START_TEST(every_step_asks_while_the_workers_agree)
{
	notice_up(INT64_MIN);
	ck_assert_int_eq(action_answered(INT64_MIN, ACTION("continue")), ELASTICD_ACTION_CONTINUE);
	ck_assert_int_eq(action_answered(1, ACTION("save_exit")), ELASTICD_ACTION_SAVE_AND_EXIT);
	ck_assert_int_eq(action_answered(1, ACTION("exit")), ELASTICD_ACTION_EXIT);
}
END_TEST

START_TEST(the_exit_code_is_the_agents_newest)
{
	ck_assert_int_eq(elasticd_exit_code(h), 77);
	notice_up(INT64_MIN);
	ck_assert_int_eq(action_answered(1, ACTION("save")), ELASTICD_ACTION_SAVE);
	ck_assert_int_eq(elasticd_exit_code(h), 43);
	ck_assert_int_eq(action_answered(2, "{'parameters':{'action':'save','exit_code':700}}"),
		ELASTICD_ACTION_SAVE);
	ck_assert_int_eq(elasticd_exit_code(h), 43);
}
END_TEST

START_TEST(an_exit_code_out_of_range_is_refused)
{
	struct worker other;
	int its;

	setenv("ELASTICD_PREEMPTION_EXIT_CODE", "256", 1);
	worker_start(&other, worker_opens, NULL);
	its = agent_greets();
	agent_hears(its, "Hello", "'token':'77'");
	agent_answers(its, HELLO);
	ck_assert_int_eq(worker_end(&other), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(other.text, "ELASTICD_PREEMPTION_EXIT_CODE"));
	close(its);
}
END_TEST

START_TEST(an_answer_that_makes_no_sense_is_an_error)
{
	notice_up(INT64_MIN);
	ck_assert_int_eq(step_answered(1, ACTION("dance")), ELASTICD_STATUS_INTERNAL);
	ck_assert_int_eq(step_answered(2, "{'parameters':{}}"), ELASTICD_STATUS_INTERNAL);
}
END_TEST

START_TEST(a_group_that_is_stopped_cancels_a_step)
{
	notice_up(INT64_MIN);
	ck_assert_int_eq(step_answered(1, "{'error':'io.elasticd.Worker.Cancelled',"
					  "'parameters':{'message':'the group is being stopped'}}"),
		ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(w.text, "the group is being stopped");
}
END_TEST

START_TEST(a_step_ends_with_its_handle)
{
	notice_up(INT64_MIN);
	next_step = 1;
	worker_start(&w, steps, h);
	agent_hears(fd, "Step", "'step':1");
	elasticd_cancel(h);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_CANCELLED);
	ck_assert_str_eq(agent_hear(fd), "");
}
END_TEST

START_TEST(a_step_ends_with_the_agent)
{
	notice_up(INT64_MIN);
	next_step = 1;
	worker_start(&w, steps, h);
	agent_hears(fd, "Step", "'step':1");
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
}
END_TEST

/* --- errors */

#define GROUP_FAILED(code, message)                                         \
	"{'error':'io.elasticd.Worker.GroupFailed','parameters':{'error':{" \
	"'code':'" code "','message':'" message "','worker':'worker:1',"    \
	"'reported':true,'time_us':1}}}"

START_TEST(after_an_error_of_the_group_every_step_fails)
{
	atomic_store(&board->error, 1);
	ck_assert_int_eq(step_answered(1, GROUP_FAILED("ResourceExhausted", "Running out")),
		ELASTICD_STATUS_RESOURCE_EXHAUSTED);
	ck_assert_str_eq(w.text, "Running out");
	ck_assert_str_eq(w.missing, "worker:1");
	/* A notice does not hide it. */
	notice_up(INT64_MAX);
	ck_assert_int_eq(
		step_answered(2, GROUP_FAILED("Aborted", "again")), ELASTICD_STATUS_ABORTED);
	ck_assert_int_eq(step_answered(3, GROUP_FAILED("Nonsense", "x")), ELASTICD_STATUS_UNKNOWN);
	atomic_store(&board->error, 0);
	ck_assert_int_eq(step_action(h, 4), ELASTICD_ACTION_CONTINUE);
	agent_is_silent();
}
END_TEST

static size_t text_length;

static void steps_and_measures(struct worker *me)
{
	steps(me);
	text_length = strlen(elasticd_error_text());
}

START_TEST(the_text_of_an_error_is_as_long_as_the_agent_keeps_it)
{
	static char answer[9000];
	size_t n = 0;

	atomic_store(&board->error, 1);
	worker_start(&w, steps_and_measures, h);
	agent_hears(fd, "Step", "'step':0");
	n += (size_t)sprintf(answer,
		"{'error':'io.elasticd.Worker.GroupFailed','parameters':{'error':{"
		"'code':'Internal','worker':'worker:1','message':'");
	memset(answer + n, 'x', 8192);
	strcpy(answer + n + 8192, "'}}}");
	agent_say(fd, answer);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_INTERNAL);
	ck_assert_uint_eq(text_length, 8192);
}
END_TEST

/* --- saved, preempted, notify */

static void saves(struct worker *me)
{
	me->r = elasticd_saved(me->h, 41, "/ckpt/41");
}

static void saves_somewhere(struct worker *me)
{
	me->r = elasticd_saved(me->h, 41, NULL);
}

START_TEST(saved_sends_step_and_path)
{
	char path[4098];

	worker_start(&w, saves, h);
	agent_hears(fd, "Saved", "'step':41,'path':'/ckpt/41'");
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	worker_start(&w, saves_somewhere, h);
	agent_hears(fd, "Saved", "'step':41");
	agent_refuses(fd, "OutOfRange", "'message':'nothing was to be saved there'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_OUT_OF_RANGE);
	memset(path, 'x', sizeof(path));
	path[4097] = '\0';
	ck_assert_int_eq(elasticd_saved(h, 41, path), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_saved(h, 41, "\xff"), ELASTICD_STATUS_INVALID_ARGUMENT);
	agent_is_silent();
}
END_TEST

static struct elasticd_preemption said;

static void asks(struct worker *me)
{
	me->r = elasticd_preempted(me->h, &said);
}

START_TEST(preempted_describes_the_notice)
{
	memset(&said, 'x', sizeof(said));
	ck_assert_int_eq(elasticd_preempted(h, &said), ELASTICD_STATUS_NOT_FOUND);
	ck_assert_str_eq(elasticd_error_text(), "no notice is up");
	ck_assert(!elasticd_notice(h));
	notice_up(INT64_MIN);
	ck_assert(elasticd_notice(h));
	agent_is_silent();
	ck_assert_int_eq(said.source[0], 'x');
	worker_start(&w, asks, h);
	agent_hears(fd, "Preemption", "");
	agent_answers(fd,
		"'notice':{'source':'gce','reason':'TERMINATE_ON_HOST_MAINTENANCE',"
		"'time_us':1000,'deadline_us':2000,'step':41,'final':true},'exit_code':143");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(said.source, "gce");
	ck_assert_str_eq(said.reason, "TERMINATE_ON_HOST_MAINTENANCE");
	ck_assert_int_eq(said.time_us, 1000);
	ck_assert_int_eq(said.deadline_us, 2000);
	ck_assert_int_eq(said.step, 41);
	ck_assert_int_eq(said.final, 1);
	ck_assert_int_eq(said.exit_code, 143);
	ck_assert_int_eq(elasticd_exit_code(h), 143);
}
END_TEST

START_TEST(unknown_parts_of_a_notice_are_minus_one)
{
	notice_up(INT64_MIN);
	worker_start(&w, asks, h);
	agent_hears(fd, "Preemption", "");
	agent_answers(fd, "'notice':{'source':'a name of more than thirty bytes','reason':'',"
			  "'time_us':1000,'final':false},'exit_code':42");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_str_eq(said.source, "a name of more than thirty byte");
	ck_assert_int_eq(said.deadline_us, -1);
	ck_assert_int_eq(said.step, -1);
	ck_assert_int_eq(said.final, 0);
	/* It was taken back meanwhile. */
	worker_start(&w, asks, h);
	agent_hears(fd, "Preemption", "");
	agent_refuses(fd, "NotFound", "'message':'no notice of preemption is up'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_NOT_FOUND);
	worker_start(&w, asks, h);
	agent_hears(fd, "Preemption", "");
	fd = close_fd(fd);
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_UNAVAILABLE);
}
END_TEST

static char reason[600];
static int64_t grace;

static void notifies(struct worker *me)
{
	me->r = elasticd_notify(me->h, reason, grace);
}

START_TEST(a_worker_gives_notice)
{
	strcpy(reason, "got SIGTERM");
	grace = -1;
	worker_start(&w, notifies, h);
	agent_hears(fd, "Notify", "'reason':'got SIGTERM'");
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	grace = 30000;
	worker_start(&w, notifies, h);
	agent_hears(fd, "Notify", "'reason':'got SIGTERM','grace_ms':30000");
	agent_refuses(fd, "FailedPrecondition", "'message':'the job is at its end'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_notify(h, NULL, 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(elasticd_notify(h, "\xff", 0), ELASTICD_STATUS_INVALID_ARGUMENT);
	agent_is_silent();
}
END_TEST

START_TEST(a_long_reason_is_cut_between_characters)
{
	const char *heard;

	for (size_t i = 0; i < 298; i++)
		memcpy(reason + 2 * i, "\xc3\xa9", 2);
	worker_start(&w, notifies, h);
	heard = agent_hear(fd);
	ck_assert_uint_eq(strspn(strstr(heard, "\xc3\xa9"), "\xc3\xa9"), 510);
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
}
END_TEST

/* --- hooks */

static char hooked[256];
static int save_result; /* 1: it stores no path; 2: it fails */

static int save_hook(void *arg, int64_t step, char *path, size_t path_size)
{
	snprintf(hooked + strlen(hooked), sizeof(hooked) - strlen(hooked), "save %s %lld%s;",
		(char *)arg, (long long)step, *path ? "?" : "");
	if (save_result != 1)
		snprintf(path, path_size, "/ckpt/%lld", (long long)step);
	return save_result == 2;
}

static void leave_hook(void *arg, int code)
{
	snprintf(hooked + strlen(hooked), sizeof(hooked) - strlen(hooked), "leave %s %d;",
		(char *)arg, code);
}

static void checkpoints(struct worker *me)
{
	static char arg[] = "arg";

	me->r = elasticd_checkpoint(me->h, next_step, save_hook, leave_hook, arg, &me->action);
}

static void checkpoint_begins(const char *answer)
{
	hooked[0] = '\0';
	worker_start(&w, checkpoints, h);
	agent_hears(fd, "Step", "'step':41");
	agent_say(fd, answer);
}

START_TEST(hooks_save_and_leave)
{
	enum elasticd_action action;

	next_step = 41;
	ck_assert_int_eq(elasticd_checkpoint(h, 1, save_hook, leave_hook, NULL, &action), 0);
	ck_assert_int_eq(action, ELASTICD_ACTION_CONTINUE);
	ck_assert_str_eq(hooked, "");
	notice_up(INT64_MIN);
	checkpoint_begins(ACTION("continue"));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(w.action, ELASTICD_ACTION_CONTINUE);
	ck_assert_str_eq(hooked, "");
	checkpoint_begins(ACTION("save"));
	agent_hears(fd, "Saved", "'step':41,'path':'/ckpt/41'");
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(w.action, ELASTICD_ACTION_SAVE);
	ck_assert_str_eq(hooked, "save arg 41;");
	checkpoint_begins(ACTION("save_exit"));
	agent_hears(fd, "Saved", "'step':41,'path':'/ckpt/41'");
	agent_answers(fd, "");
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(w.action, ELASTICD_ACTION_SAVE_AND_EXIT);
	ck_assert_str_eq(hooked, "save arg 41;leave arg 43;");
	checkpoint_begins(ACTION("exit"));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(w.action, ELASTICD_ACTION_EXIT);
	ck_assert_str_eq(hooked, "leave arg 43;");
	agent_is_silent();
}
END_TEST

START_TEST(a_hook_need_not_store_a_path)
{
	next_step = 41;
	save_result = 1;
	notice_up(INT64_MIN);
	checkpoint_begins(ACTION("save"));
	agent_hears(fd, "Saved", "'step':41");
	agent_refuses(fd, "FailedPrecondition", "'message':'no notice is up'");
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(elasticd_checkpoint(h, 1, NULL, leave_hook, NULL, NULL),
		ELASTICD_STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(a_failed_save_is_not_told_and_does_not_leave)
{
	next_step = 41;
	save_result = 2;
	notice_up(INT64_MIN);
	checkpoint_begins(ACTION("save_exit"));
	ck_assert_int_eq(worker_end(&w), ELASTICD_STATUS_ABORTED);
	ck_assert_str_eq(w.text, "the checkpoint of step 41 was not written: save returned 1");
	ck_assert_str_eq(hooked, "save arg 41;");
	agent_is_silent();
}
END_TEST

/* --- signals, children, threads */

#ifndef __SANITIZE_THREAD__ /* which holds signals back */
static atomic_int interrupts;

static void on_signal(int signo)
{
}

static void steps_again_and_again(struct worker *me)
{
	do {
		steps(me);
		atomic_fetch_add(&interrupts, me->r == ELASTICD_STATUS_INTERRUPTED);
	} while (me->r == ELASTICD_STATUS_INTERRUPTED);
}

START_TEST(an_interrupted_step_keeps_its_action)
{
	struct sigaction sa = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	elasticd_interruptible(h, 1);
	notice_up(INT64_MIN);
	next_step = 5;
	worker_start(&w, steps_again_and_again, h);
	agent_hears(fd, "Step", "'step':5");
	while (atomic_load(&interrupts) < 3) {
		pthread_kill(w.thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
	agent_say(fd, ACTION("save"));
	ck_assert_int_eq(worker_end(&w), 0);
	ck_assert_int_eq(w.action, ELASTICD_ACTION_SAVE);
	agent_is_silent(); /* the call was sent once */
}
END_TEST
#endif

START_TEST(a_child_is_the_same_worker)
{
	int its, status;
	pid_t pid;

	notice_up(INT64_MIN);
	pid = fork();
	if (pid == 0)
		_exit(step_action(h, 6) == ELASTICD_ACTION_SAVE ? atomic_load(h->fences) : 2);
	its = agent_greets();
	agent_hears(its, "Step", "'step':6");
	agent_say(its, ACTION("save"));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, atomic_load(h->fences) ? 1 << 8 : 0);
	ck_assert_int_eq(board_slot(board, 3)->step, 6);
	close(its);
}
END_TEST

/* In this process from here on; -1: every system call but the last one is deadly. */
static int deny(int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number < 0 ? SYS_exit_group : (unsigned)number,
			0, 1),
		BPF_STMT(BPF_RET | BPF_K,
			number < 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, number < 0 ? SECCOMP_RET_KILL : SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which make some */
START_TEST(a_step_makes_no_system_call)
{
	enum elasticd_action action;
	int r = 0, status;
	pid_t pid;

	if (under_valgrind())
		return; /* which makes some of its own */
	pid = fork();
	if (pid == 0) {
		if (deny(-1) < 0)
			_exit(0);
		for (int i = 0; i < 1000; i++) {
			r |= elasticd_step(h, i, &action) | (int)action;
			elasticd_beat(h);
			r |= elasticd_notice(h) | elasticd_stopping(h);
			r |= elasticd_preempted(h, &said) ^ ELASTICD_STATUS_NOT_FOUND;
		}
		notice_up(2000);
		for (int i = 1000; i < 2000; i++)
			r |= elasticd_step(h, i, &action) | (int)action;
		r |= !elasticd_notice(h);
		_exit(r);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST
#endif

/* Opens another handle: 0 where its steps work. */
static int opens_and_steps(bool expect_fences)
{
	struct elasticd *mine;
	int r = elasticd_open(&mine);

	if (r)
		return 1;
	if (atomic_load(mine->fences) != expect_fences)
		return 2;
	if (step_action(mine, 9) != ELASTICD_ACTION_CONTINUE)
		return 3;
	elasticd_close(mine);
	return 0;
}

START_TEST(where_the_kernel_refuses_its_barrier_a_step_makes_one)
{
	int its, status;
	pid_t pid = fork();

	if (pid == 0) {
		if (deny(SYS_membarrier) < 0)
			_exit(0);
		/* As at the first open: this process's parent was registered. */
		if (fork() == 0)
			_exit(opens_and_steps(true));
		wait(&status);
		_exit(status >> 8 | status);
	}
	its = agent_greets();
	agent_hears(its, "Hello", "'token':'77'");
	agent_answers(its, HELLO);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(board_slot(board, 3)->step, 9);
	close(its);
}
END_TEST

START_TEST(the_kernel_makes_the_barrier_where_it_can)
{
	long can = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	bool able = can > 0 && can & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;

	ck_assert_int_eq(atomic_load(h->fences), !able);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("preempt");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, without_a_notice_a_step_does_not_ask_the_agent);
	tcase_add_test(tc, a_step_before_the_agreed_one_does_not_ask_the_agent);
	tcase_add_test(tc, every_step_asks_while_the_workers_agree);
	tcase_add_test(tc, the_exit_code_is_the_agents_newest);
	tcase_add_test(tc, an_exit_code_out_of_range_is_refused);
	tcase_add_test(tc, an_answer_that_makes_no_sense_is_an_error);
	tcase_add_test(tc, a_group_that_is_stopped_cancels_a_step);
	tcase_add_test(tc, a_step_ends_with_its_handle);
	tcase_add_test(tc, a_step_ends_with_the_agent);
	tcase_add_test(tc, after_an_error_of_the_group_every_step_fails);
	tcase_add_test(tc, the_text_of_an_error_is_as_long_as_the_agent_keeps_it);
	tcase_add_test(tc, saved_sends_step_and_path);
	tcase_add_test(tc, preempted_describes_the_notice);
	tcase_add_test(tc, unknown_parts_of_a_notice_are_minus_one);
	tcase_add_test(tc, a_worker_gives_notice);
	tcase_add_test(tc, a_long_reason_is_cut_between_characters);
	tcase_add_test(tc, hooks_save_and_leave);
	tcase_add_test(tc, a_hook_need_not_store_a_path);
	tcase_add_test(tc, a_failed_save_is_not_told_and_does_not_leave);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, an_interrupted_step_keeps_its_action);
#endif
	tcase_add_test(tc, a_child_is_the_same_worker);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	tcase_add_test(tc, a_step_makes_no_system_call);
#endif
	tcase_add_test(tc, where_the_kernel_refuses_its_barrier_a_step_makes_one);
	tcase_add_test(tc, the_kernel_makes_the_barrier_where_it_can);
	return tests_run(tc);
}
