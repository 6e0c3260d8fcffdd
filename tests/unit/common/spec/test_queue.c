/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"

#include <errno.h>
#include <stdlib.h>

START_TEST(a_job_that_says_nothing_of_its_queue_has_the_defaults)
{
	_cleanup_(spec_freep) struct spec *s = parse("{'roles':[{'command':['a']}]}");
	const struct spec_queue *q = &s->queue;

	ck_assert_int_eq(s->mode, SPEC_MODE_GROUP);
	ck_assert_ptr_null(s->roles[0].init);
	ck_assert_int_eq(s->roles[0].on_failure, SPEC_FAILURE_RESTART);
	ck_assert_int_eq(q->max, 262144);
	ck_assert_int_eq(q->results, 262144);
	ck_assert_int_eq(q->memory, 1 << 30);
	ck_assert_int_eq(q->slots, 1);
	ck_assert_int_eq(q->cancel_grace_ms, 30000);
	ck_assert_int_eq(q->recovery_timeout_ms, 3600000);
	ck_assert_int_eq(q->blame_limit, 3);
	ck_assert_int_eq(q->blame_window_ms, SPEC_UNSET);
	ck_assert_int_eq(q->deaths, 0);
	ck_assert(!q->durable);
	ck_assert_int_eq(q->stall_ms, SPEC_UNSET);
	ck_assert_int_eq(q->call_timeout_ms, 300000);
	ck_assert_int_eq(q->answer_timeout_ms, 120000);
	ck_assert_int_eq(q->exit_code, SPEC_UNSET);
	ck_assert_int_eq(q->loss_grace_ms, 30000);
}
END_TEST

static const char all[] =
	"{'mode':'pool','roles':[{'command':['a'],'init':'{}','on_failure':'restart'},"
	"{'name':'ps','command':['a'],'on_failure':'fail_queue'}],"
	"'queue':{'max':2,'results':3,'memory':'4K','slots':5,'cancel_grace':'6ms',"
	"'recovery_timeout':0,'blame_limit':8,'blame_window':'9ms','deaths':1023,"
	"'durable':true,'stall':'11ms','call_timeout':'12ms','answer_timeout':'13ms',"
	"'exit_code':14,'loss_grace':'15ms'}}";

START_TEST(all_of_it_is_read_as_it_stands)
{
	_cleanup_(spec_freep) struct spec *s = parse(all);
	const struct spec_queue *q = &s->queue;

	ck_assert_int_eq(s->mode, SPEC_MODE_POOL);
	ck_assert_str_eq(s->roles[0].init, "{}");
	ck_assert_int_eq(s->roles[0].on_failure, SPEC_FAILURE_RESTART);
	ck_assert_int_eq(s->roles[1].on_failure, SPEC_FAILURE_QUEUE);
	ck_assert_int_eq(q->max, 2);
	ck_assert_int_eq(q->results, 3);
	ck_assert_int_eq(q->memory, 4096);
	ck_assert_int_eq(q->slots, 5);
	ck_assert_int_eq(q->cancel_grace_ms, 6);
	ck_assert_int_eq(q->recovery_timeout_ms, 0);
	ck_assert_int_eq(q->blame_limit, 8);
	ck_assert_int_eq(q->blame_window_ms, 9);
	ck_assert_int_eq(q->deaths, 1023);
	ck_assert(q->durable);
	ck_assert_int_eq(q->stall_ms, 11);
	ck_assert_int_eq(q->call_timeout_ms, 12);
	ck_assert_int_eq(q->answer_timeout_ms, 13);
	ck_assert_int_eq(q->exit_code, 14);
	ck_assert_int_eq(q->loss_grace_ms, 15);
}
END_TEST

START_TEST(the_document_with_its_defaults_is_read_as_the_same)
{
	_cleanup_(spec_freep) struct spec *s = parse(all);
	_cleanup_json_ json_t *doc = spec_to_json(s), *again = NULL;
	_cleanup_(spec_freep) struct spec *second = NULL;
	struct error err = { 0 };

	ck_assert_int_eq(spec_parse(doc, &second, &err), 0);
	again = spec_to_json(second);
	ck_assert(json_equal(doc, again));
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(doc, "queue"), "exit_code")),
		14);
}
END_TEST

static const struct {
	const char *doc, *text;
} wrong[] = {
	{ "{'roles':[{'command':['a'],'on_failure':'fail'}]}",
		"roles[0].on_failure: expected \"restart\" or \"fail_queue\", got \"fail\"" },
	{ "{'roles':[{'command':['a'],'on_failure':'fail_queue','leader':true}]}",
		"roles[0].on_failure: \"fail_queue\" is not for a role that leads: it is the one "
		"that would be told" },
	{ "{'roles':[{'command':['a'],'on_failure':'fail_queue','recoverable':true}]}",
		"roles[0].on_failure: \"fail_queue\" is not for a role that is `recoverable`: its "
		"loss is to be no error" },
	{ "{'roles':[{'command':['a'],'on_failure':'fail_queue','restart':{'scope':'worker'}}]}",
		"roles[0].restart.scope: \"worker\" is not for a role of `on_failure` "
		"\"fail_queue\", whose loss fails the group" },
	{ "{'roles':[{'command':['a'],'init':7}]}",
		"roles[0].init: expected a string that is not empty, got 7" },
	{ "{'mode':'pools','roles':[{'command':['a']}]}",
		"mode: expected \"group\" or \"pool\", got \"pools\"" },
	{ "{'roles':[{'command':['a']}],'queue':{'slots':0}}",
		"queue.slots: expected an integer from 1 to 1024, got 0" },
	{ "{'roles':[{'command':['a']}],'queue':{'deaths':1024}}",
		"queue.deaths: expected an integer from 0 to 1023, got 1024" },
	{ "{'roles':[{'command':['a']}],'queue':{'stall':0}}",
		"queue.stall: expected a duration greater than 0, got 0" },
	{ "{'roles':[{'command':['a']}],'queue':{'blame_limit':0,'blame_window':'1s'}}",
		"queue.blame_window: needs `blame_limit` greater than 0, the number of failures in "
		"it" },
};

START_TEST(errors_say_what_was_expected)
{
	_cleanup_json_ json_t *doc = J(wrong[_i].doc);
	struct error err = { 0 };
	struct spec *s;

	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, wrong[_i].text);
}
END_TEST

START_TEST(a_role_whose_loss_fails_the_queue_has_no_scope_worker)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'command':['a']},"
		      "{'name':'ps','command':['a'],'on_failure':'fail_queue'},"
		      "{'name':'alone','command':['a'],'on_failure':'fail_queue',"
		      "'restart':{'max':2}}],'restart':{'scope':'worker'}}");

	ck_assert(spec_scope_worker(s, &s->roles[0]));
	ck_assert(!spec_scope_worker(s, &s->roles[1]));
	ck_assert(!spec_scope_worker(s, &s->roles[2]));
}
END_TEST

#define ROLES                                                                        \
	"'roles':[{'command':['a']},{'name':'chief','command':['a'],'leader':true}," \
	"{'name':'evaluator','command':['a']},"                                      \
	"{'name':'ps','command':['a'],'on_failure':'fail_queue'},"                   \
	"{'name':'first','command':['a'],'leader':false,'init':'x'}]}"

START_TEST(a_pool_has_all_but_leaders_evaluators_and_those_that_fail_the_queue)
{
	_cleanup_(spec_freep) struct spec *pool = parse("{'mode':'pool'," ROLES);
	_cleanup_(spec_freep) struct spec *group = parse("{" ROLES);
	static const bool in_pool[] = { true, false, false, false, true };

	for (size_t i = 0; i < pool->n_roles; i++) {
		ck_assert_int_eq(spec_serves(pool, &pool->roles[i]), in_pool[i]);
		ck_assert_int_eq(spec_serves(group, &group->roles[i]), i == 4);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec_queue");
	TCase *t = tcase_create("spec_queue");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_job_that_says_nothing_of_its_queue_has_the_defaults);
	tcase_add_test(t, all_of_it_is_read_as_it_stands);
	tcase_add_test(t, the_document_with_its_defaults_is_read_as_the_same);
	tcase_add_loop_test(
		t, errors_say_what_was_expected, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(t, a_role_whose_loss_fails_the_queue_has_no_scope_worker);
	tcase_add_test(t, a_pool_has_all_but_leaders_evaluators_and_those_that_fail_the_queue);
	suite_add_tcase(s, t);
	return suite_run(s);
}
