/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/export.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const caller[] = { "PATH=/bin", "HOME=/root", "PYTHONPATH=/p",
	"EMPTY=", "EQ=a=b", "BAD=\xff", "=odd", "PATHS=no", NULL };

static char *exported(const char *spec, const char *what)
{
	_cleanup_json_ json_t *j = json_loads(spec, 0, NULL);
	struct error err = { 0 };
	int r;

	ck_assert_ptr_nonnull(j);
	r = export_env(j, what, (char *const *)caller, &err);
	if (r < 0) {
		ck_assert(err.text[0]);
		return strdup("error");
	}
	return json_dumps(json_object_get(json_array_get(json_object_get(j, "roles"), 0), "env"),
		JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
}

START_TEST(export_chooses_the_callers_variables)
{
	static const struct {
		const char *own, *what, *env;
	} rows[] = {
		{ "{}", NULL, "{\"PATH\":\"/bin\",\"PYTHONPATH\":\"/p\"}" },
		{ "{\"PATH\":\"/mine\"}", NULL, "{\"PATH\":\"/mine\",\"PYTHONPATH\":\"/p\"}" },
		{ "{}", "NONE", "{}" },
		{ "{}", "HOME,NOT_THERE,EQ", "{\"EQ\":\"a=b\",\"HOME\":\"/root\"}" },
		{ "{}", "EMPTY,X=1,Y=a=b", "{\"EMPTY\":\"\",\"X\":\"1\",\"Y\":\"a=b\"}" },
		{ "{\"X\":\"own\"}", "X=1", "{\"X\":\"own\"}" },
		{ "{}", "ALL",
			"{\"EMPTY\":\"\",\"EQ\":\"a=b\",\"HOME\":\"/root\",\"PATH\":\"/bin\","
			"\"PATHS\":\"no\",\"PYTHONPATH\":\"/p\"}" },
		{ "{}", "BAD", "error" },
		{ "{}", "=x", "error" },
		{ "{}", "HOME,,EQ", "error" },
		{ "3", "HOME", "3" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_free_ char *spec = NULL, *env = NULL;

		ck_assert_int_gt(asprintf(&spec, "{\"roles\":[{\"env\":%s}]}", rows[i].own), 0);
		env = exported(spec, rows[i].what);
		ck_assert_msg(!strcmp(env, rows[i].env), "row %zu: %s", i, env);
	}
}
END_TEST

START_TEST(every_role_gets_it_and_odd_documents_are_left_alone)
{
	_cleanup_json_ json_t *j = json_loads("{\"roles\":[{},{\"name\":\"b\"},7]}", 0, NULL);
	_cleanup_json_ json_t *odd = json_loads("{\"roles\":7}", 0, NULL);
	json_t *second;

	ck_assert_int_eq(export_env(j, NULL, (char *const *)caller, NULL), 0);
	second = json_array_get(json_object_get(j, "roles"), 1);
	ck_assert_ptr_nonnull(json_object_get(json_object_get(second, "env"), "PATH"));
	ck_assert_int_eq(export_env(odd, NULL, (char *const *)caller, NULL), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("export");
	TCase *tc = tcase_create("export");

	tcase_add_test(tc, export_chooses_the_callers_variables);
	tcase_add_test(tc, every_role_gets_it_and_odd_documents_are_left_alone);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
