/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/validate.h"

#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static const char text[] = "interface a.b\n"
			   "type All (b: ?bool, i: ?int, f: ?float, s: ?string, o: ?object,\n"
			   "  e: ?(one, two), a: ?[]int, m: ?[string]int, na: ?[]?int,\n"
			   "  nested: ?[](x: [string](y: int)), self: ?All)\n"
			   "type Needs (job: string, how: (fast, slow), n: int, t: All)\n";

static struct varlink_idl *idl;
static struct error err;

static void setup(void)
{
	ck_assert_int_eq(varlink_idl_parse(text, &idl, &err), 0);
}

static void teardown(void)
{
	idl = varlink_idl_free(idl);
}

static int check(const char *type, const char *json)
{
	_cleanup_json_ json_t *j = NULL;

	err = (struct error){ 0 };
	ck_assert_int_eq(json_parse(json, strlen(json), &j, NULL), 0);
	return varlink_validate(
		&varlink_idl_member(idl, VARLINK_TYPE, type)->type, j, "parameters", &err);
}

static void assert_refused(
	const char *type, const char *json, const char *field, const char *message)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "%s: %s", field, message);
	ck_assert_int_eq(check(type, json), -EINVAL);
	ck_assert_str_eq(err.field, field);
	ck_assert_str_eq(err.text, expected);
}

START_TEST(an_answer_may_know_more_and_its_types_are_checked_all_the_same)
{
	static const char *const good[] = { "{}", "{\"new\":{}}", "{\"e\":\"three\"}",
		"{\"nested\":[{\"x\":{\"k\":{\"y\":1,\"z\":[]}}}]}", "{\"self\":{\"new\":1}}" };
	static const char *const bad[] = { "[]", "{\"i\":\"1\"}", "{\"e\":3}", "{\"a\":[\"1\"]}",
		"{\"m\":{\"k\":\"1\"}}", "{\"nested\":[{\"x\":{\"k\":{}}}]}",
		"{\"self\":{\"new\":1,\"s\":2}}" };
	const struct varlink_type *all = &varlink_idl_member(idl, VARLINK_TYPE, "All")->type;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		_cleanup_json_ json_t *j = json_loads(good[i], 0, NULL);

		ck_assert_msg(varlink_validate_answer(all, j, "a", &err) == 0, "%s", err.text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		_cleanup_json_ json_t *j = json_loads(bad[i], 0, NULL);

		ck_assert_msg(varlink_validate_answer(all, j, "a", &err) == -EINVAL, "%s", bad[i]);
	}
}
END_TEST

START_TEST(values_of_each_type_are_accepted)
{
	static const char *const good[] = { "{}", "{\"b\":true}", "{\"b\":false}", "{\"i\":-5}",
		"{\"i\":9223372036854775807}", "{\"f\":1.5}", "{\"f\":1}", "{\"s\":\"\"}",
		"{\"o\":{\"any\":[1,{}]}}", "{\"e\":\"two\"}", "{\"a\":[]}", "{\"a\":[1,2]}",
		"{\"m\":{}}", "{\"m\":{\"k\":1}}", "{\"na\":[null,1]}",
		"{\"nested\":[{\"x\":{\"k\":{\"y\":1}}}]}", "{\"self\":{\"self\":{\"i\":1}}}",
		"{\"b\":null,\"i\":null,\"f\":null,\"s\":null,\"o\":null,\"e\":null,\"a\":null,"
		"\"m\":null,\"na\":null,\"nested\":null,\"self\":null}" };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		ck_assert_msg(check("All", good[i]) == 0, "%s: %s", good[i], err.text);
	ck_assert_int_eq(check("Needs", "{\"job\":\"x\",\"how\":\"fast\",\"n\":0,\"t\":{}}"), 0);
}
END_TEST

START_TEST(wrong_types_are_named_with_what_was_expected_and_found)
{
	assert_refused("All", "{\"b\":1}", "parameters.b", "expected a boolean, got an integer");
	assert_refused("All", "{\"i\":1.0}", "parameters.i", "expected an integer, got a number");
	assert_refused("All", "{\"i\":\"1\"}", "parameters.i", "expected an integer, got \"1\"");
	assert_refused("All", "{\"i\":true}", "parameters.i", "expected an integer, got a boolean");
	assert_refused("All", "{\"f\":\"x\"}", "parameters.f", "expected a number, got \"x\"");
	assert_refused("All", "{\"s\":[]}", "parameters.s", "expected a string, got an array");
	assert_refused("All", "{\"o\":[]}", "parameters.o", "expected an object, got an array");
	assert_refused("All", "{\"e\":\"three\"}", "parameters.e",
		"expected one of one, two, got \"three\"");
	assert_refused(
		"All", "{\"e\":1}", "parameters.e", "expected one of one, two, got an integer");
	assert_refused("All", "{\"a\":{}}", "parameters.a", "expected an array, got an object");
	assert_refused("All", "{\"m\":[]}", "parameters.m", "expected an object, got an array");
	assert_refused("All", "[]", "parameters", "expected an object, got an array");
}
END_TEST

START_TEST(the_path_leads_to_the_offender)
{
	assert_refused(
		"All", "{\"a\":[1,2,\"x\"]}", "parameters.a[2]", "expected an integer, got \"x\"");
	assert_refused("All", "{\"a\":[null]}", "parameters.a[0]", "expected an integer, got null");
	assert_refused("All", "{\"m\":{\"k\":{}}}", "parameters.m.k",
		"expected an integer, got an object");
	assert_refused("All", "{\"nested\":[{\"x\":{}},{\"x\":{\"k\":{\"y\":\"z\"}}}]}",
		"parameters.nested[1].x.k.y", "expected an integer, got \"z\"");
	assert_refused("All", "{\"self\":{\"self\":{\"i\":\"\"}}}", "parameters.self.self.i",
		"expected an integer, got \"\"");
}
END_TEST

START_TEST(missing_and_unknown_members_are_named)
{
	assert_refused("Needs", "{}", "parameters.job", "missing, expected a string");
	assert_refused("Needs", "{\"job\":\"x\"}", "parameters.how",
		"missing, expected one of fast, slow");
	assert_refused("Needs", "{\"job\":null}", "parameters.job", "expected a string, got null");
	assert_refused("Needs", "{\"job\":\"x\",\"how\":\"fast\",\"n\":1,\"t\":{},\"Job\":1}",
		"parameters.Job", "unknown, expected one of: job, how, n, t");
	assert_refused("Needs", "{\"job\":\"x\",\"how\":\"fast\",\"n\":1,\"t\":{\"z\":null}}",
		"parameters.t.z",
		"unknown, expected one of: b, i, f, s, o, e, a, m, na, nested, self");
}
END_TEST

static void assert_in_range(const char *value, bool deep, const char *field, const char *why)
{
	static const struct varlink_range ranges[] = { { "n", 1, 9 }, { "rank", 0, 3 },
		{ NULL, 0, 0 } };
	_cleanup_json_ json_t *j = json_loads(value, 0, NULL);
	char expected[256];

	ck_assert_ptr_nonnull(j);
	err = (struct error){ 0 };
	ck_assert_int_eq(
		varlink_validate_ranges(ranges, j, "parameters", deep, &err), field ? -EINVAL : 0);
	snprintf(expected, sizeof(expected), "%s: %s", field ? field : "", field ? why : "");
	ck_assert_str_eq(err.text, field ? expected : "");
	ck_assert_str_eq(err.field, field ? field : "");
}

START_TEST(integers_out_of_range_are_named_at_any_depth_where_asked)
{
	static const char within[] = "{\"n\":1,\"a\":[{\"rank\":3},{\"rank\":4}],\"m\":{\"n\":0}}";

	assert_in_range("{\"n\":9,\"rank\":0,\"x\":-1,\"l\":[77]}", true, NULL, NULL);
	assert_in_range("{\"n\":\"0\"}", true, NULL, NULL);
	assert_in_range("{\"n\":0}", false, "parameters.n", "expected 1 to 9, got 0");
	assert_in_range("{\"rank\":4}", true, "parameters.rank", "expected 0 to 3, got 4");
	assert_in_range(within, false, NULL, NULL);
	assert_in_range(within, true, "parameters.a[1].rank", "expected 0 to 3, got 4");
	assert_in_range("{\"m\":{\"n\":0}}", true, "parameters.m.n", "expected 1 to 9, got 0");
	ck_assert_int_eq(varlink_validate_ranges(NULL, NULL, "parameters", true, &err), 0);
}
END_TEST

START_TEST(over_long_names_are_cut_and_not_overrun)
{
	_cleanup_json_ json_t *j = json_object();
	json_t *m = json_object();
	char key[1000], value[5000];

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	json_put_string(m, key, value);
	json_put(j, "m", m);
	ck_assert_int_eq(varlink_validate(&varlink_idl_member(idl, VARLINK_TYPE, "All")->type, j,
				 "parameters", &err),
		-EINVAL);
	ck_assert_uint_eq(strlen(err.field), sizeof(err.field) - 1);
	ck_assert_uint_lt(strlen(err.text), 400);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_validate");
	TCase *t = tcase_create("varlink_validate");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, values_of_each_type_are_accepted);
	tcase_add_test(t, an_answer_may_know_more_and_its_types_are_checked_all_the_same);
	tcase_add_test(t, wrong_types_are_named_with_what_was_expected_and_found);
	tcase_add_test(t, the_path_leads_to_the_offender);
	tcase_add_test(t, missing_and_unknown_members_are_named);
	tcase_add_test(t, integers_out_of_range_are_named_at_any_depth_where_asked);
	tcase_add_test(t, over_long_names_are_cut_and_not_overrun);
	suite_add_tcase(s, t);
	return suite_run(s);
}
