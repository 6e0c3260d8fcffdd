/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/mirror.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct job_record record;
static struct mirror mirror;

static json_t *job_saying(const char *reason)
{
	json_t *job = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:[{s:s, s:i, s:i, s:i, s:s}]}",
		"state", "running", "reason", reason, "attempt", 0, "restarts", 0, "max_restarts",
		0, "command", "true", "workers", "role", "worker", "index", 0, "rank", 0,
		"local_rank", 0, "state", "running");

	ck_assert_ptr_nonnull(job);
	return job;
}

static void mirror_running(const char *reason)
{
	_cleanup_json_ json_t *job = job_saying(reason);
	struct error err = { 0 };

	ck_assert_msg(mirror_set(&mirror, &record, job, &err) == 0, "%s", err.text);
}

static void setup(void)
{
	record = (struct job_record){ .name = (char *)"j",
		.run = (char *)"j_12345678",
		.user = (char *)"u",
		.uid = 1000,
		.log_dir = (char *)"/dev/null" };
	mirror_running("as it was");
}

static void teardown(void)
{
	mirror_fini(&mirror);
}

START_TEST(a_living_job_whose_text_was_cut_says_so_and_ends_as_any)
{
	_cleanup_json_ json_t *verdict = json_pack(
		"{s:s, s:i, s:s}", "result", "agent_lost", "exit_status", 125, "message", "gone");
	_cleanup_json_ json_t *cut = NULL;
	_cleanup_json_ json_t *after = NULL;
	struct error err = { 0 };

	ck_assert_int_eq(mirror_cut(&mirror), 0);
	ck_assert_uint_eq(strlen(mirror.text), mirror.text_len);
	cut = mirror_job(&mirror);
	ck_assert_str_eq(json_get_string(cut, "reason", ""), "as it was");
	ck_assert_int_eq(json_get_int(cut, "worker_count", 0), 1);
	ck_assert_int_eq(mirror_silent(&mirror, &record, 5, NULL, &err), 0);
	ck_assert_int_eq(mirror_reason(&mirror, &record, "its agent is gone", &err), 0);
	ck_assert_int_eq(mirror_finish(&mirror, &record, verdict, 7, &err), 0);
	after = mirror_job(&mirror);
	ck_assert_str_eq(json_get_string(after, "state", ""), "failed");
	ck_assert(mirror.has_verdict);
}
END_TEST

START_TEST(a_job_is_ready_where_its_agent_does_not_say_otherwise)
{
	_cleanup_json_ json_t *verdict =
		json_pack("{s:s, s:i, s:s}", "result", "stopped", "exit_status", 0, "message", "");
	_cleanup_json_ json_t *job = job_saying("");
	_cleanup_json_ json_t *after = NULL;
	struct error err = { 0 };

	ck_assert(mirror.ready);
	json_put(job, "ready", json_false());
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), 0);
	ck_assert(!mirror.ready);
	json_put(job, "ready", json_true());
	json_put(job, "state", json_string("starting"));
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), 0);
	ck_assert(!mirror.ready);
	json_put(job, "state", json_string("running"));
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), 0);
	ck_assert(mirror.ready);
	json_put(job, "ready", json_integer(1));
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), -EBADMSG);
	ck_assert_int_eq(mirror_finish(&mirror, &record, verdict, 7, &err), 0);
	after = mirror_job(&mirror);
	ck_assert_ptr_null(json_object_get(after, "ready"));
	ck_assert(!mirror.ready);
}
END_TEST

START_TEST(a_long_string_is_whole_for_status_and_cut_for_lists)
{
	char word[10000];
	_cleanup_json_ json_t *whole = NULL;
	_cleanup_json_ json_t *brief = NULL;

	/* Two bytes each, from an odd place: the cut is between two of them. */
	for (size_t i = 0; i < sizeof(word); i++)
		word[i] = i % 2 ? '\xc3' : '\xa4';
	word[0] = 'x';
	word[sizeof(word) - 1] = '\0';
	mirror_running(word);
	whole = mirror_job(&mirror);
	brief = json_loads(mirror.brief, 0, NULL);
	ck_assert_str_eq(json_get_string(whole, "reason", ""), word);
	ck_assert_uint_eq(strlen(json_get_string(brief, "reason", "")), 4095);
	ck_assert(!strncmp(json_get_string(brief, "reason", ""), word, 4095));
}
END_TEST

static json_t *event(int seq)
{
	return json_pack("{s:i, s:i, s:s, s:s, s:s}", "seq", seq, "time_us", 1, "event", "e",
		"text", "t", "run", "of another job");
}

START_TEST(a_group_of_thousands_of_hosts_is_whole_for_status_and_has_none_in_lists)
{
	enum { HOSTS = 4000 };
	_cleanup_json_ json_t *job = job_saying("many");
	_cleanup_json_ json_t *whole = NULL;
	json_t *hosts = json_array();
	struct error err = { 0 };

	for (int i = 0; i < HOSTS; i++)
		json_add(hosts, json_pack("{s:s, s:s, s:b}", "host", "node", "state", "running",
					"leads", 0));
	json_put(job, "hosts", hosts);
	ck_assert_msg(mirror_set(&mirror, &record, job, &err) == 0, "%s", err.text);
	ck_assert(mirror.several);
	whole = mirror_job(&mirror);
	ck_assert_uint_eq(json_array_size(json_get_array(whole, "hosts")), HOSTS);
	ck_assert_ptr_null(strstr(mirror.brief, "node"));
}
END_TEST

START_TEST(events_get_the_jobs_identity_and_wrong_ones_are_left_out)
{
	_cleanup_json_ json_t *events =
		json_pack("[i, o, {s:s}, o, n]", 1, event(5), "event", "e", event(7));

	mirror_check_events(&record, events);
	ck_assert_uint_eq(json_array_size(events), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *e = json_array_get(events, i);

		ck_assert_int_eq(json_get_int(e, "seq", 0), i ? 7 : 5);
		ck_assert_str_eq(json_get_string(e, "run", ""), record.run);
		ck_assert_str_eq(json_get_string(e, "job", ""), record.name);
	}
}
END_TEST

/* It took minutes where each that was left out moved all that follow. */
START_TEST(many_events_take_little_time_and_no_more_than_an_agent_sends_are_kept)
{
	_cleanup_json_ json_t *events = json_array();

	for (int i = 0; i < 500000; i++)
		ck_assert_int_eq(json_array_append_new(events, json_null()), 0);
	for (int i = 0; i < 50000; i++)
		ck_assert_int_eq(json_array_append_new(events, event(i)), 0);
	mirror_check_events(&record, events);
	ck_assert_uint_eq(json_array_size(events), MIRROR_EVENTS_MAX);
	ck_assert_int_eq(json_get_int(json_array_get(events, 0), "seq", -1), 0);
}
END_TEST

START_TEST(the_text_of_an_ended_run_is_short)
{
	_cleanup_json_ json_t *job = job_saying("why");
	_cleanup_json_ json_t *verdict = json_pack("{s:s, s:i, s:s, s:{s:s}}", "result", "failed",
		"exit_status", 3, "message", "it failed", "root_cause", "role", "worker");
	_cleanup_json_ json_t *brief = NULL;
	char *before, word[4000];
	struct error err = { 0 };

	json_object_set(job, "verdict", verdict);
	json_object_set_new(job, "state", json_string("failed"));
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), 0);
	before = strdup(mirror.brief);
	mirror_shorten(&mirror);
	ck_assert_str_eq(mirror.brief, before);
	free(before);
	memset(word, 'x', sizeof(word));
	word[sizeof(word) - 1] = '\0';
	json_object_set_new(job, "command", json_string(word));
	for (char name[] = "a"; *name <= 'j'; ++*name)
		json_object_set_new(job, name, json_string(word));
	ck_assert_int_eq(mirror_set(&mirror, &record, job, &err), 0);
	ck_assert_uint_gt(strlen(mirror.brief), 40000);
	mirror_shorten(&mirror);
	ck_assert_uint_lt(strlen(mirror.brief), 2000);
	brief = json_loads(mirror.brief, 0, NULL);
	ck_assert_str_eq(json_get_string(brief, "name", ""), "j");
	ck_assert_str_eq(json_get_string(brief, "reason", ""), "why");
	ck_assert_int_eq(json_get_int(brief, "worker_count", 0), 1);
	ck_assert_uint_eq(strlen(json_get_string(brief, "command", "")), 256);
	ck_assert_str_eq(
		json_get_string(json_object_get(brief, "verdict"), "message", ""), "it failed");
}
END_TEST

START_TEST(a_mirror_is_restored_from_the_brief_job_without_a_text)
{
	_cleanup_json_ json_t *brief = json_loads(mirror.brief, 0, NULL);
	struct mirror again = { 0 };
	struct error err = { 0 };

	ck_assert_int_eq(mirror_restore(&again, &record, brief, &err), 0);
	ck_assert_str_eq(again.brief, mirror.brief);
	ck_assert_ptr_null(again.text);
	ck_assert_int_eq(again.state, MIRROR_RUNNING);
	json_object_del(brief, "state");
	ck_assert_int_eq(mirror_restore(&again, &record, brief, &err), -EBADMSG);
	ck_assert_int_eq(again.state, MIRROR_RUNNING);
	mirror_fini(&again);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mirror");
	TCase *t = tcase_create("text");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_living_job_whose_text_was_cut_says_so_and_ends_as_any);
	tcase_add_test(t, a_job_is_ready_where_its_agent_does_not_say_otherwise);
	tcase_add_test(t, a_long_string_is_whole_for_status_and_cut_for_lists);
	tcase_add_test(t, a_group_of_thousands_of_hosts_is_whole_for_status_and_has_none_in_lists);
	tcase_add_test(t, events_get_the_jobs_identity_and_wrong_ones_are_left_out);
	tcase_add_test(t, many_events_take_little_time_and_no_more_than_an_agent_sends_are_kept);
	tcase_add_test(t, the_text_of_an_ended_run_is_short);
	tcase_add_test(t, a_mirror_is_restored_from_the_brief_job_without_a_text);
	suite_add_tcase(s, t);
	return suite_run(s);
}
