/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/completion.h"

#include "client/launch/launch.h"
#include "client/verbs/verbs.h"
#include "common/base/cleanup.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *script(const char *shell)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(completion_write(shell, f), 0);
	fclose(f);
	return text;
}

/* Feeds text to a command's standard input; returns its exit status, or -1 where it is not there.
 */
static int feed(const char *program, const char *command, const char *text)
{
	char look[64];
	FILE *f;

	snprintf(look, sizeof(look), "command -v %s >/dev/null", program);
	if (system(look) != 0)
		return -1;
	f = popen(command, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	return pclose(f);
}

START_TEST(every_verb_and_option_is_in_every_script)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };

	for (size_t i = 0; i < 3; i++) {
		_cleanup_free_ char *text = script(shells[i]);

		for (const struct verb *v = verbs; v->name; v++) {
			if (v->flags & VERB_HIDDEN)
				continue;
			ck_assert_msg(strstr(text, v->name), "%s: %s", shells[i], v->name);
			for (const struct arg_option *o = v->options; o && o->name; o++)
				ck_assert_msg(
					strstr(text, o->name), "%s: --%s", shells[i], o->name);
		}
		for (const struct arg_option *o = launch_options; o->name; o++)
			ck_assert_msg(strstr(text, o->name), "%s: --%s", shells[i], o->name);
	}
}
END_TEST

START_TEST(bash_accepts_its_script)
{
	_cleanup_free_ char *text = script("bash");

	ck_assert_int_le(feed("bash", "bash -n", text), 0);
}
END_TEST

START_TEST(zsh_accepts_its_script)
{
	_cleanup_free_ char *text = script("zsh");

	ck_assert_int_le(feed("zsh", "zsh -n /dev/stdin", text), 0);
}
END_TEST

START_TEST(fish_accepts_its_script)
{
	_cleanup_free_ char *text = script("fish");

	ck_assert_int_le(feed("fish", "fish -n /dev/stdin", text), 0);
}
END_TEST

/* bash offers these for a line whose last word is being typed. elasticctl itself is a function. */
static void offers(const char *line, const char *expected)
{
	_cleanup_free_ char *text = script("bash"), *whole = NULL;

	ck_assert_int_gt(asprintf(&whole,
				 "elasticctl() { echo job-of-$2; }\n%s\n"
				 "COMP_WORDS=(%s); [[ '%s' == *' ' ]] && COMP_WORDS+=('')\n"
				 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_elasticctl\n"
				 "got=\"${COMPREPLY[*]}\"\n"
				 "[[ \"$got\" == %s ]] || { echo \"got: $got\"; exit 1; }\n",
				 text, line, line, expected),
		0);
	ck_assert_msg(feed("bash", "bash", whole) <= 0, "%s", line);
}

START_TEST(bash_offers_verbs_options_values_and_jobs)
{
	offers("elasticctl sta", "'start status'");
	offers("elasticctl --json lis", "list");
	offers("elasticctl --socket /x sto", "stop");
	offers("elasticctl logs --fol", "--follow");
	offers("elasticctl logs --stream o", "'out out,err'");
	offers("elasticctl --color a", "'auto always'");
	offers("elasticctl status j", "job-of-any-workers");
	offers("elasticctl events j", "job-of-jobs");
	offers("elasticctl stop j", "job-of-workers");
	offers("elasticctl scale j", "job-of-active");
	offers("elasticctl run --nproc-per", "--nproc-per-node");
	offers("elasticctl run --nproc-per-node a", "auto");
}
END_TEST

START_TEST(another_shell_is_refused)
{
	ck_assert_int_eq(completion_write("csh", stdout), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("completion");
	TCase *tc = tcase_create("completion");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_verb_and_option_is_in_every_script);
	tcase_add_test(tc, bash_accepts_its_script);
	tcase_add_test(tc, zsh_accepts_its_script);
	tcase_add_test(tc, fish_accepts_its_script);
	tcase_add_test(tc, bash_offers_verbs_options_values_and_jobs);
	tcase_add_test(tc, another_shell_is_refused);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
