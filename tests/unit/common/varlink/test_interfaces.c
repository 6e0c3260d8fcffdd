/* SPDX-License-Identifier: Apache-2.0 */
/* A server that has several interfaces, and what is called before its answers leave. */
#include "tests/unit/varlink_demo.h"

#include "common/text/json_flat.h"
#include "common/varlink/idl.h"
#include "common/varlink/queue_idl.h"
#include "common/varlink/queue_ranges.h"
#include "tests/unit/run.h"

#define OTHER "org.test.other."

static const char other_idl[] = "interface org.test.other\n"
				"method Add(n: int, m: ?int) -> (sum: int)\n"
				"method Refuse() -> ()\n"
				"method Fail() -> ()\n"
				"error Refused (message: string)\n"
				"error ResourceExhausted (message: string, limit: int)\n"
				"error Internal (message: string, errno: ?int)\n";
static const char third_idl[] = "interface org.test.demo.third\n"
				"method Echo(text: string, n: ?int) -> (text: string)\n"
				"error ResourceExhausted (message: string, limit: int)\n";

static int base, n_in_place, n_authorized, n_leaving;
static bool refuse;
static char asked[64];

static int other_add(struct varlink_call *call, const struct flat *p, void *arg)
{
	return varlink_reply(
		call, json_pack("{s:I}", "sum", (json_int_t)(flat_int(p, "n", 0) + *(int *)arg)));
}

static int other_refuse(struct varlink_call *call, json_t *p, void *arg)
{
	return varlink_error(call, "Refused", json_pack("{s:s}", "message", "no"));
}

static int other_fail(struct varlink_call *call, json_t *p, void *arg)
{
	return -ENOSPC;
}

static const struct varlink_method other_methods[] = {
	{ "Refuse", other_refuse },
	{ "Fail", other_fail },
	{ NULL, NULL },
};
static const struct varlink_flat_method other_flat[] = { { "Add", other_add }, { NULL, NULL } };
static const struct varlink_range other_ranges[] = { { "n", 0, 10 }, { NULL, 0, 0 } };
static const struct varlink_method third_methods[] = { { "Echo", demo_echo }, { NULL, NULL } };

static const struct varlink_interface_options more[] = {
	{ .idl = other_idl,
		.methods = other_methods,
		.flat = other_flat,
		.ranges = other_ranges,
		.arg = &base },
	{ .idl = third_idl, .methods = third_methods },
	{ .idl = NULL },
};

static int authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	ck_assert_ptr_eq(arg, &refuse);
	n_authorized++;
	n_in_place += !p;
	snprintf(asked, sizeof(asked), "%s.%s", varlink_call_interface(call), method);
	if (refuse)
		varlink_error(call, "Refused", json_pack("{s:s}", "message", "go away"));
	return refuse;
}

static void leaving(void *arg)
{
	n_leaving++;
}

static int peer;

static void setup(void)
{
	struct varlink_options opt = demo_options();

	opt.more_interfaces = more;
	opt.authorize = authorize;
	opt.leaving = leaving;
	opt.limits.message_bytes = 4096;
	opt.arg = &refuse;
	base = 100;
	n_in_place = n_authorized = n_leaving = 0;
	refuse = false;
	demo_start(&opt);
	varlink_server_check_replies(server, true);
	peer = new_peer();
}

static void teardown(void)
{
	close(peer);
	demo_stop();
}

START_TEST(each_interface_has_its_own_methods_and_argument)
{
	call_method(peer, DEMO "Echo", "{'text':'a'}", "");
	call_method(peer, OTHER "Add", "{'n':1,'m':null}", ",'more':false");
	call_method(peer, "org.test.demo.third.Echo", "{'text':'b'}", "");
	ck_assert_str_eq(hear(peer), "{'parameters':{'text':'a'}}\n{'parameters':{'sum':101}}\n"
				     "{'parameters':{'text':'b'}}\n");
	ck_assert_str_eq(asked, "org.test.demo.third.Echo");
	ck_assert_int_eq(n_authorized, 3);
}
END_TEST

START_TEST(the_short_way_is_found_in_each)
{
	call_method(peer, OTHER "Add", "{'n':2}", "");
	ck_assert_str_eq(hear(peer), "{'parameters':{'sum':102}}\n");
	ck_assert_int_eq(n_in_place, 1);
	/* The same handler gets the others. */
	call_method(peer, OTHER "Add", "{'n':3}", ",'more':true");
	ck_assert_str_eq(hear(peer), "{'parameters':{'sum':103}}\n");
	ck_assert_int_eq(n_in_place, 1);
	ck_assert_str_eq(asked, "org.test.other.Add");
}
END_TEST

START_TEST(ranges_are_those_of_the_interface)
{
	call_method(peer, OTHER "Add", "{'n':11}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "InvalidParameter"));
	call_method(peer, DEMO "Echo", "{'text':'a','n':11}", "");
	ck_assert_str_eq(hear(peer), "{'parameters':{'text':'a'}}\n");
}
END_TEST

START_TEST(errors_are_of_the_interface_of_the_call)
{
	call_method(peer, OTHER "Refuse", "{}", "");
	ck_assert_str_eq(
		hear(peer), "{'error':'org.test.other.Refused','parameters':{'message':'no'}}\n");
	call_method(peer, OTHER "Fail", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "{'error':'org.test.other.Internal'"));
	call_method(peer, DEMO "Fail", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "{'error':'org.test.demo.Internal'"));
	refuse = true;
	call_method(peer, OTHER "Add", "{'n':2}", "");
	ck_assert_str_eq(hear(peer),
		"{'error':'org.test.other.Refused','parameters':{'message':'go away'}}\n");
}
END_TEST

START_TEST(the_service_knows_all_of_them)
{
	const char *text;

	call_method(peer, "org.varlink.service.GetInfo", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer),
		"['org.varlink.service','org.test.demo','org.test.other','org.test.demo.third']"));
	call_method(peer, "org.varlink.service.GetInterfaceDescription",
		"{'interface':'org.test.other'}", "");
	text = hear(peer);
	ck_assert_ptr_nonnull(strstr(text, "interface org.test.other\\nmethod Add("));
	call_method(peer, "org.test.nothing.Add", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "InterfaceNotFound"));
	call_method(peer, OTHER "Echo", "{}", "");
	ck_assert_ptr_nonnull(strstr(hear(peer), "MethodNotFound"));
	ck_assert_int_eq(n_authorized, 0);
}
END_TEST

static void say_much(int fd, const char *colon, const char *method)
{
	char text[8192];
	int n = snprintf(text, sizeof(text), "{\"method\"%s\"%s\",\"parameters\":{\"text\":\"",
		colon, method);

	memset(text + n, 'x', sizeof(text) - (size_t)n);
	say_bytes(fd, text, sizeof(text));
}

START_TEST(a_message_that_is_too_long_gets_the_error_of_its_interface)
{
	say_much(peer, ":", OTHER "Add");
	ck_assert_str_eq(hear(peer), "{'error':'org.test.other.ResourceExhausted',"
				     "'parameters':{'message':'the limit of 4096 message_bytes is "
				     "reached','limit':4096}}\nEOF");
	close(peer);
	peer = new_peer();
	say_much(peer, " :  ", "org.test.demo.third.Echo");
	ck_assert_ptr_nonnull(
		strstr(hear(peer), "{'error':'org.test.demo.third.ResourceExhausted'"));
	close(peer);
	peer = new_peer();
	say_much(peer, ":", "none");
	ck_assert_ptr_nonnull(strstr(hear(peer), "{'error':'org.test.demo.ResourceExhausted'"));
}
END_TEST

START_TEST(it_is_said_before_answers_leave)
{
	ck_assert_int_eq(n_leaving, 0);
	for (int i = 0; i < 5; i++)
		call_method(peer, OTHER "Add", "{'n':2}", "");
	call_method(peer, DEMO "Keep", "{}", "");
	hear(peer);
	ck_assert_int_eq(n_leaving, 1);
	call_method(peer, OTHER "Add", "{'n':2}", ",'oneway':true");
	hear(peer);
	ck_assert_int_eq(n_leaving, 1);
	answer_kept(0, "k");
	ck_assert_int_eq(n_leaving, 1);
	hear(peer);
	ck_assert_int_eq(n_leaving, 2);
}
END_TEST

/* As a relay to several places pauses the connections that have sent too much. */
START_TEST(later_calls_do_not_keep_the_first_waiting)
{
	static char text[1 << 20];

	memset(text, 'x', sizeof(text) - 1);
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	call_method(peer, DEMO "Keep", "{}", ",'more':true");
	turn();
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(varlink_notify(kept[1], json_pack("{s:s}", "key", text)), 0);
	ck_assert(varlink_call_congested(kept[1], NULL, NULL));
	ck_assert(!varlink_call_congested(kept[0], NULL, NULL));
}
END_TEST

START_TEST(a_wrong_interface_among_them_is_refused)
{
	const struct varlink_interface_options wrong[] = { more[0],
		{ .idl = "interface org.test.x\nmethod A() -> ()", .methods = third_methods },
		{ .idl = NULL } };
	struct varlink_options opt = demo_options();
	struct varlink_server *s = NULL;

	opt.more_interfaces = wrong;
	ck_assert_int_eq(varlink_server_new(loop, &opt, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, "org.test.x has no method Echo");
	ck_assert_ptr_null(s);
}
END_TEST

static bool has_field(const struct varlink_idl *idl, const char *name)
{
	for (size_t i = 0; i < idl->n_members; i++) {
		const struct varlink_type *t = &idl->members[i].type;

		for (size_t k = 0; idl->members[i].kind == VARLINK_METHOD && k < t->n_fields; k++)
			if (!strcmp(t->fields[k].name, name) &&
				t->fields[k].type.kind == VARLINK_INT)
				return true;
	}
	return false;
}

START_TEST(each_integer_of_the_queue_has_its_range)
{
	struct varlink_idl *idl = NULL;

	ck_assert_msg(varlink_idl_parse(queue_idl, &idl, &err) == 0, "%s", err.text);
	ck_assert_str_eq(idl->name, "io.elasticd.Queue");
	for (const struct varlink_range *r = queue_ranges; r->parameter; r++)
		ck_assert_msg(has_field(idl, r->parameter), "%s", r->parameter);
	for (size_t i = 0; i < idl->n_members; i++) {
		const struct varlink_type *t = &idl->members[i].type;

		for (size_t k = 0; idl->members[i].kind == VARLINK_METHOD && k < t->n_fields; k++) {
			const struct varlink_range *r = queue_ranges;

			if (t->fields[k].type.kind != VARLINK_INT)
				continue;
			while (r->parameter && strcmp(r->parameter, t->fields[k].name))
				r++;
			ck_assert_msg(r->parameter, "%s", t->fields[k].name);
		}
	}
	varlink_idl_free(idl);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_interfaces");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_interface_has_its_own_methods_and_argument);
	tcase_add_test(t, the_short_way_is_found_in_each);
	tcase_add_test(t, ranges_are_those_of_the_interface);
	tcase_add_test(t, errors_are_of_the_interface_of_the_call);
	tcase_add_test(t, the_service_knows_all_of_them);
	tcase_add_test(t, a_message_that_is_too_long_gets_the_error_of_its_interface);
	tcase_add_test(t, it_is_said_before_answers_leave);
	tcase_add_test(t, later_calls_do_not_keep_the_first_waiting);
	tcase_add_test(t, a_wrong_interface_among_them_is_refused);
	tcase_add_test(t, each_integer_of_the_queue_has_its_range);
	suite_add_tcase(s, t);
	return suite_run(s);
}
