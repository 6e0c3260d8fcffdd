/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the agent has the memory of GPUs read, and of which GPUs. This test is also the program that
 * reads, as the agent is: it prints the value of SAYS, or never answers.
 */
#include "agent/resources/resources.h"
#include "tests/unit/child.h"
#include "tests/unit/run.h"
#include "tests/unit/supervisor_world.h"

#include <sys/stat.h>
#include <sys/wait.h>

static const struct feature *const features[] = { &resources_feature, NULL };

#define JOB(more)                                                 \
	"{'roles':[{'command':['/bin/sh']}],'restart':{'max':2}," \
	"'resources':{'gpu_free_timeout':'1h'" more "}}"

static char asked[96]; /* a FIFO: the arguments of the program */

static void setup(void)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("SAYS");
	world_make();
	snprintf(asked, sizeof(asked), "%s/asked", dir);
	ck_assert_int_eq(mkfifo(asked, 0600), 0);
	setenv("ASKS", asked, 1);
}

static int reading_program(char **argv)
{
	const char *says = getenv("SAYS");
	FILE *f = fopen(getenv("ASKS"), "we");

	for (int i = 1; argv[i]; i++)
		fprintf(f, "%s%s", i > 1 ? " " : "", argv[i]);
	fclose(f);
	if (!says)
		pause();
	puts(says);
	return 0;
}

/* The program that runs now, or 0. */
static pid_t program_pid(void)
{
	pid_t pid = 0;

	resources_feature.helper_pids(supervisor, &pid, 1);
	return pid;
}

static void assert_asked(const char *arguments)
{
	char line[512] = "";
	FILE *f = fopen(asked, "re");

	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	ck_assert_str_eq(line, arguments);
}

static void program_ends(void)
{
	siginfo_t si = { 0 };

	ck_assert_int_eq(waitid(P_PID, (id_t)program_pid(), &si, WEXITED), 0);
	ck_assert(resources_feature.child_exited(supervisor, &si));
	turns();
}

START_TEST(workers_start_when_memory_is_read)
{
	setenv("SAYS", "600,9000", 1);
	begins(JOB(), features);
	assert_asked("--gpu-memory=");
	expect("");
	program_ends();
	expect("spawn:0");
	exits(0, 1);
	expect("");
	assert_asked("--gpu-memory= --free-within=1000000 --free-as=600,9000");
	program_ends();
	expect("spawn:1");
}
END_TEST

/* The program stays a helper, for the driver may hold it for ever. */
START_TEST(a_driver_that_does_not_answer_delays_workers_by_a_second)
{
	pid_t pid;

	begins(JOB(), features);
	passes(999);
	pid = program_pid();
	ck_assert_int_gt(pid, 0);
	expect("");
	passes(1);
	expect("spawn:0");
	ck_assert_int_eq(program_pid(), pid);
	exits(0, 1);
	expect("spawn:1");
	ck_assert_int_eq(program_pid(), pid);
	program_ends();
	ck_assert_int_eq(program_pid(), 0);
	expect("");
}
END_TEST

START_TEST(a_driver_that_stops_answering_delays_workers_until_the_limit)
{
	pid_t pid;

	setenv("SAYS", "600", 1);
	begins(JOB(), features);
	assert_asked("--gpu-memory=");
	program_ends();
	unsetenv("SAYS");
	exits(0, 1);
	record[0] = '\0';
	passes(1009999);
	expect("");
	passes(1);
	expect("spawn:1");
	pid = program_pid();
	ck_assert_int_gt(pid, 0);
	exits(1, 1);
	expect("spawn:2");
	ck_assert_int_eq(program_pid(), pid);
}
END_TEST

START_TEST(a_job_that_is_stopped_meanwhile_starts_no_worker)
{
	begins(JOB(), features);
	supervisor_post(supervisor, GROUP_EV_STOP);
	turns();
	program_ends();
	passes(60000);
	ck_assert_int_eq(program_pid(), 0);
	expect("");
}
END_TEST

static const struct {
	const char *doc, *visible, *arguments; /* NULL: there are no GPUs */
} rows[] = {
	{ JOB(), NULL, "--gpu-memory=" },
	{ JOB(), "3,GPU-b", "--gpu-memory=" }, /* the workers do not inherit it */
	{ JOB("},'inherit_env':true,'compat':{'torch':true"), "3,GPU-b", "--gpu-memory=3,GPU-b" },
	{ JOB("},'inherit_env':true,'compat':{'torch':true"), "3,-1,4", "--gpu-memory=3" },
	{ JOB("},'inherit_env':true,'compat':{'torch':true"), "", NULL },
	{ JOB(",'devices':{'ids':[2,5]}"), "0", "--gpu-memory=2,5" },
	{ JOB(",'devices':{'ids':[2,5],'env':'HIP_VISIBLE_DEVICES'}"), NULL, NULL },
	{ "{'roles':[{'command':['a'],'replicas':3},{'name':'b','command':['b']}],"
	  "'compat':{'virtual_local_rank':true},'resources':{'gpu_free_timeout':'1s'}}",
		NULL, "--gpu-memory=0,1,2,3" },
	{ "{'roles':[{'name':'cpu','command':['a'],'env':{'CUDA_VISIBLE_DEVICES':''}},"
	  "{'command':['b'],'replicas':3,'env_per_replica':["
	  "{'CUDA_VISIBLE_DEVICES':'4,1'},{'CUDA_VISIBLE_DEVICES':'1,6'},"
	  "{'CUDA_VISIBLE_DEVICES':'16'}]}],'resources':{'gpu_free_timeout':'1s'}}",
		NULL, "--gpu-memory=4,1,6,16" },
	{ "{'roles':[{'command':['a'],'env':{'CUDA_VISIBLE_DEVICES':'4'}},"
	  "{'name':'b','command':['b']}],'resources':{'gpu_free_timeout':'1s'}}",
		NULL, "--gpu-memory=" },
};

START_TEST(gpus_are_those_that_workers_see)
{
	if (rows[_i].visible)
		setenv("CUDA_VISIBLE_DEVICES", rows[_i].visible, 1);
	begins(rows[_i].doc, features);
	if (!rows[_i].arguments) {
		ck_assert_int_eq(program_pid(), 0);
		expect("spawn:0");
		return;
	}
	assert_asked(rows[_i].arguments);
}
END_TEST

static int run(void)
{
	Suite *s = suite_create("gpu_wait");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, world_free);
	tcase_add_test(t, workers_start_when_memory_is_read);
	tcase_add_test(t, a_driver_that_does_not_answer_delays_workers_by_a_second);
	tcase_add_test(t, a_driver_that_stops_answering_delays_workers_until_the_limit);
	tcase_add_test(t, a_job_that_is_stopped_meanwhile_starts_no_worker);
	tcase_add_loop_test(
		t, gpus_are_those_that_workers_see, 0, (int)(sizeof(rows) / sizeof(rows[0])));
	suite_add_tcase(s, t);
	return suite_run(s);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strncmp(argv[1], "--gpu-memory=", 13))
		return reading_program(argv);
	if (!under_valgrind())
		return run();
	puts("valgrind keeps SIGRTMAX to itself, by which the agent hears of its guard");
	return 77;
}
