/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/settings.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct spec *parsed(const char *text)
{
	struct spec *s = NULL;
	struct error err = { 0 };
	char whole[1024];

	for (char *p = strcpy(whole, text); *p; p++)
		*p = *p == '\'' ? '"' : *p;
	ck_assert_msg(spec_parse_text(whole, strlen(whole), &s, &err) == 0, "%s", err.text);
	return s;
}

#define JOB(command, more)                                                                \
	"{'rendezvous': {'nodes': '2:4', 'endpoints': 'node0'}, 'roles': [{'name': 'w', " \
	"'command': ['" command "']}]" more "}"

static json_t *settings(const char *text)
{
	struct spec *s = parsed(text);
	json_t *j = settings_of(s);

	ck_assert_ptr_nonnull(j);
	spec_free(s);
	return j;
}

static int differ(const char *ours, const char *theirs, struct error *err)
{
	_cleanup_json_ json_t *a = settings(ours), *b = settings(theirs);
	_cleanup_free_ char *x = settings_digest(a), *y = settings_digest(b);

	if (!strcmp(x, y))
		return 0;
	return settings_differ(a, b, "node0", "node1", err);
}

START_TEST(commands_and_their_numbers_are_each_hosts_own)
{
	struct error err = { 0 };

	ck_assert_int_eq(differ(JOB("one", ""), JOB("two", ""), &err), 0);
	ck_assert_int_eq(
		differ("{'rendezvous': {'nodes': 2, 'endpoints': 'n'}, 'roles': [{'name': "
		       "'w', 'replicas': 2, 'command': ['x'], 'env': {'A': 'b'}}]}",
			"{'rendezvous': {'nodes': 2, 'endpoints': 'n'}, 'roles': [{'name': "
			"'w', 'replicas': 3, 'command': ['x']}]}",
			&err),
		0);
}
END_TEST

static const struct {
	const char *more, *key;
} others[] = {
	{ ", 'restart': {'max': 5}", "restart.max" },
	{ ", 'stop': {'timeout': '1s'}", "stop.timeout" },
	{ ", 'max_run_time': '1h'", "max_run_time" },
	{ ", 'compat': {'torch': false}", "compat.torch" },
	{ ", 'speed': {'straggler': 30}", "speed.straggler" },
	{ ", 'compat': {'tf_config': true}", "compat.tf_config" },
	{ ", 'heartbeat': {'period': '9s'}", "heartbeat.failures" },
	{ ", 'queue': {'max': 7}", "queue.max" },
};

START_TEST(a_setting_that_differs_is_named_with_the_host)
{
	struct error err = { 0 };
	char theirs[512];

	snprintf(theirs, sizeof(theirs), JOB("one", "%s"), others[_i].more);
	ck_assert_int_eq(differ(JOB("one", ""), theirs, &err), -EINVAL);
	ck_assert_str_eq(err.field, others[_i].key);
	ck_assert_ptr_nonnull(strstr(err.text, "node1"));
}
END_TEST

START_TEST(numbers_of_hosts_and_roles_have_to_agree)
{
	struct error err = { 0 };

	ck_assert_int_eq(differ(JOB("one", ""),
				 "{'rendezvous': {'nodes': '2:5', 'endpoints': 'n'}, 'roles': "
				 "[{'name': 'w', 'command': ['x']}]}",
				 &err),
		-EINVAL);
	ck_assert_str_eq(err.field, "rendezvous.nodes");
	ck_assert_ptr_nonnull(strstr(err.text, "2:4"));
	ck_assert_ptr_nonnull(strstr(err.text, "2:5"));
	ck_assert_int_eq(differ(JOB("one", ""),
				 "{'rendezvous': {'nodes': '2:4', 'endpoints': 'n'}, 'roles': "
				 "[{'name': 'v', 'command': ['x']}]}",
				 &err),
		-EINVAL);
	ck_assert_ptr_nonnull(strstr(err.field, "roles"));
}
END_TEST

static const char *const rules[] = { "'restart': {'max': 1}", "'restart': {'max': 2}" };

START_TEST(segments_and_quarantines_have_to_agree_but_no_topologies)
{
	struct error err = { 0 };
#define TOPOLOGY_JOB                                          \
	"{'rendezvous': {'nodes': 4, 'endpoints': 'n', %s}, " \
	"'roles': [{'name': 'a', 'command': ['x']}]}"
	char texts[3][512];

	snprintf(texts[0], sizeof(texts[0]), TOPOLOGY_JOB, "'segment': 2, 'topology': 'p1'");
	snprintf(texts[1], sizeof(texts[1]), TOPOLOGY_JOB, "'segment': 2, 'topology': 'p2'");
	snprintf(texts[2], sizeof(texts[2]), TOPOLOGY_JOB, "'segment': 4, 'topology': 'p1'");
	ck_assert_int_eq(differ(texts[0], texts[1], &err), 0);
	ck_assert_int_eq(differ(texts[0], texts[2], &err), -EINVAL);
	ck_assert_str_eq(err.field, "rendezvous.segment");
	snprintf(texts[2], sizeof(texts[2]), TOPOLOGY_JOB, "'segment': 2, 'quarantine': 'off'");
	ck_assert_int_eq(differ(texts[0], texts[2], &err), -EINVAL);
	ck_assert_str_eq(err.field, "rendezvous.quarantine");
}
END_TEST

START_TEST(restarts_of_a_role_have_to_agree)
{
	struct error err = { 0 };
	char texts[2][512];

	for (int i = 0; i < 2; i++)
		snprintf(texts[i], sizeof(texts[i]),
			"{'rendezvous': {'nodes': 2, 'endpoints': 'n'}, 'roles': [{'name': 'a', "
			"'command': ['x']}, {'name': 'w', 'command': ['x'], %s}]}",
			rules[i]);
	ck_assert_int_eq(differ(texts[0], texts[0], &err), 0);
	ck_assert_int_eq(differ(texts[0], texts[1], &err), -EINVAL);
	ck_assert_str_eq(err.field, "roles[1].restart.max");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("settings");
	TCase *tc = tcase_create("settings");

	tcase_add_test(tc, commands_and_their_numbers_are_each_hosts_own);
	tcase_add_loop_test(tc, a_setting_that_differs_is_named_with_the_host, 0,
		sizeof(others) / sizeof(others[0]));
	tcase_add_test(tc, numbers_of_hosts_and_roles_have_to_agree);
	tcase_add_test(tc, segments_and_quarantines_have_to_agree_but_no_topologies);
	tcase_add_test(tc, restarts_of_a_role_have_to_agree);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
