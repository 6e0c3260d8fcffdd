/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/paths.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static struct paths p;
static struct error err;

static void setup(void)
{
	memset(&p, 0, sizeof(p));
	unsetenv("ELASTICD_SOCKET");
	unsetenv("ELASTIC_AGENT");
	/* Where others may write (as below) nothing is looked for, so it has to be there. */
	setenv("XDG_RUNTIME_DIR", "/usr", 1);
	setenv("XDG_STATE_HOME", "/s", 1);
	setenv("XDG_CONFIG_HOME", "/c", 1);
	setenv("HOME", "/home/u", 1);
}

static void teardown(void)
{
	paths_fini(&p);
}

START_TEST(the_systems_daemon_lives_below_run_and_var)
{
	ck_assert_int_eq(paths_init(&p, true, NULL, &err), 0);
	ck_assert_str_eq(p.runtime_dir, "/run/elasticd");
	ck_assert_str_eq(p.socket, "/run/elasticd/control.sock");
	ck_assert_str_eq(p.state_dir, "/var/lib/elasticd");
	ck_assert_str_eq(p.log_dir, "/var/log/elasticd");
}
END_TEST

START_TEST(a_users_daemon_follows_the_xdg_variables)
{
	ck_assert_int_eq(paths_init(&p, false, NULL, &err), 0);
	ck_assert_str_eq(p.runtime_dir, "/usr/elasticd");
	ck_assert_str_eq(p.state_dir, "/s/elasticd");
	ck_assert_str_eq(p.log_dir, "/s/elasticd/logs");
	ck_assert_str_eq(p.config_file, "/c/elasticd/elasticd.conf");
}
END_TEST

START_TEST(a_relative_xdg_variable_is_as_good_as_none)
{
	setenv("XDG_STATE_HOME", "s", 1);
	setenv("XDG_CONFIG_HOME", "", 1);
	ck_assert_int_eq(paths_init(&p, false, NULL, &err), 0);
	ck_assert_str_eq(p.state_dir, "/home/u/.local/state/elasticd");
	ck_assert_str_eq(p.config_file, "/home/u/.config/elasticd/elasticd.conf");
}
END_TEST

START_TEST(a_named_path_wins_and_becomes_absolute)
{
	const struct paths_overrides o = { .runtime_dir = "/x/run", .state_dir = "st" };
	char cwd[PATH_MAX];
	char expected[PATH_MAX + 8];

	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	snprintf(expected, sizeof(expected), "%s/st", cwd);
	ck_assert_int_eq(paths_init(&p, false, &o, &err), 0);
	ck_assert_str_eq(p.runtime_dir, "/x/run");
	ck_assert_str_eq(p.socket, "/x/run/control.sock");
	ck_assert_str_eq(p.state_dir, expected);
}
END_TEST

START_TEST(the_socket_is_the_options_then_the_environments)
{
	const struct paths_overrides o = { .socket = "/o.sock" };

	setenv("ELASTICD_SOCKET", "/e.sock", 1);
	ck_assert_int_eq(paths_init(&p, true, NULL, &err), 0);
	ck_assert_str_eq(p.socket, "/e.sock");
	paths_fini(&p);
	ck_assert_int_eq(paths_init(&p, true, &o, &err), 0);
	ck_assert_str_eq(p.socket, "/o.sock");
}
END_TEST

START_TEST(a_socket_name_that_no_address_holds_is_refused)
{
	char name[160];
	const struct paths_overrides o = { .socket = name };

	memset(name, 'a', sizeof(name) - 1);
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(paths_init(&p, true, &o, &err), -ENAMETOOLONG);
	ck_assert_ptr_nonnull(strstr(err.text, "at most 107 bytes, this one has 159"));
	ck_assert_ptr_null(p.socket);
}
END_TEST

START_TEST(a_client_connects_to_the_socket_that_the_user_names)
{
	bool found = true;
	char *s = paths_client_socket("/named", &found);

	ck_assert_str_eq(s, "/named");
	ck_assert(!found);
	free(s);
	setenv("ELASTICD_SOCKET", "/e.sock", 1);
	s = paths_client_socket(NULL, &found);
	ck_assert_str_eq(s, "/e.sock");
	free(s);
}
END_TEST

START_TEST(no_file_is_sought_where_others_may_write)
{
	char open_to_all[] = "/tmp/paths-XXXXXX", expected[PATH_MAX];
	bool found = false;
	char *s;

	/* A user without /run/user/... has no session here. */
	ck_assert_ptr_nonnull(mkdtemp(open_to_all));
	ck_assert_int_eq(chmod(open_to_all, 01777), 0);
	snprintf(expected, sizeof(expected), "/run/user/%u", (unsigned)geteuid());
	if (access(expected, F_OK) == 0)
		strcat(expected, "/elasticd");
	else
		strcpy(expected, "/s/elasticd/run");
	for (int i = 0; i < 3; i++) {
		if (i == 0)
			unsetenv("XDG_RUNTIME_DIR");
		else
			setenv("XDG_RUNTIME_DIR", i == 1 ? open_to_all : "/tmp", 1);
		ck_assert_int_eq(paths_init(&p, false, NULL, &err), 0);
		ck_assert_str_eq(p.runtime_dir, expected);
		paths_fini(&p);
	}
	s = paths_client_socket(NULL, &found);
	ck_assert(found);
	free(s);
	rmdir(open_to_all);
}
END_TEST

START_TEST(a_socket_is_as_safe_as_its_directory)
{
	ck_assert_int_eq(paths_check_socket("/usr/control.sock", &err), 0);
	ck_assert_int_eq(paths_check_socket("/control.sock", &err), 0);
	ck_assert_int_eq(paths_check_socket("/tmp/control.sock", &err), -EPERM);
	ck_assert_int_eq(paths_check_socket("/none/control.sock", &err), -ENOENT);
}
END_TEST

START_TEST(joining_puts_one_slash)
{
	static const char *const rows[][3] = { { "/a", "b", "/a/b" }, { "/a/", "b", "/a/b" },
		{ "/", "b", "/b" }, { "a", "b", "a/b" } };

	for (size_t i = 0; i < 4; i++) {
		char *s = paths_join(rows[i][0], rows[i][1]);

		ck_assert_str_eq(s, rows[i][2]);
		free(s);
	}
}
END_TEST

START_TEST(jobs_lie_below_jobs)
{
	char *a = paths_job_runtime("/run/elasticd", "j");

	ck_assert_str_eq(a, "/run/elasticd/jobs/j");
	free(a);
}
END_TEST

START_TEST(runs_have_eight_random_characters)
{
	char *a = run_id_new("job", NULL);
	char *b = run_id_new("job", NULL);

	ck_assert_uint_eq(strlen(a), strlen("job_") + 8);
	ck_assert_int_eq(strncmp(a, "job_", 4), 0);
	ck_assert_uint_eq(strspn(a + 4, "abcdefghijklmnopqrstuvwxyz0123456789"), 8);
	ck_assert_str_ne(a, b);
	free(a);
	free(b);
}
END_TEST

START_TEST(a_run_of_one_of_several_hosts_has_its_name)
{
	static const struct {
		const char *host, *begin;
	} rows[] = {
		{ "node7", "job.node7_" },
		{ "node7.example.com", "job.node7_" },
		{ "a b/\n", "job.a-b--_" },
		{ "", "job.host_" },
		{ ".x", "job.host_" },
		{ "0123456789012345678901234567890123456789012345678901234567890123456789",
			"job.012345678901234567890123456789012345678901234567890123456789012_" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *run = run_id_new("job", rows[i].host);

		ck_assert_uint_eq(strlen(run), strlen(rows[i].begin) + 8);
		ck_assert_int_eq(strncmp(run, rows[i].begin, strlen(rows[i].begin)), 0);
		free(run);
	}
}
END_TEST

START_TEST(the_agent_that_the_environment_names_must_be_there)
{
	char *s;

	setenv("ELASTIC_AGENT", "/nowhere/agent", 1);
	ck_assert_ptr_null(paths_agent_program(NULL, &err));
	ck_assert_str_eq(err.text, "ELASTIC_AGENT=/nowhere/agent: No such file or directory");
	setenv("ELASTIC_AGENT", "/bin/sh", 1);
	s = paths_agent_program(NULL, &err);
	ck_assert_str_eq(s, "/bin/sh");
	free(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("paths");
	TCase *t = tcase_create("paths");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_systems_daemon_lives_below_run_and_var);
	tcase_add_test(t, a_users_daemon_follows_the_xdg_variables);
	tcase_add_test(t, a_relative_xdg_variable_is_as_good_as_none);
	tcase_add_test(t, a_named_path_wins_and_becomes_absolute);
	tcase_add_test(t, the_socket_is_the_options_then_the_environments);
	tcase_add_test(t, a_socket_name_that_no_address_holds_is_refused);
	tcase_add_test(t, a_client_connects_to_the_socket_that_the_user_names);
	tcase_add_test(t, no_file_is_sought_where_others_may_write);
	tcase_add_test(t, a_socket_is_as_safe_as_its_directory);
	tcase_add_test(t, joining_puts_one_slash);
	tcase_add_test(t, jobs_lie_below_jobs);
	tcase_add_test(t, runs_have_eight_random_characters);
	tcase_add_test(t, a_run_of_one_of_several_hosts_has_its_name);
	tcase_add_test(t, the_agent_that_the_environment_names_must_be_there);
	suite_add_tcase(s, t);
	return suite_run(s);
}
