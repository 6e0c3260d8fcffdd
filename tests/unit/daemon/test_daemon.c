/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elasticd in this process, with this program, started again, as the agent of its jobs. The
 * job's name says what such an agent does: "quick" succeeds, "stays" runs until it is killed,
 * "dies" goes without a verdict each time, "once" does so the first time only.
 */
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/text/json.h"
#include "common/varlink/client.h"
#include "common/varlink/socket.h"
#include "daemon/api/daemon.h"
#include "daemon/jobs/job_process.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Jobs that a test leaves behind must not leave groups behind. */
#define NO_CGROUPS "[elasticd]\nscopes = no\n"
#define MANAGER "io.elasticd.Manager."

enum { PATIENCE_MS = 600000 };

static char dir[64];
static char paths[4][96];
static struct loop *loop;
static struct daemon *d;
static struct varlink_client *client;
static struct loop_timer *patience;
static bool impatient;
static struct error err;

/* --- the agent's side, in a process of its own --- */

static const char *option(char **argv, const char *name)
{
	size_t n = strlen(name);

	for (char **a = argv; *a; a++)
		if (!strncmp(*a, name, n) && (*a)[n] == '=')
			return *a + n + 1;
	return NULL;
}

static void say(int fd, bool more, const char *state, const char *verdict, int seq)
{
	char text[2048];
	int n = snprintf(text, sizeof(text),
		"{\"parameters\":{\"job\":{\"state\":\"%s\",\"attempt\":0,\"restarts\":0,"
		"\"max_restarts\":0,\"command\":\"c\",\"workers\":[]%s%s},\"events\":[{\"seq\":%d,"
		"\"time_us\":1,\"event\":\"state\",\"text\":\"%s\"}]}%s}",
		state, verdict ? ",\"verdict\":" : "", verdict ? verdict : "", seq, state,
		more ? ",\"continues\":true" : "");

	if (write(fd, text, n + 1) < 0)
		_exit(9);
}

static void write_file(const char *state_dir, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", state_dir, name);
	if (file_write_atomic(path, text, strlen(text), 0600, false) < 0)
		_exit(8);
}

static int be_agent(char **argv)
{
	static const char good[] =
		"{\"result\":\"succeeded\",\"exit_status\":0,\"message\":\"good\"}";
	const char *run = option(argv, "--run");
	const char *state_dir = option(argv, "--state-dir");
	int listener = atoi(option(argv, "--listen-fd"));
	bool resumed = false;
	char request[4096];
	int fd;

	for (char **a = argv; *a; a++)
		resumed |= !strcmp(*a, "--resume");
	fcntl(listener, F_SETFL, 0);
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || read(fd, request, sizeof(request)) <= 0)
		return 7;
	say(fd, true, "running", NULL, resumed ? 11 : 1);
	if (!strncmp(run, "dies", 4) || (!strncmp(run, "once", 4) && !resumed)) {
		write_file(state_dir, "state.json",
			"{\"job\":{\"state\":\"running\",\"attempt\":0,\"restarts\":0,"
			"\"max_restarts\":0,\"command\":\"c\",\"workers\":[]},\"seq\":10}");
		return 6;
	}
	if (!strncmp(run, "stays", 5))
		for (;;)
			pause();
	write_file(state_dir, "verdict.json", good);
	/* "mute" has written its verdict and dies before it can tell. */
	if (strncmp(run, "mute", 4))
		say(fd, false, "succeeded", good, 12);
	return 0;
}

/* --- the test's side --- */

static void on_impatient(void *arg)
{
	impatient = true;
}

static void turn(void)
{
	loop_run_once(loop, true);
	ck_assert_msg(!impatient, "waited too long");
}

static void begin_daemon(void)
{
	struct daemon_options o = { .log_level = LOG_EMERG,
		.paths = { .runtime_dir = paths[0],
			.state_dir = paths[1],
			.log_dir = paths[2],
			.config_file = paths[3] } };

	ck_assert_msg(!daemon_new(loop, &o, &d, &err), "%s", err.text);
	while (!d->open) /* until the agents of earlier jobs have reported */
		turn();
}

static void connect_client(void)
{
	char socket[128];
	int fd;

	snprintf(socket, sizeof(socket), "%s/control.sock", paths[0]);
	ck_assert_int_eq(varlink_socket_connect(socket, SOCK_NONBLOCK, &fd, &err), 0);
	ck_assert_int_eq(varlink_client_new_fd(loop, fd, NULL, NULL, &client), 0);
}

/* As a crash does it, but for the process: nothing is tidied up on disk. */
static void end_daemon(void)
{
	client = varlink_client_free(client);
	d = daemon_free(d);
}

static void setup(void)
{
	static const char *const names[] = { "run", "state", "logs", "conf" };

	log_init("elasticd", LOG_EMERG);
	unsetenv("ELASTICD_SOCKET");
	unsetenv("NOTIFY_SOCKET");
	setenv("ELASTIC_AGENT", "/proc/self/exe", 1);
	signal(SIGPIPE, SIG_IGN);
	strcpy(dir, "/tmp/test-daemon-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	for (int i = 0; i < 4; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", dir, names[i]);
	ck_assert_int_eq(
		file_write_atomic(paths[3], NO_CGROUPS, strlen(NO_CGROUPS), 0644, false), 0);
	ck_assert_int_eq(loop_new(&loop), 0);
	impatient = false;
	ck_assert_int_eq(loop_timer_new(loop, on_impatient, NULL, &patience), 0);
	loop_timer_arm(patience, PATIENCE_MS);
	begin_daemon();
	connect_client();
}

static void teardown(void)
{
	if (d)
		for (struct job *j = registry_first(d->registry); j; j = registry_next(j))
			if (j->life != LIFE_ENDED && j->rec.agent_pid > 0)
				kill(j->rec.agent_pid, SIGKILL);
	end_daemon();
	patience = loop_timer_free(patience);
	loop = loop_free(loop);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static char *got_error;
static json_t *got;
static int answers;

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	free(got_error);
	json_decref(got);
	got_error = error ? strdup(error) : NULL;
	got = json_incref(parameters);
	answers++;
}

/* Sends a call and waits for its first answer. Returns its error's name or "". */
static const char *call(const char *method, json_t *parameters)
{
	char name[64];
	int before = answers;

	snprintf(name, sizeof(name), MANAGER "%s", method);
	ck_assert_int_eq(varlink_client_call(client, name, parameters, false, on_answer, NULL), 0);
	while (answers == before)
		turn();
	if (!got_error)
		return "";
	return strncmp(got_error, MANAGER, strlen(MANAGER)) ? got_error
							    : got_error + strlen(MANAGER);
}

static const char *start(const char *name)
{
	return call("Start", json_pack("{s:{s:s, s:[{s:[s]}]}}", "spec", "name", name, "roles",
				     "command", "/bin/true"));
}

static json_t *job_param(const char *name)
{
	return json_pack("{s:s}", "job", name);
}

static struct job *find(const char *name)
{
	struct job *j = registry_find(d->registry, name, NULL, NULL);

	ck_assert_ptr_nonnull(j);
	return j;
}

static void until(struct job *j, enum life life)
{
	while (j->life != life)
		turn();
}

static const char *job_string(const char *key)
{
	return json_get_string(json_get_object(got, "job"), key, "");
}

static const char *result(void)
{
	return json_get_string(
		json_get_object(json_get_object(got, "job"), "verdict"), "result", "none");
}

START_TEST(a_job_is_started_mirrored_and_remembered)
{
	struct stat st;
	char path[160];

	ck_assert_str_eq(start("quick"), "");
	ck_assert_str_eq(json_get_string(got, "job", ""), "quick");
	ck_assert_str_eq(call("Wait", job_param("quick")), "");
	ck_assert_str_eq(job_string("state"), "succeeded");
	ck_assert_str_eq(job_string("name"), "quick");
	until(find("quick"), LIFE_ENDED);
	snprintf(path, sizeof(path), "%s/jobs/quick", paths[0]);
	ck_assert_int_eq(stat(path, &st), -1);
	ck_assert_str_eq(call("Status", job_param("quick")), "");
	ck_assert_str_eq(result(), "succeeded");
}
END_TEST

START_TEST(a_verdict_that_only_the_disk_knows_counts)
{
	ck_assert_str_eq(start("mute"), "");
	ck_assert_str_eq(call("Wait", job_param("mute")), "");
	ck_assert_str_eq(result(), "succeeded");
	ck_assert_int_eq(find("mute")->rec.agent_losses, 0);
}
END_TEST

START_TEST(a_name_is_taken_while_its_job_is_active)
{
	ck_assert_str_eq(start("stays"), "");
	ck_assert_str_eq(start("stays"), "AlreadyExists");
	ck_assert_str_eq(json_get_string(got, "run", ""), find("stays")->rec.run);
}
END_TEST

START_TEST(a_name_is_free_again_as_soon_as_a_wait_returns)
{
	for (int i = 0; i < 5; i++) {
		ck_assert_str_eq(start("quick"), "");
		ck_assert_str_eq(call("Wait", job_param("quick")), "");
	}
	ck_assert_uint_eq(registry_count(d->registry), 5);
}
END_TEST

START_TEST(a_lost_agent_is_started_again_for_the_same_run)
{
	struct job *j;

	ck_assert_str_eq(start("once"), "");
	j = find("once");
	ck_assert_str_eq(call("Wait", job_param("once")), "");
	ck_assert_str_eq(result(), "succeeded");
	ck_assert_ptr_eq(find("once"), j);
	ck_assert_int_eq(j->rec.agent_losses, 1);
	/* It knows where its predecessor's events ended. */
	ck_assert_int_eq(j->seq, 12);
}
END_TEST

START_TEST(an_agent_that_always_dies_is_given_up)
{
	struct job *j;

	ck_assert_str_eq(start("dies"), "");
	ck_assert_str_eq(call("Wait", job_param("dies")), "");
	ck_assert_str_eq(result(), "agent_lost");
	ck_assert_str_eq(job_string("state"), "failed");
	j = find("dies");
	ck_assert_int_eq(j->rec.agent_losses, 3);
	until(j, LIFE_ENDED);
	/* The verdict is elasticd's own, and outlives it. */
	end_daemon();
	begin_daemon();
	connect_client();
	ck_assert_str_eq(call("Status", job_param("dies")), "");
	ck_assert_str_eq(result(), "agent_lost");
}
END_TEST

START_TEST(the_next_elasticd_adopts_running_jobs)
{
	pid_t pid;

	ck_assert_str_eq(start("stays"), "");
	until(find("stays"), LIFE_LINKED);
	pid = find("stays")->rec.agent_pid;
	end_daemon();
	ck_assert_int_eq(kill(pid, 0), 0);
	begin_daemon();
	connect_client();
	/* This agent takes one connection only: the second one waits to be answered. */
	ck_assert_int_eq(find("stays")->life, LIFE_STARTING);
	ck_assert_int_eq(find("stays")->rec.agent_pid, pid);
	ck_assert_str_eq(call("Status", job_param("stays")), "");
}
END_TEST

START_TEST(the_next_elasticd_resumes_jobs_whose_agent_died)
{
	pid_t pid;

	ck_assert_str_eq(start("stays"), "");
	until(find("stays"), LIFE_LINKED);
	pid = find("stays")->rec.agent_pid;
	end_daemon();
	kill(pid, SIGKILL);
	begin_daemon();
	connect_client();
	until(find("stays"), LIFE_LINKED);
	ck_assert_int_ne(find("stays")->rec.agent_pid, pid);
	ck_assert_int_eq(find("stays")->rec.agent_losses, 1);
}
END_TEST

START_TEST(a_run_that_was_accepted_and_never_started_is_started)
{
	_cleanup_json_ json_t *spec =
		json_pack("{s:s, s:[{s:[s]}]}", "name", "quick", "roles", "command", "/bin/true");
	struct job_record rec = { .name = (char *)"quick",
		.run = (char *)"quick_abcd1234",
		.user = (char *)"me",
		.uid = geteuid(),
		.created_us = 1,
		.log_dir = paths[2] };

	ck_assert_int_eq(job_record_create(&d->store, &rec, spec, &err), 0);
	end_daemon();
	begin_daemon();
	connect_client();
	ck_assert_str_eq(call("Wait", job_param("quick_abcd1234")), "");
	ck_assert_str_eq(result(), "succeeded");
}
END_TEST

START_TEST(a_corrupt_record_is_put_aside_and_other_jobs_go_on)
{
	char path[192];
	struct stat st;

	ck_assert_str_eq(start("quick"), "");
	ck_assert_str_eq(call("Wait", job_param("quick")), "");
	until(find("quick"), LIFE_ENDED);
	end_daemon();
	snprintf(path, sizeof(path), "%s/jobs/bad_abcd1234", paths[1]);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	strcat(path, "/record.json");
	ck_assert_int_eq(file_write_atomic(path, "{\"name\":", 8, 0600, false), 0);
	begin_daemon();
	connect_client();
	ck_assert_uint_eq(registry_count(d->registry), 1);
	ck_assert_str_eq(call("Status", job_param("quick")), "");
	snprintf(path, sizeof(path), "%s/jobs/bad_abcd1234.corrupt-1/record.json", paths[1]);
	ck_assert_int_eq(stat(path, &st), 0);
}
END_TEST

START_TEST(a_second_elasticd_is_refused_with_the_holders_pid)
{
	struct daemon_options o = { .log_level = LOG_EMERG,
		.paths = { .runtime_dir = paths[0],
			.state_dir = paths[1],
			.log_dir = paths[2],
			.config_file = paths[3] } };
	struct daemon *second = NULL;
	char pid[32];

	snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
	ck_assert_int_eq(daemon_new(loop, &o, &second, &err), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err.text, pid));
	ck_assert_str_eq(call("Ping", NULL), "");
}
END_TEST

START_TEST(unknown_names_are_answered_by_name)
{
	ck_assert_str_eq(call("Status", job_param("nobody")), "NotFound");
	ck_assert_str_eq(call("Stop", job_param("nobody")), "NotFound");
	ck_assert_str_eq(
		call("Start", json_pack("{s:{s:i}}", "spec", "nonsense", 1)), "InvalidArgument");
	ck_assert_str_eq(json_get_string(got, "field", ""), "nonsense");
	ck_assert_uint_eq(registry_count(d->registry), 0);
}
END_TEST

START_TEST(a_wait_ends_by_its_time_limit)
{
	ck_assert_str_eq(start("stays"), "");
	ck_assert_str_eq(call("Wait", json_pack("{s:s, s:i}", "job", "stays", "timeout_ms", 10)),
		"DeadlineExceeded");
	ck_assert_str_eq(
		call("Wait", json_pack("{s:s, s:s}", "job", "stays", "until", "running")), "");
	ck_assert_str_eq(job_string("state"), "running");
}
END_TEST

START_TEST(an_agent_that_cannot_be_executed_refuses_the_start_and_leaves_nothing)
{
	char **names = NULL;

	free(d->agent_program);
	d->agent_program = strdup("/etc/passwd");
	d->host.agent_program = d->agent_program;
	ck_assert_str_eq(start("quick"), "Internal");
	ck_assert_ptr_nonnull(
		strstr(json_get_string(got, "message", ""), "/etc/passwd: Permission denied"));
	ck_assert_uint_eq(registry_count(d->registry), 0);
	ck_assert_int_eq(job_record_list(&d->store, &names, &err), 0);
	ck_assert_ptr_null(names[0]);
	strings_free(names);
}
END_TEST

START_TEST(removal_forgets_ended_runs_and_refuses_active_ones)
{
	ck_assert_str_eq(start("quick"), "");
	ck_assert_str_eq(call("Wait", job_param("quick")), "");
	ck_assert_str_eq(start("quick"), "");
	ck_assert_str_eq(call("Wait", job_param("quick")), "");
	ck_assert_str_eq(call("Remove", job_param("quick")), "");
	ck_assert_int_eq(json_get_int(got, "removed", 0), 2);
	ck_assert_str_eq(call("Status", job_param("quick")), "NotFound");
	ck_assert_str_eq(start("stays"), "");
	ck_assert_str_eq(call("Remove", job_param("stays")), "FailedPrecondition");
}
END_TEST

START_TEST(only_so_many_ended_runs_are_kept)
{
	d->config.keep_runs = 2;
	for (int i = 0; i < 4; i++) {
		ck_assert_str_eq(start("quick"), "");
		ck_assert_str_eq(call("Wait", job_param("quick")), "");
	}
	until(find("quick"), LIFE_ENDED);
	while (registry_count(d->registry) > 2)
		turn();
}
END_TEST

START_TEST(a_reached_limit_is_an_error_that_names_it)
{
	d->config.jobs = 1;
	ck_assert_str_eq(start("stays"), "");
	ck_assert_str_eq(start("quick"), "ResourceExhausted");
	ck_assert_str_eq(
		json_get_string(got, "message", ""), "elasticd's limit of jobs is reached: 1");
	ck_assert_int_eq(json_get_int(got, "limit", 0), 1);
}
END_TEST

static void on_events(void *arg, const char *error, json_t *parameters, bool continues)
{
	json_array_extend(arg, json_get_array(parameters, "events"));
	answers++;
}

START_TEST(a_stream_of_all_events_begins_with_an_empty_answer)
{
	_cleanup_json_ json_t *events = json_array();
	struct varlink_client *control = client;

	connect_client();
	answers = 0;
	ck_assert_int_eq(varlink_client_call(client, MANAGER "Events",
				 json_pack("{s:b}", "follow", 1), true, on_events, events),
		0);
	while (!answers)
		turn();
	ck_assert_uint_eq(json_array_size(events), 0);
	ck_assert_int_eq(varlink_client_call(control, MANAGER "Start",
				 json_pack("{s:{s:s, s:[{s:[s]}]}}", "spec", "name", "stays",
					 "roles", "command", "/bin/true"),
				 false, on_answer, NULL),
		0);
	while (!json_array_size(events))
		turn();
	ck_assert_str_eq(json_get_string(json_array_get(events, 0), "job", ""), "stays");
	varlink_client_free(client);
	client = control;
}
END_TEST

START_TEST(a_configuration_that_is_wrong_changes_nothing)
{
	ck_assert_int_eq(file_write_atomic(paths[3], "[limits]\njobs = 7\n", 18, 0644, false), 0);
	daemon_reload(d);
	ck_assert_int_eq(d->config.jobs, 7);
	ck_assert_int_eq(file_write_atomic(paths[3], "[limits]\njobs = x\n", 18, 0644, false), 0);
	daemon_reload(d);
	ck_assert_int_eq(d->config.jobs, 7);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, a_job_is_started_mirrored_and_remembered);
	tcase_add_test(t, a_verdict_that_only_the_disk_knows_counts);
	tcase_add_test(t, a_name_is_taken_while_its_job_is_active);
	tcase_add_test(t, a_name_is_free_again_as_soon_as_a_wait_returns);
	tcase_add_test(t, a_lost_agent_is_started_again_for_the_same_run);
	tcase_add_test(t, an_agent_that_always_dies_is_given_up);
	tcase_add_test(t, the_next_elasticd_adopts_running_jobs);
	tcase_add_test(t, the_next_elasticd_resumes_jobs_whose_agent_died);
	tcase_add_test(t, a_run_that_was_accepted_and_never_started_is_started);
	tcase_add_test(t, a_corrupt_record_is_put_aside_and_other_jobs_go_on);
	tcase_add_test(t, a_second_elasticd_is_refused_with_the_holders_pid);
	tcase_add_test(t, unknown_names_are_answered_by_name);
	tcase_add_test(t, a_wait_ends_by_its_time_limit);
	tcase_add_test(t, an_agent_that_cannot_be_executed_refuses_the_start_and_leaves_nothing);
	tcase_add_test(t, removal_forgets_ended_runs_and_refuses_active_ones);
	tcase_add_test(t, only_so_many_ended_runs_are_kept);
	tcase_add_test(t, a_reached_limit_is_an_error_that_names_it);
	tcase_add_test(t, a_stream_of_all_events_begins_with_an_empty_answer);
	tcase_add_test(t, a_configuration_that_is_wrong_changes_nothing);
}

static bool has_pidfd(void)
{
	int fd = proc_pidfd(getpid());

	close_fd(fd);
	return fd >= 0;
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	if (argc > 1 && option(argv, "--run"))
		return be_agent(argv);
	if (!has_pidfd()) {
		puts("no pidfd_open() here, as under valgrind: elasticd does not run");
		return 77;
	}
	s = suite_create("daemon");
	t = tcase_create("daemon");
	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, setup, teardown);
	add_tests(t);
	suite_add_tcase(s, t);
	return suite_run(s);
}
