/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml.h"
#include "common/spec/spec.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

static int parse(const char *text, size_t len, const char *name, json_t **ret, struct error *err)
{
	struct yaml_problems problems = { 0 };
	int r = yaml_parse(text, len, name, ret, &problems, err);

	ck_assert_uint_eq(problems.n, 0);
	yaml_problems_fini(&problems);
	return r;
}

/* These are read with and without libyaml. */
static const struct {
	const char *text;
	const char *json;
} json_documents[] = {
	{ "{}", "{}" },
	{ " \n\t{\"a\": [1, 2.5, \"x\", null, true]}\n", "{\"a\":[1,2.5,\"x\",null,true]}" },
	{ "{\"a\":\"\\u00e9\\ud83d\\ude00\\/\"}", "{\"a\":\"\u00e9\U0001F600/\"}" },
};

START_TEST(json_is_read)
{
	_cleanup_json_ json_t *value = NULL;
	_cleanup_free_ char *json = NULL;
	const char *text = json_documents[_i].text;

	ck_assert_int_eq(parse(text, strlen(text), "f", &value, NULL), 0);
	json = json_dumps(value, JSON_COMPACT);
	ck_assert_str_eq(json, json_documents[_i].json);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
	struct error err = { 0 };
	char *text;
	size_t len;

	ck_assert_int_eq(yaml_read("/no/such/file", &text, &len, &err), -ENOENT);
	ck_assert_str_eq(err.text, "/no/such/file: No such file or directory");
	ck_assert_int_eq(yaml_read("/", &text, &len, &err), -EISDIR);
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused)
{
	_cleanup_free_ char *text = malloc(YAML_BYTES_MAX + 1);
	struct error err = { 0 };
	json_t *value;

	memset(text, ' ', YAML_BYTES_MAX + 1);
	ck_assert_int_eq(parse(text, YAML_BYTES_MAX + 1, "f", &value, &err), -EMSGSIZE);
	ck_assert_ptr_nonnull(strstr(err.text, "f: is larger than 4194304 bytes"));
}
END_TEST

#if HAVE_YAML

static const struct {
	const char *text;
	const char *json;
} documents[] = {
	{ "a: 1", "{\"a\":1}" },
	{ "- 1\n- b", "[1,\"b\"]" },
	{ "x", "\"x\"" },
	{ "---\na: 1\n...\n", "{\"a\":1}" },
	{ "%YAML 1.1\n---\na: 1\n", "{\"a\":1}" },
	{ "# only a remark\na: b # another", "{\"a\":\"b\"}" },
	/* plain scalars */
	{ "[~, null, Null, NULL, ]", "[null,null,null,null]" },
	{ "a:", "{\"a\":null}" },
	{ "[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]" },
	{ "[yes, no, on, off, y, n, Yes, NO, tRUE]",
		"[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\",\"Yes\",\"NO\",\"tRUE\"]" },
	{ "[0, -1, +2, 022, 0o17, 0xfF, 9223372036854775807, -9223372036854775808]",
		"[0,-1,2,22,15,255,9223372036854775807,-9223372036854775808]" },
	{ "[1.5, .5, 1., 1e3, -1.5E-1, +0.25]", "[1.5,0.5,1.0,1000.0,-0.14999999999999999,0.25]" },
	{ "[0:1, 1:30, 0b1, 0o8, 0x, 1_000, 1e, e1, ., -, +, 1.2.3, 2001-01-01, =, .infinity]",
		"[\"0:1\",\"1:30\",\"0b1\",\"0o8\",\"0x\",\"1_000\",\"1e\",\"e1\",\".\",\"-\",\"+\",\"1.2.3\","
		"\"2001-01-01\",\"=\",\".infinity\"]" },
	/* quoted, block and tagged ones */
	{ "['1', \"true\", '', \"\", 'null']", "[\"1\",\"true\",\"\",\"\",\"null\"]" },
	{ "a: |\n  1\n  2\nb: >-\n  3\n  4", "{\"a\":\"1\\n2\\n\",\"b\":\"3 4\"}" },
	{ "[!!str 1, !!int '7', !!float 1, !!bool 'true', !!null '', ! '5']",
		"[\"1\",7,1.0,true,null,\"5\"]" },
	{ "!!map {a: !!seq [1]}", "{\"a\":[1]}" },
	/* keys */
	{ "{1: a, true: b, ~: c, '<<': d, 42: e}",
		"{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\",\"<<\":\"d\",\"42\":\"e\"}" },
	/* anchors */
	{ "a: &x {k: [1]}\nb: *x\nc: [*x, *x]",
		"{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":[{\"k\":[1]},{\"k\":[1]}]}" },
	{ "[&x 1, *x, &x 2, *x]", "[1,1,2,2]" },
	{ "[&x '1', *x]", "[\"1\",\"1\"]" },
	/* JSON that is YAML only */
	{ "{\"a\": 1, }", "{\"a\":1}" },
	{ "{\n\t\"a\": 1, # tabs and a remark\n}", "{\"a\":1}" },
};

START_TEST(yaml_becomes_json)
{
	_cleanup_json_ json_t *value = NULL;
	_cleanup_free_ char *json = NULL;
	struct error err = { 0 };
	const char *text = documents[_i].text;

	if (parse(text, strlen(text), "f", &value, &err) < 0)
		ck_abort_msg("%s: %s", text, err.text);
	json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	ck_assert_str_eq(json, documents[_i].json);
}
END_TEST

static const struct {
	const char *text;
	const char *error;
} refused[] = {
	{ "", "f:1:1: the file is empty" },
	{ "# remark\n", "f:2:1: the file is empty" },
	{ "a: 1\n---\nb: 2\n", "f:2:1: a second document; one is expected" },
	{ "a: &x {b: 1}\nc:\n  <<: *x\n", "f:3:3: merge keys (<<) are not part of YAML 1.2" },
	{ "a: *x", "f:1:4: no anchor of that name before this alias" },
	{ "a: &x [*x]", "f:1:8: no anchor of that name before this alias" },
	{ "? [a]\n: b", "f:1:3: a key has to be text" },
	{ "? {a: b}\n: b", "f:1:3: a key has to be text" },
	{ "&x a: 1", "f:1:1: a key cannot have an anchor here" },
	{ "\"a\\0b\": 1", "f:1:1: a key contains a NUL byte" },
	{ "a: !foo b", "f:1:4: an unknown tag" },
	{ "a: !!binary eA==", "f:1:4: the value does not have the type" },
	{ "a: !!seq {}", "f:1:4: an unknown tag" },
	{ "a: !!set {}", "f:1:4: an unknown tag" },
	{ "a: !!int x", "f:1:4: the value does not have the type" },
	{ "a: !!bool 'yes'", "f:1:4: the value does not have the type" },
	{ "a: 9223372036854775808", "f:1:4: the number does not fit 64 bits" },
	{ "a: 1e999", "f:1:4: the number is too large" },
	{ "a: .inf", "f:1:4: a number has to be finite" },
	{ "a: -.Inf", "f:1:4: a number has to be finite" },
	{ "a: .NaN", "f:1:4: a number has to be finite" },
	{ "a: [1, 2", "f:2:1: did not find expected" },
	{ "a: b: c", "f:1:5: mapping values are not allowed" },
	{ "a:\n\t- b", "f:2:1: found a tab, expected spaces: only they indent" },
	{ "a: {\xc3\xa4: @b}", "f:1:8: found @, which begins no value: write it in quotes" },
	{ "a: `b`", "f:1:4: found `, which begins no value: write it in quotes" },
	{ "a: \xff", "f: byte 3: invalid" },
	{ "a: \"\\q\"", "f:1:" },
	{ "{\"a\": 1", "f:2:1: did not find expected" },
};

START_TEST(yaml_beyond_one_plain_document_is_refused_with_its_place)
{
	const char *text = refused[_i].text;
	struct error err = { 0 };
	json_t *value = (void *)1;

	ck_assert_int_eq(parse(text, strlen(text), "f", &value, &err), -EINVAL);
	ck_assert_ptr_eq(value, (void *)1);
	if (strncmp(err.text, refused[_i].error, strlen(refused[_i].error)))
		ck_abort_msg("%s: got the error: %s", text, err.text);
}
END_TEST

START_TEST(nesting_is_limited)
{
	for (int depth = YAML_DEPTH_MAX; depth <= YAML_DEPTH_MAX + 1; depth++) {
		_cleanup_json_ json_t *value = NULL;
		char text[2 * (YAML_DEPTH_MAX + 1) + 1];
		struct error err = { 0 };
		int r;

		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		r = parse(text, 2 * depth, "f", &value, &err);
		ck_assert_int_eq(r, depth == YAML_DEPTH_MAX ? 0 : -EINVAL);
		if (r < 0)
			ck_assert_ptr_nonnull(
				strstr(err.text, "f:1:65: values are nested too deep"));
	}
}
END_TEST

START_TEST(aliases_of_aliases_do_not_fill_memory)
{
	static const char text[] = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
				   "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
				   "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
				   "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
				   "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
				   "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
	struct error err = { 0 };
	json_t *value;

	ck_assert_int_eq(parse(text, sizeof(text) - 1, "f", &value, &err), -EMSGSIZE);
	ck_assert_ptr_nonnull(strstr(err.text, "too many values"));
}
END_TEST

START_TEST(a_copy_of_an_anchor_is_independent)
{
	static const char text[] = "[&x {a: 1}, *x]";
	_cleanup_json_ json_t *value = NULL;

	ck_assert_int_eq(parse(text, sizeof(text) - 1, "f", &value, NULL), 0);
	json_object_set_new(json_array_get(value, 0), "a", json_integer(2));
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(value, 1), "a")), 1);
}
END_TEST

/* The displays of the section EXAMPLES of the reference page. */
START_TEST(the_examples_of_the_reference_page_are_right)
{
	_cleanup_file_ FILE *f = fopen("man/elasticd-job.5", "re");
	_cleanup_free_ char *text = calloc(1, 1 << 20);
	char *p;
	int n = 0;

	ck_assert_msg(f != NULL, "man/elasticd-job.5 is read from the top of the tree");
	ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, f), 0);
	p = strstr(text, "\n.Sh EXAMPLES\n");
	while ((p = strstr(p, "\n.Bd -literal")) != NULL) {
		char *begin = strchr(p + 1, '\n') + 1, *end = strstr(begin, "\n.Ed");
		_cleanup_(spec_freep) struct spec *s = NULL;
		_cleanup_json_ json_t *doc = NULL;
		struct error err = { 0 };

		if (parse(begin, end + 1 - begin, "example", &doc, &err) < 0 ||
			spec_parse(doc, &s, &err) < 0)
			ck_abort_msg("example %d: %s", n, err.text);
		p = end;
		n++;
	}
	ck_assert_int_eq(n, 3);
}
END_TEST

#else

START_TEST(without_libyaml_only_json_is_read)
{
	struct error err = { 0 };
	json_t *value;

	ck_assert_int_eq(parse("a: 1", 4, "f", &value, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "f: this elasticctl was built without YAML"));
	ck_assert_int_eq(parse("{", 1, "f", &value, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "f: line 1"));
}
END_TEST

#endif

int main(void)
{
	Suite *s = suite_create("yaml");
	TCase *t = tcase_create("yaml");

	tcase_add_loop_test(t, json_is_read, 0, N(json_documents));
	tcase_add_test(t, a_file_that_cannot_be_read_is_named);
	tcase_add_test(t, a_file_that_is_too_large_is_refused);
#if HAVE_YAML
	tcase_add_loop_test(t, yaml_becomes_json, 0, N(documents));
	tcase_add_loop_test(
		t, yaml_beyond_one_plain_document_is_refused_with_its_place, 0, N(refused));
	tcase_add_test(t, nesting_is_limited);
	tcase_add_test(t, aliases_of_aliases_do_not_fill_memory);
	tcase_add_test(t, a_copy_of_an_anchor_is_independent);
	tcase_add_test(t, the_examples_of_the_reference_page_are_right);
#else
	tcase_add_test(t, without_libyaml_only_json_is_read);
#endif
	suite_add_tcase(s, t);
	return suite_run(s);
}
