/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/slurm.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct {
	const char *list;
	int n;
	const char *first;
} lists[] = {
	{ "login", 1, "login" },
	{ "a,b,c", 3, "a" },
	{ "node[7]", 1, "node7" },
	{ "node[1-4]", 4, "node1" },
	{ "node[001-010,20]", 11, "node001" },
	{ "node[9-11]", 3, "node9" },
	{ "gpu[3,1-2],login", 4, "gpu3" },
	{ "login,gpu[3,1-2]", 4, "login" },
	{ "rack[0-1]n[1-8]", 16, "rack0n1" },
	{ "rack[0-1]n[01-08]-ib,x", 17, "rack0n01-ib" },
	{ "n[1-2].cluster.example", 2, "n1.cluster.example" },
	{ "[1-3]", 3, "1" },
	{ "n[1-16384]", 16384, "n1" },
	{ "n[1-16383],m", 16384, "n1" },
	{ "a[1-128]b[1-128]", 16384, "a1b1" },
	{ "n[999999999999999999]", 1, "n999999999999999999" },
};

START_TEST(a_list_of_hosts_has_a_size_and_a_first_one)
{
	char first[256] = "";
	int n = 0;

	ck_assert_int_eq(slurm_hosts(lists[_i].list, &n, first), 0);
	ck_assert_int_eq(n, lists[_i].n);
	ck_assert_str_eq(first, lists[_i].first);
}
END_TEST

static const char *const rubbish[] = { "", ",", "a,", ",a", "a,,b", "n[", "n[]", "n[1", "n[1-",
	"n[1-]", "n[-1]", "n[3-1]", "n[1,]", "n[,1]", "n[1-2-3]", "n[a]", "n[1]]", "n]", "n[[1]]",
	"n[1 ]", "n 1", "n\n", "n/1", "n:1", "n\x80", "-n", ".n", "n[1-16385]", "n[1-16384],m",
	"a[1-129]b[1-128]", "a[1-16384]b[1-16384]c[1-16384]d[1-16384]e[1-16384]",
	"n[18446744073709551616]", "n[0-18446744073709551615]", "n[0-999999999999999999]",
	"n[0000000000000000001]", "a,n[" };

START_TEST(rubbish_is_no_list_of_hosts)
{
	char first[256] = "untouched";
	int n = -7;

	ck_assert_int_eq(slurm_hosts(rubbish[_i], &n, first), -EINVAL);
	ck_assert_int_eq(n, -7);
	ck_assert_str_eq(first, "untouched");
}
END_TEST

START_TEST(names_of_hosts_fit_or_are_refused)
{
	char list[600], first[256];
	int n;

	for (size_t len = 250; len < 262; len++) {
		memset(list, 'a', len);
		list[len] = '\0';
		ck_assert_int_eq(slurm_hosts(list, &n, first), len < 256 ? 0 : -EINVAL);
		strcpy(list + len, "[7]");
		ck_assert_int_eq(slurm_hosts(list, &n, first), len + 1 < 256 ? 0 : -EINVAL);
	}
}
END_TEST

START_TEST(random_text_is_read_or_refused)
{
	static const char *const letters[] = { "an019,,--[[]]].(", "0129,,((xx))" };
	uint32_t seed = 14;

	for (int i = 0; i < 200000; i++) {
		char text[24], first[256];
		size_t len = next_random(&seed) % sizeof(text);
		int n = 0, most = 0;

		for (size_t k = 0; k < len; k++)
			text[k] = letters[i % 2][next_random(&seed) % strlen(letters[i % 2])];
		text[len] = '\0';
		if (slurm_hosts(text, &n, first) == 0)
			ck_assert(n >= 1 && n <= 16384 && *first && !strpbrk(first, "[],("));
		if (slurm_tasks(text, &most) == 0)
			ck_assert_int_ge(most, 1);
	}
}
END_TEST

START_TEST(the_most_tasks_on_a_host_count)
{
	static const struct {
		const char *text;
		int most;
	} good[] = { { "1", 1 }, { "1(x4)", 1 }, { "2(x3),1", 2 }, { "1,8,2(x2)", 8 },
		{ "2147483647", 2147483647 } };
	static const char *const bad[] = { "", "0", "x", "1,", ",1", "1(4)", "1(x", "1(x)", "1(x0)",
		"1(x2", "1(x2)3", "1 ", "-1", "2147483648", "99999999999999999999" };
	int most;

	for (int i = 0; i < N(good); i++) {
		ck_assert_int_eq(slurm_tasks(good[i].text, &most), 0);
		ck_assert_int_eq(most, good[i].most);
	}
	for (int i = 0; i < N(bad); i++)
		ck_assert_msg(slurm_tasks(bad[i], &most) == -EINVAL, "%s", bad[i]);
}
END_TEST

/* The variables of a test: "NAME=value", the first of a name counts. */
static const char *variables[16];

static char *variable(const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; variables[i]; i++)
		if (!strncmp(variables[i], name, len) && variables[i][len] == '=')
			return (char *)variables[i] + len + 1;
	return NULL;
}

/* Reads a good step in which changes, one or two variables, come first. */
static int read_step(
	const char *change, const char *another, struct slurm_step *ret, struct error *err)
{
	int n = 0;

	if (change)
		variables[n++] = change;
	if (another)
		variables[n++] = another;
	variables[n++] = "SLURM_STEP_NODELIST=n[3-4,9]";
	variables[n++] = "SLURM_STEP_NUM_NODES=3";
	variables[n++] = "SLURM_NODEID=2";
	variables[n++] = "SLURM_JOB_ID=70123";
	variables[n++] = "SLURM_STEP_ID=4294967290";
	variables[n++] = "SLURM_STEP_TASKS_PER_NODE=1(x3)";
	variables[n] = NULL;
	*err = (struct error){ 0 };
	return slurm_read(variable, ret, err);
}

START_TEST(a_step_says_where_its_hosts_meet)
{
	struct slurm_step s;
	struct error err;

	ck_assert_int_eq(read_step(NULL, NULL, &s, &err), 0);
	ck_assert_int_eq(s.hosts, 3);
	ck_assert_int_eq(s.rank, 2);
	ck_assert_str_eq(s.endpoint, "n3:29523");
	ck_assert_str_eq(s.id, "slurm-70123.4294967290.0");
	ck_assert_int_eq(read_step("SLURM_RESTART_COUNT=3", "SLURM_JOB_ID=1000", &s, &err), 0);
	ck_assert_str_eq(s.endpoint, "n3:29400");
	ck_assert_str_eq(s.id, "slurm-1000.4294967290.3");
	ck_assert_int_eq(read_step("SLURM_STEP_ID=", "SLURM_STEPID=1", &s, &err), 0);
	ck_assert_str_eq(s.id, "slurm-70123.1.0");
	ck_assert_int_eq(read_step("SLURM_STEP_NUM_NODES=", NULL, &s, &err), 0);
	ck_assert_int_eq(s.hosts, 3);
	/* The step may have fewer tasks than the job asked for. */
	ck_assert_int_eq(read_step("SLURM_NTASKS_PER_NODE=8", NULL, &s, &err), 0);
	ck_assert_int_eq(read_step("SLURM_STEP_NODELIST=", NULL, &s, &err), -ENOENT);
}
END_TEST

static const struct {
	const char *change, *another, *error;
} wrong[] = {
	{ "SLURM_STEP_NODELIST=n[1", NULL,
		"SLURM_STEP_NODELIST: expected at most 16384 hosts such as \"node[1-4,7]\", got "
		"\"n[1\"" },
	{ "SLURM_STEP_NUM_NODES=4", NULL,
		"SLURM_STEP_NUM_NODES: expected 3, as many as SLURM_STEP_NODELIST names, got "
		"\"4\"" },
	{ "SLURM_STEP_NUM_NODES=x", NULL, "SLURM_STEP_NUM_NODES: expected 3" },
	{ "SLURM_NODEID=3", NULL, "SLURM_NODEID: expected a number from 0 to 2, got \"3\"" },
	{ "SLURM_NODEID=", NULL, "SLURM_NODEID: expected a number from 0 to 2, got nothing" },
	{ "SLURM_JOB_ID=", NULL, "SLURM_JOB_ID: expected a number from 0 to 4294967295, got" },
	{ "SLURM_JOB_ID=-1", NULL, "SLURM_JOB_ID: expected a number" },
	{ "SLURM_STEP_ID=batch", NULL, "SLURM_STEP_ID: expected a number" },
	{ "SLURM_RESTART_COUNT=x", NULL, "SLURM_RESTART_COUNT: expected a number" },
	{ "SLURM_STEP_TASKS_PER_NODE=2(x2),1", NULL,
		"SLURM_STEP_TASKS_PER_NODE: expected one task of the step on each host, got 2: "
		"start it with srun --ntasks-per-node=1" },
	{ "SLURM_STEP_TASKS_PER_NODE=many", NULL,
		"SLURM_STEP_TASKS_PER_NODE: expected tasks of each host such as \"1(x4)\", got "
		"\"many\"" },
	{ "SLURM_STEP_TASKS_PER_NODE=", "SLURM_NTASKS_PER_NODE=8",
		"SLURM_NTASKS_PER_NODE: expected one task of the step on each host, got 8: start "
		"it with srun --ntasks-per-node=1" },
};

START_TEST(a_step_with_a_wrong_variable_is_refused_by_its_name)
{
	struct slurm_step s = { .hosts = -7 };
	struct error err;

	ck_assert_int_eq(read_step(wrong[_i].change, wrong[_i].another, &s, &err), -EINVAL);
	if (strncmp(err.text, wrong[_i].error, strlen(wrong[_i].error)))
		ck_abort_msg("%s: %s", wrong[_i].change, err.text);
	ck_assert_int_eq(s.hosts, -7);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("launch_slurm");
	TCase *t = tcase_create("launch_slurm");

	tcase_add_loop_test(t, a_list_of_hosts_has_a_size_and_a_first_one, 0, N(lists));
	tcase_add_loop_test(t, rubbish_is_no_list_of_hosts, 0, N(rubbish));
	tcase_add_test(t, names_of_hosts_fit_or_are_refused);
	tcase_add_test(t, random_text_is_read_or_refused);
	tcase_add_test(t, the_most_tasks_on_a_host_count);
	tcase_add_test(t, a_step_says_where_its_hosts_meet);
	tcase_add_loop_test(t, a_step_with_a_wrong_variable_is_refused_by_its_name, 0, N(wrong));
	suite_add_tcase(s, t);
	return suite_run(s);
}
