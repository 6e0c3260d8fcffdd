/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/notice.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define SECOND INT64_C(1000000)

/* The request of the machine under test, and its result of the last answer. */
static struct notice_machine m;
static struct notice_request q;
static struct notice_result r;
static int64_t now_us;

static void begin(const struct notice_kind *kind)
{
	now_us = 1700000000 * SECOND;
	notice_machine_init(&m, kind, 1000);
	memset(&r, 0, sizeof(r));
}

static const char *ask(void)
{
	notice_machine_request(&m, now_us, &q);
	ck_assert(q.timeout_ms > 0);
	return q.path;
}

static void give(const struct notice_answer *a)
{
	notice_machine_answer(&m, a, now_us, &r);
	ck_assert_int_ge(r.wait_ms, r.halfway ? 0 : 1000);
	ck_assert_int_le(r.wait_ms, 60000);
	ck_assert(!r.is_new || (r.notice.id[0] && r.notice.reason[0] && r.notice.source));
	ck_assert(!r.failed || !r.is_new);
	now_us += SECOND;
}

static void answer(int status, const char *body)
{
	ask();
	give(&(struct notice_answer){ .status = status,
		.body = body,
		.len = strlen(body),
		.flavor = "Google",
		.etag = "ab12" });
}

static void no_answer(void)
{
	ask();
	give(&(struct notice_answer){ .body = "", .error = "connection refused" });
}

/* GCE */

START_TEST(gce_is_asked_at_once_and_then_waited_for)
{
	begin(&notice_gce_maintenance);
	ck_assert_str_eq(ask(), "/computeMetadata/v1/instance/maintenance-event");
	ck_assert_str_eq(q.headers[0], "Metadata-Flavor: Google");
	ck_assert(!q.put);
	answer(200, "NONE");
	ck_assert(!r.failed && !r.is_new && !r.message[0]);
	ck_assert_str_eq(ask(), "/computeMetadata/v1/instance/maintenance-event"
				"?wait_for_change=true&last_etag=ab12&timeout_sec=60");
	ck_assert_int_gt(q.timeout_ms, 60000);
}
END_TEST

START_TEST(a_termination_for_maintenance_is_reported_once_an_hour_ahead_with_a_gpu)
{
	begin(&notice_gce_maintenance);
	m.gpu = _i;
	answer(200, "NONE\n");
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE\n");
	ck_assert(r.is_new);
	ck_assert_str_eq(r.notice.source, "gce");
	ck_assert_int_eq(r.notice.deadline_us, now_us - SECOND + (_i ? 3600 : 60) * SECOND);
	ck_assert(m.up);
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE");
	ck_assert(!r.is_new && m.up);
	answer(200, "NONE");
	ck_assert(!r.is_new && !m.up);
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE");
	ck_assert(r.is_new);
}
END_TEST

START_TEST(a_notice_in_the_first_answer_has_no_deadline)
{
	begin(_i ? &notice_gce_maintenance : &notice_gce_preempted);
	no_answer();
	answer(200, _i ? "TERMINATE_ON_HOST_MAINTENANCE" : "TRUE");
	ck_assert(r.is_new);
	ck_assert_int_eq(r.notice.deadline_us, SPEC_UNSET);
	answer(200, _i ? "NONE" : "FALSE");
	answer(200, _i ? "TERMINATE_ON_HOST_MAINTENANCE" : "TRUE");
	ck_assert(r.is_new);
	ck_assert_int_eq(r.notice.deadline_us, now_us - SECOND + (_i ? 60 : 30) * SECOND);
}
END_TEST

START_TEST(a_live_migration_is_no_notice_and_gets_one_message)
{
	begin(&notice_gce_maintenance);
	answer(200, "MIGRATE_ON_HOST_MAINTENANCE");
	ck_assert(!r.is_new && !m.up && r.message[0]);
	ck_assert_int_eq(r.level, LOG_INFO);
	answer(200, "MIGRATE_ON_HOST_MAINTENANCE");
	ck_assert(!r.message[0]);
}
END_TEST

START_TEST(a_preempted_machine_of_gce_has_thirty_seconds)
{
	begin(&notice_gce_preempted);
	ck_assert_str_eq(ask(), "/computeMetadata/v1/instance/preempted");
	answer(200, "FALSE");
	ck_assert(!r.is_new);
	answer(200, "TRUE");
	ck_assert(r.is_new);
	ck_assert_int_eq(r.notice.deadline_us, now_us - SECOND + 30 * SECOND);
}
END_TEST

static const struct {
	int status;
	const char *body, *flavor;
} gce_lies[] = {
	{ 200, "TERMINATE_ON_HOST_MAINTENANCE", NULL },
	{ 200, "TERMINATE_ON_HOST_MAINTENANCE", "google" },
	{ 200, "TERMINATE_ON_HOST_MAINTENANCE", "" },
	{ 500, "TERMINATE_ON_HOST_MAINTENANCE", "Google" },
	{ 302, "TERMINATE_ON_HOST_MAINTENANCE", "Google" },
	{ 403, "", "Google" },
	{ 404, "", "Google" },
	{ 204, "", "Google" },
	{ 200, "", "Google" },
	{ 200, " \n", "Google" },
	{ 200, "TRUE", "Google" },
	{ 200, "terminate_on_host_maintenance", "Google" },
	{ 200, "TERMINATE_ON_HOST_MAINTENANCE!", "Google" },
	{ 200, "TERMINATE_ON_HOST_MAINTENANCE NONE", "Google" },
	{ 200, "<html>TERMINATE_ON_HOST_MAINTENANCE</html>", "Google" },
	{ 200, "TERMINATE\001ON", "Google" },
	{ 200, "NONENONENONENONENONENONENONENONENONENONENONENONENONENONENONENONENONE", "Google" },
};

START_TEST(a_server_that_lies_gives_no_notice_of_gce)
{
	begin(&notice_gce_maintenance);
	ask();
	give(&(struct notice_answer){ .status = gce_lies[_i].status,
		.body = gce_lies[_i].body,
		.len = strlen(gce_lies[_i].body),
		.flavor = gce_lies[_i].flavor });
	ck_assert(r.failed && !r.is_new && !m.up);
	ck_assert_int_eq(r.level, LOG_WARNING);
	ck_assert(r.message[0]);
	/* And no harm is done to what comes later. */
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE");
	ck_assert(r.is_new);
}
END_TEST

static const char *const bad_etags[] = { NULL, "", "a b", "x&last_etag=0", "../..", "a\r\nX: y",
	"0123456789012345678901234567890123456789012345678901234567890123456789" };

START_TEST(without_a_plain_etag_the_server_is_polled)
{
	begin(&notice_gce_maintenance);
	ask();
	give(&(struct notice_answer){ .status = 200,
		.body = "NONE",
		.len = 4,
		.flavor = "Google",
		.etag = bad_etags[_i] });
	ck_assert(!r.failed);
	ck_assert_ptr_null(strchr(ask(), '?'));
}
END_TEST

START_TEST(a_server_that_does_not_hold_its_answer_back_is_not_asked_without_pause)
{
	begin(&notice_gce_maintenance);
	for (int i = 0; i < 10; i++) {
		answer(200, "NONE");
		ck_assert_int_ge(r.wait_ms, 1000);
	}
}
END_TEST

/* Failures of any server */

START_TEST(a_silent_server_is_asked_less_and_less_often_with_one_warning)
{
	static const int64_t waits[] = { 1, 2, 4, 8, 16, 32, 60, 60, 60 };

	begin(&notice_gce_maintenance);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		no_answer();
		ck_assert(r.failed);
		ck_assert_int_eq(r.wait_ms, waits[i] * 1000);
		ck_assert_int_eq(!r.message[0], i > 0);
	}
	ck_assert_ptr_nonnull(strstr(m.text, "connection refused"));
	answer(200, "NONE");
	ck_assert_int_eq(r.level, LOG_NOTICE);
	ck_assert(r.message[0]);
	answer(200, "NONE");
	ck_assert(!r.message[0]);
	no_answer();
	ck_assert(r.message[0]);
	ck_assert_int_eq(r.wait_ms, 1000);
}
END_TEST

START_TEST(a_failure_takes_no_notice_back)
{
	begin(&notice_gce_maintenance);
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE");
	no_answer();
	ck_assert(m.up && !r.is_new);
	answer(200, "TERMINATE_ON_HOST_MAINTENANCE");
	ck_assert(m.up && !r.is_new);
}
END_TEST

/* AWS */

#define ACTION "/latest/meta-data/spot/instance-action"
#define REBALANCE "/latest/meta-data/events/recommendations/rebalance"

static void aws_begin(void)
{
	begin(&notice_aws);
	ck_assert_str_eq(ask(), "/latest/api/token");
	ck_assert(q.put);
	ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token-ttl-seconds: 21600");
	answer(200, "TOKEN==");
	ck_assert(!r.failed);
	ck_assert_int_eq(r.wait_ms, 0);
}

START_TEST(aws_is_asked_with_a_token_for_both_each_round)
{
	aws_begin();
	for (int i = 0; i < 3; i++) {
		ck_assert_str_eq(ask(), ACTION);
		ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token: TOKEN==");
		ck_assert(!q.put);
		answer(404, "<html>not found</html>");
		ck_assert_int_eq(r.wait_ms, 0);
		ck_assert_str_eq(ask(), REBALANCE);
		ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token: TOKEN==");
		answer(404, "");
		ck_assert_int_eq(r.wait_ms, 1000);
		ck_assert(!r.is_new && !r.failed && !m.up);
	}
}
END_TEST

START_TEST(an_action_of_aws_has_its_time_and_is_reported_once)
{
	aws_begin();
	answer(200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"}");
	ck_assert(r.is_new);
	ck_assert_str_eq(r.notice.source, "aws");
	ck_assert_int_eq(r.notice.deadline_us, 1700000120 * SECOND);
	ck_assert_ptr_nonnull(strstr(r.notice.reason, "terminate"));
	answer(404, "");
	ck_assert(m.up);
	answer(200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"}");
	ck_assert(!r.is_new && m.up);
	answer(404, "");
	/* Another time is another event. */
	answer(200, "{\"action\": \"stop\", \"time\": \"2023-11-14T22:20:20Z\"}");
	ck_assert(r.is_new);
	answer(404, "");
	answer(404, "");
	answer(404, "");
	ck_assert(!m.up);
}
END_TEST

START_TEST(a_recommendation_of_aws_has_no_deadline_and_does_not_hide_an_action)
{
	const char *rebalance = "{\"noticeTime\": \"2023-11-14T22:13:20Z\"}";

	aws_begin();
	answer(404, "");
	answer(200, rebalance);
	ck_assert(r.is_new);
	ck_assert_int_eq(r.notice.deadline_us, SPEC_UNSET);
	answer(200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"}");
	ck_assert(r.is_new);
	answer(200, rebalance);
	ck_assert(!r.is_new);
	ck_assert_int_eq(m.current.deadline_us, 1700000120 * SECOND);
}
END_TEST

START_TEST(both_notices_of_aws_at_once_are_reported)
{
	aws_begin();
	answer(200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"}");
	ck_assert(r.is_new);
	answer(200, "{\"noticeTime\": \"2023-11-14T22:13:20Z\"}");
	ck_assert(r.is_new);
	ck_assert_int_eq(m.current.deadline_us, 1700000120 * SECOND);
}
END_TEST

START_TEST(a_refused_token_is_replaced_and_a_second_refusal_is_a_failure)
{
	aws_begin();
	answer(401, "");
	ck_assert(!r.failed);
	ck_assert_str_eq(ask(), "/latest/api/token");
	answer(200, "OTHER");
	ck_assert_str_eq(ask(), ACTION);
	ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token: OTHER");
	answer(401, "");
	ck_assert(r.failed && r.message[0]);
	for (int i = 0; i < 5; i++) {
		/* A token alone is no sign of health: it is warned of once. */
		ck_assert_str_eq(ask(), "/latest/api/token");
		answer(200, "THIRD");
		ck_assert(!r.message[0]);
		answer(401, "");
		answer(200, "FOURTH");
		answer(401, "");
		ck_assert(r.failed && !r.message[0]);
	}
}
END_TEST

START_TEST(a_token_refused_within_a_poll_is_replaced_once)
{
	aws_begin();
	answer(404, "");
	ck_assert_str_eq(ask(), REBALANCE);
	answer(401, "");
	ck_assert(!r.failed && !r.message[0]);
	ck_assert_str_eq(ask(), "/latest/api/token");
	answer(200, "OTHER");
	ck_assert_str_eq(ask(), ACTION);
	ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token: OTHER");
	answer(404, "");
	ck_assert_str_eq(ask(), REBALANCE);
	ck_assert_str_eq(q.headers[0], "X-aws-ec2-metadata-token: OTHER");
	/* Without a pause there would be no end to it. */
	answer(401, "");
	ck_assert(r.failed && r.wait_ms > 0);
	ck_assert_str_eq(ask(), "/latest/api/token");
}
END_TEST

START_TEST(a_token_is_renewed_in_time)
{
	aws_begin();
	answer(404, "");
	answer(404, "");
	now_us += 18000 * SECOND;
	ck_assert_str_eq(ask(), "/latest/api/token");
	answer(200, "NEW");
	ck_assert_str_eq(ask(), ACTION);
	now_us -= 36000 * SECOND;
	ck_assert_str_eq(ask(), "/latest/api/token");
}
END_TEST

static const int no_token[] = { 404, 405 };

START_TEST(a_server_without_tokens_is_asked_without)
{
	begin(&notice_aws);
	answer(no_token[_i], "");
	ck_assert(!r.failed);
	ck_assert_str_eq(ask(), ACTION);
	ck_assert_str_eq(q.headers[0], "");
	answer(404, "");
	ck_assert_str_eq(ask(), REBALANCE);
	answer(404, "");
	ck_assert_str_eq(ask(), ACTION);
	/* One day it may want them. */
	answer(401, "");
	ck_assert(r.failed);
	ck_assert_str_eq(ask(), "/latest/api/token");
}
END_TEST

static const struct {
	int status;
	const char *body;
} bad_tokens[] = { { 400, "" }, { 403, "" }, { 500, "" }, { 302, "" }, { 200, "" }, { 200, "a b" },
	{ 200, "<html>" }, { 200, "a\r\nX-Evil: 1" }, { 200, "\x80\x81" } };

START_TEST(an_invalid_token_is_not_used)
{
	begin(&notice_aws);
	answer(bad_tokens[_i].status, bad_tokens[_i].body);
	ck_assert(r.failed && r.message[0]);
	ck_assert_str_eq(ask(), "/latest/api/token");
	answer(bad_tokens[_i].status, bad_tokens[_i].body);
	ck_assert(r.failed && !r.message[0]);
}
END_TEST

static const struct {
	int status;
	const char *body;
} aws_lies[] = {
	{ 500, "" },
	{ 302, "" },
	{ 403, "" },
	{ 200, "" },
	{ 200, "terminate" },
	{ 200, "[]" },
	{ 200, "{}" },
	{ 200, "{\"action\": \"terminate\"}" },
	{ 200, "{\"time\": \"2023-11-14T22:15:20Z\"}" },
	{ 200, "{\"action\": 1, \"time\": \"2023-11-14T22:15:20Z\"}" },
	{ 200, "{\"action\": \"\", \"time\": \"2023-11-14T22:15:20Z\"}" },
	{ 200, "{\"action\": \"a\\u001b[2J\", \"time\": \"2023-11-14T22:15:20Z\"}" },
	{ 200, "{\"action\": \"terminate\", \"time\": \"soon\"}" },
	{ 200, "{\"action\": \"terminate\", \"time\": 1700000120}" },
	{ 200, "{\"action\": \"terminate\", \"time\": \"2023-02-31T22:15:20Z\"}" },
	{ 200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"} {}" },
	{ 200, "{\"action\": \"terminate\", \"time\": \"2023-11-14T22:15:20Z\"" },
};

START_TEST(a_server_that_lies_gives_no_notice_of_aws)
{
	aws_begin();
	answer(aws_lies[_i].status, aws_lies[_i].body);
	ck_assert(r.failed && r.message[0] && !m.up);
	ck_assert_str_eq(ask(), ACTION);
	answer(404, "");
	ck_assert_str_eq(ask(), REBALANCE);
	answer(aws_lies[_i].status, aws_lies[_i].body);
	ck_assert(r.failed && !r.message[0] && !m.up);
}
END_TEST

/* Azure */

static char document[4096];

static void azure_begin(void)
{
	begin(&notice_azure);
	ck_assert_ptr_nonnull(strstr(ask(), "/metadata/instance/compute/name?"));
	ck_assert_str_eq(q.headers[0], "Metadata: true");
	answer(200, "trainer_3");
	ck_assert(!r.failed);
	ck_assert_str_eq(ask(), "/metadata/scheduledevents?api-version=2020-07-01");
	ck_assert_str_eq(q.headers[0], "Metadata: true");
	/* It may take two minutes to wake up. */
	ck_assert_int_gt(q.timeout_ms, 120000);
}

static const char *event(const char *id, const char *type, const char *of, const char *when)
{
	static char texts[4][512];
	static int n;
	char *text = texts[n++ % 4];

	snprintf(text, sizeof(texts[0]),
		"{\"EventId\": \"%s\", \"EventStatus\": \"Scheduled\", \"EventType\": \"%s\","
		" \"ResourceType\": \"VirtualMachine\", \"Resources\": [\"other_1\", \"%s\"],"
		" \"NotBefore\": \"%s\"}",
		id, type, of, when);
	return text;
}

static void events(const char *one, const char *two)
{
	snprintf(document, sizeof(document), "{\"DocumentIncarnation\": 1, \"Events\": [%s%s%s]}",
		one, *one && *two ? ", " : "", two);
	answer(200, document);
}

#define LATER "Tue, 14 Nov 2023 22:15:20 GMT"
#define SOONER "Tue, 14 Nov 2023 22:14:20 GMT"

START_TEST(azures_first_answer_may_take_long_and_later_ones_not)
{
	azure_begin();
	events("", "");
	ck_assert(!r.failed && !r.is_new);
	ask();
	ck_assert_int_lt(q.timeout_ms, 120000);
}
END_TEST

static const char *const ends[] = { "Preempt", "Terminate", "Reboot", "Redeploy" };

START_TEST(each_end_that_azure_schedules_is_reported_once)
{
	const char *e = event("A-1", ends[_i], "TRAINER_3", LATER);

	azure_begin();
	events(e, "");
	ck_assert(r.is_new && m.up);
	ck_assert_str_eq(r.notice.source, "azure");
	ck_assert_int_eq(r.notice.deadline_us, 1700000120 * SECOND);
	ck_assert_str_eq(r.notice.id, "A-1");
	events(e, "");
	ck_assert(!r.is_new && m.up);
	events("", "");
	ck_assert(!r.is_new && !m.up);
}
END_TEST

START_TEST(an_event_of_another_machine_is_none_of_this_one)
{
	azure_begin();
	events(event("A-1", "Preempt", "trainer_30", LATER), "");
	ck_assert(!r.failed && !r.is_new && !m.up);
}
END_TEST

START_TEST(a_freeze_is_no_notice_and_gets_one_message)
{
	const char *e = event("F-1", "Freeze", "trainer_3", LATER);

	azure_begin();
	events(e, "");
	ck_assert(!r.is_new && !m.up && r.message[0]);
	events(e, "");
	ck_assert(!r.message[0]);
}
END_TEST

START_TEST(of_two_events_both_are_reported_the_earlier_first)
{
	const char *a = event("A-1", "Reboot", "trainer_3", LATER),
		   *b = event("B-2", "Preempt", "trainer_3", SOONER);

	azure_begin();
	events(a, b);
	ck_assert(r.is_new);
	ck_assert_str_eq(r.notice.id, "B-2");
	events(a, b);
	ck_assert(r.is_new);
	ck_assert_str_eq(r.notice.id, "A-1");
	ck_assert_str_eq(m.current.id, "B-2");
	events(a, b);
	ck_assert(!r.is_new);
}
END_TEST

START_TEST(an_event_that_has_begun_is_now)
{
	azure_begin();
	events(event("A-1", "Preempt", "trainer_3", ""), "");
	ck_assert(r.is_new);
	ck_assert_int_eq(r.notice.deadline_us, now_us - SECOND);
}
END_TEST

static const char *const azure_lies[] = {
	"",
	"[]",
	"{}",
	"Events",
	"{\"Events\": {}}",
	"{\"Events\": [1]}",
	"{\"Events\": [{}]}",
	"{\"Events\": [{\"EventId\": \"x\", \"EventType\": \"Preempt\"}]}",
	"{\"Events\": [{\"EventId\": \"x\", \"EventType\": \"Preempt\", \"Resources\": \"a\"}]}",
	"{\"Events\": [{\"EventId\": \"\\u00e9\", \"EventType\": \"Preempt\", \"Resources\": []}]}",
	"{\"Events\": [{\"EventId\": 7, \"EventType\": \"Preempt\", \"Resources\": []}]}",
	"{\"Events\": [{\"EventId\": \"x\", \"EventType\": \"Preempt\","
	" \"Resources\": [\"trainer_3\"], \"NotBefore\": \"soon\"}]}",
	"{\"Events\": [{\"EventId\": \"x\", \"EventType\": \"Preempt\","
	" \"Resources\": [\"trainer_3\"], \"NotBefore\": \"Tue, 31 Feb 2023 22:15:20 GMT\"}]}",
};

START_TEST(a_server_that_lies_gives_no_notice_of_azure)
{
	azure_begin();
	answer(200, azure_lies[_i]);
	ck_assert(r.failed && r.message[0] && !r.is_new && !m.up);
	events(event("A-1", "Preempt", "trainer_3", LATER), "");
	ck_assert(r.is_new);
}
END_TEST

START_TEST(without_a_name_no_event_is_believed)
{
	begin(&notice_azure);
	answer(200, "<html>login</html>");
	ck_assert(r.failed);
	answer(404, "x");
	ck_assert(r.failed);
	ck_assert_ptr_nonnull(strstr(ask(), "/metadata/instance/compute/name?"));
}
END_TEST

/* Shared */

START_TEST(more_events_than_are_remembered_are_reported_twice_rather_than_never)
{
	char id[16];

	azure_begin();
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < NOTICE_REPORTED + 1; i++) {
			snprintf(id, sizeof(id), "E-%d", i);
			events(event(id, "Preempt", "trainer_3", LATER), "");
			ck_assert(r.is_new);
		}
}
END_TEST

static const struct {
	const char *text;
	int64_t seconds; /* -1: refused */
} isos[] = { { "2023-11-14T22:13:20Z", 1700000000 }, { "1970-01-01T00:00:00Z", 0 },
	{ "2024-02-29T00:00:00Z", 1709164800 }, { "2023-11-14T22:13:20.123Z", 1700000000 },
	{ "2023-02-29T00:00:00Z", -1 }, { "2023-11-14T22:13:20", -1 },
	{ "2023-11-14T24:13:20Z", -1 }, { "2023-11-14T22:60:20Z", -1 },
	{ "2023-13-14T22:13:20Z", -1 }, { "2023-11-00T22:13:20Z", -1 }, { "", -1 }, { "Z", -1 },
	{ "2023-11-14T22:13:20ZZ", -1 }, { "2023-11-14 22:13:20Z", -1 },
	{ "2023-11-14T22:13:20+01:00", -1 }, { "9999-11-14T22:13:20Z", -1 } };

START_TEST(times_of_iso_8601_are_read)
{
	int64_t us = -1;
	int e = notice_time_iso(isos[_i].text, &us);

	ck_assert_int_eq(e, isos[_i].seconds < 0 ? -EINVAL : 0);
	ck_assert_int_eq(us, isos[_i].seconds < 0 ? -1 : isos[_i].seconds * SECOND);
}
END_TEST

static const struct {
	const char *text;
	int64_t seconds;
} https[] = { { "Tue, 14 Nov 2023 22:13:20 GMT", 1700000000 },
	{ "Mon, 19 Sep 2016 18:29:47 GMT", 1474309787 }, { "14 Nov 2023 22:13:20 GMT", -1 },
	{ "Tue, 14 Nov 2023 22:13:20", -1 }, { "Tue, 14 Nov 2023 22:13:20 GMTX", -1 },
	{ "Tue, 14 Abc 2023 22:13:20 GMT", -1 }, { "Tue, 14 anF 2023 22:13:20 GMT", -1 },
	{ "Tue, 31 Feb 2023 22:13:20 GMT", -1 }, { "Tue, -4 Nov 2023 22:13:20 GMT", -1 },
	{ "Tue, 14 Nov 2023 25:13:20 GMT", -1 }, { "", -1 } };

START_TEST(times_of_http_are_read)
{
	int64_t us = -1;
	int e = notice_time_http(https[_i].text, &us);

	ck_assert_int_eq(e, https[_i].seconds < 0 ? -EINVAL : 0);
	ck_assert_int_eq(us, https[_i].seconds < 0 ? -1 : https[_i].seconds * SECOND);
}
END_TEST

static const struct {
	const char *text, *url; /* NULL: refused */
} endpoints[] = {
	{ "http://127.0.0.1:8080", "http://127.0.0.1:8080" },
	{ "http://127.0.0.1:8080/", "http://127.0.0.1:8080" },
	{ "HTTP://169.254.169.254", "http://169.254.169.254" },
	{ "169.254.169.254", "http://169.254.169.254" },
	{ "169.254.169.254:80", "http://169.254.169.254:80" },
	{ "localhost:99", "http://127.0.0.1:99" },
	{ "metadata.google.internal", "http://169.254.169.254" },
	{ "http://metadata.google.internal.:80", "http://169.254.169.254:80" },
	{ "http://[fd00:ec2::254]", "http://[fd00:ec2::254]" },
	{ "http://[::1]:8080/", "http://[::1]:8080" },
	{ "", NULL },
	{ "http://", NULL },
	{ "https://127.0.0.1", NULL },
	{ "metadata.example.org", NULL },
	{ "127.0.0.1/path", NULL },
	{ "127.0.0.1:", NULL },
	{ "127.0.0.1:0", NULL },
	{ "127.0.0.1:65536", NULL },
	{ "127.0.0.1:80x", NULL },
	{ "user@127.0.0.1", NULL },
	{ "127.0.0.1\r\nX: y", NULL },
	{ "[::1", NULL },
	{ "[]", NULL },
	{ "::1", NULL },
	{ "1.2.3", NULL },
};

START_TEST(an_endpoint_is_an_address_and_never_a_name_to_be_resolved)
{
	struct error err = { 0 };
	char url[160] = "";
	int e = notice_endpoint(endpoints[_i].text, url, sizeof(url), &err);

	ck_assert_int_eq(e, endpoints[_i].url ? 0 : -EINVAL);
	if (endpoints[_i].url)
		ck_assert_str_eq(url, endpoints[_i].url);
	else
		ck_assert_ptr_nonnull(strstr(err.text, "expected http://"));
}
END_TEST

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

static void add_clouds(TCase *t)
{
	tcase_add_test(t, gce_is_asked_at_once_and_then_waited_for);
	tcase_add_loop_test(
		t, a_termination_for_maintenance_is_reported_once_an_hour_ahead_with_a_gpu, 0, 2);
	tcase_add_loop_test(t, a_notice_in_the_first_answer_has_no_deadline, 0, 2);
	tcase_add_test(t, a_live_migration_is_no_notice_and_gets_one_message);
	tcase_add_test(t, a_preempted_machine_of_gce_has_thirty_seconds);
	tcase_add_loop_test(t, a_server_that_lies_gives_no_notice_of_gce, 0, COUNT(gce_lies));
	tcase_add_loop_test(t, without_a_plain_etag_the_server_is_polled, 0, COUNT(bad_etags));
	tcase_add_test(t, a_server_that_does_not_hold_its_answer_back_is_not_asked_without_pause);
	tcase_add_test(t, aws_is_asked_with_a_token_for_both_each_round);
	tcase_add_test(t, an_action_of_aws_has_its_time_and_is_reported_once);
	tcase_add_test(t, a_recommendation_of_aws_has_no_deadline_and_does_not_hide_an_action);
	tcase_add_test(t, both_notices_of_aws_at_once_are_reported);
	tcase_add_test(t, a_refused_token_is_replaced_and_a_second_refusal_is_a_failure);
	tcase_add_test(t, a_token_refused_within_a_poll_is_replaced_once);
	tcase_add_test(t, a_token_is_renewed_in_time);
	tcase_add_loop_test(t, a_server_without_tokens_is_asked_without, 0, COUNT(no_token));
	tcase_add_loop_test(t, an_invalid_token_is_not_used, 0, COUNT(bad_tokens));
	tcase_add_loop_test(t, a_server_that_lies_gives_no_notice_of_aws, 0, COUNT(aws_lies));
	tcase_add_test(t, azures_first_answer_may_take_long_and_later_ones_not);
	tcase_add_loop_test(t, each_end_that_azure_schedules_is_reported_once, 0, COUNT(ends));
	tcase_add_test(t, an_event_of_another_machine_is_none_of_this_one);
	tcase_add_test(t, a_freeze_is_no_notice_and_gets_one_message);
	tcase_add_test(t, of_two_events_both_are_reported_the_earlier_first);
	tcase_add_test(t, an_event_that_has_begun_is_now);
	tcase_add_loop_test(t, a_server_that_lies_gives_no_notice_of_azure, 0, COUNT(azure_lies));
	tcase_add_test(t, without_a_name_no_event_is_believed);
}

int main(void)
{
	Suite *s = suite_create("notice");
	TCase *t = tcase_create("clouds"), *shared = tcase_create("shared");

	add_clouds(t);
	tcase_add_test(shared, a_silent_server_is_asked_less_and_less_often_with_one_warning);
	tcase_add_test(shared, a_failure_takes_no_notice_back);
	tcase_add_test(
		shared, more_events_than_are_remembered_are_reported_twice_rather_than_never);
	tcase_add_loop_test(shared, times_of_iso_8601_are_read, 0, COUNT(isos));
	tcase_add_loop_test(shared, times_of_http_are_read, 0, COUNT(https));
	tcase_add_loop_test(shared, an_endpoint_is_an_address_and_never_a_name_to_be_resolved, 0,
		COUNT(endpoints));
	suite_add_tcase(s, t);
	suite_add_tcase(s, shared);
	return suite_run(s);
}
