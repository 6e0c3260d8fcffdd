/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/spec_diff.h"

#include "common/spec/spec.h"
#include "common/text/json.h"
#include "tests/unit/run.h"

#include <check.h>
#include <string.h>

/* The specification with its defaults, as the verb has it; quotes are single ones. */
static json_t *full(const char *text)
{
	_cleanup_free_ char *quoted = strdup(text);
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct error err = { 0 };

	for (char *c = quoted; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	ck_assert_msg(spec_parse_text(quoted, strlen(quoted), &spec, &err) == 0, "%s", err.text);
	return spec_to_json(spec);
}

static json_t *difference(const char *old, const char *new)
{
	_cleanup_json_ json_t *a = full(old), *b = full(new);
	json_t *rows = spec_diff(a, b);

	ck_assert_ptr_nonnull(rows);
	return rows;
}

/* The i-th row is path, with these values as JSON; "" for none. */
static void check_row(
	const json_t *rows, size_t i, const char *path, const char *old, const char *new)
{
	const json_t *row = json_array_get(rows, i);
	const char *const sides[] = { "old", "new" }, *const expected[] = { old, new };

	ck_assert_str_eq(json_get_string(row, "path", ""), path);
	for (int side = 0; side < 2; side++) {
		const json_t *value = json_object_get(row, sides[side]);
		_cleanup_free_ char *text =
			value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("");

		ck_assert_str_eq(text, expected[side]);
	}
}

START_TEST(a_specification_does_not_differ_from_itself)
{
	const char *text = "{'roles':[{'command':['a'],'env':{'A':'1'}}],'restart':{'max':3}}";
	_cleanup_json_ json_t *rows = difference(text, text);

	ck_assert_uint_eq(json_array_size(rows), 0);
	json_decref(rows);
	/* A default that is written out is no difference. */
	rows = difference("{'roles':[{'command':['a']}]}",
		"{'roles':[{'command':['a'],'replicas':1}],'stop':{'timeout':'30s'}}");
	ck_assert_uint_eq(json_array_size(rows), 0);
}
END_TEST

START_TEST(keys_are_named_by_their_paths)
{
	_cleanup_json_ json_t *rows = difference(
		"{'roles':[{'command':['a']}],'restart':{'max':3}}",
		"{'roles':[{'command':['a','b']}],'restart':{'max':5},'max_run_time':'1h'}");

	ck_assert_uint_eq(json_array_size(rows), 3);
	check_row(rows, 0, "roles[worker].command", "[\"a\"]", "[\"a\",\"b\"]");
	check_row(rows, 1, "restart.max", "3", "5");
	check_row(rows, 2, "max_run_time", "", "\"1h\"");
}
END_TEST

START_TEST(values_that_are_defaults_are_named_so)
{
	_cleanup_json_ json_t *rows = difference("{'roles':[{'command':['a']}]}",
		"{'roles':[{'command':['a'],'replicas':2}],'restart':{'max':5}}");

	check_row(rows, 0, "roles[worker].replicas", "1", "2");
	check_row(rows, 1, "restart.max", "0", "5");
	for (size_t i = 0; i < 2; i++) {
		const json_t *row = json_array_get(rows, i);

		ck_assert(json_get_bool(row, "old_default", false));
		ck_assert(!json_get_bool(row, "new_default", false));
	}
}
END_TEST

START_TEST(roles_are_matched_by_their_names_in_any_order)
{
	_cleanup_json_ json_t *rows =
		difference("{'roles':[{'name':'ps','command':['p']},{'name':'w','command':['a']}]}",
			"{'roles':[{'name':'w','command':['a']},{'name':'ps','command':['q']}]}");

	ck_assert_uint_eq(json_array_size(rows), 1);
	check_row(rows, 0, "roles[ps].command", "[\"p\"]", "[\"q\"]");
	json_decref(rows);
	rows = difference("{'roles':[{'name':'w','command':['a']}]}",
		"{'roles':[{'name':'w','command':['a']},{'name':'ps','command':['q']}]}");
	ck_assert_uint_eq(json_array_size(rows), 1);
	ck_assert_str_eq(json_get_string(json_array_get(rows, 0), "path", ""), "roles[ps]");
	ck_assert_ptr_null(json_object_get(json_array_get(rows, 0), "old"));
	json_decref(rows);
	/* The only one was given another name. */
	rows = difference("{'roles':[{'name':'w','command':['a']}]}",
		"{'roles':[{'name':'v','command':['a']}]}");
	ck_assert_uint_eq(json_array_size(rows), 1);
	check_row(rows, 0, "roles[w].name", "\"w\"", "\"v\"");
}
END_TEST

START_TEST(environment_variables_are_compared_one_by_one)
{
	_cleanup_json_ json_t *rows =
		difference("{'roles':[{'command':['a'],'env':{'A':'1','B':'1'}}]}",
			"{'roles':[{'command':['a'],'env':{'A':'2','C':'1'}}]}");

	ck_assert_uint_eq(json_array_size(rows), 3);
	check_row(rows, 0, "roles[worker].env.A", "\"1\"", "\"2\"");
	check_row(rows, 1, "roles[worker].env.B", "\"1\"", "");
	check_row(rows, 2, "roles[worker].env.C", "", "\"1\"");
}
END_TEST

START_TEST(of_a_run_only_the_names_of_variables_are_compared)
{
	_cleanup_json_ json_t *file = full("{'roles':[{'command':['a'],'env':{'A':'1','B':'1'}}]}");
	_cleanup_json_ json_t *run = json_deep_copy(file), *rows = NULL;

	json_object_set_new(json_array_get(json_object_get(run, "roles"), 0), "env",
		json_pack("[s, s]", "A", "C"));
	rows = spec_diff(file, run);
	ck_assert_uint_eq(json_array_size(rows), 2);
	check_row(rows, 0, "roles[worker].env.B", "\"set\"", "");
	check_row(rows, 1, "roles[worker].env.C", "", "\"set\"");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec_diff");
	TCase *tc = tcase_create("all");

	tcase_add_test(tc, a_specification_does_not_differ_from_itself);
	tcase_add_test(tc, keys_are_named_by_their_paths);
	tcase_add_test(tc, values_that_are_defaults_are_named_so);
	tcase_add_test(tc, roles_are_matched_by_their_names_in_any_order);
	tcase_add_test(tc, environment_variables_are_compared_one_by_one);
	tcase_add_test(tc, of_a_run_only_the_names_of_variables_are_compared);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
