/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/idl.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/peer_idl.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct varlink_idl *idl;
static struct error err;

static void teardown(void)
{
	idl = varlink_idl_free(idl);
}

static void parse(const char *text)
{
	int r;

	err = (struct error){ 0 };
	r = varlink_idl_parse(text, &idl, &err);
	ck_assert_msg(r == 0, "%s", err.text);
}

/* Parses "interface a.b" and the rest, which must fail with exactly that text. */
static void assert_error(const char *rest, const char *expected)
{
	char text[2048];

	snprintf(text, sizeof(text), "interface a.b\n%s", rest);
	err = (struct error){ 0 };
	ck_assert_int_eq(varlink_idl_parse(text, &idl, &err), -EINVAL);
	ck_assert_ptr_null(idl);
	ck_assert_str_eq(err.text, expected);
}

static const struct varlink_type *field(const struct varlink_type *t, const char *name)
{
	for (size_t i = 0; i < t->n_fields; i++)
		if (!strcmp(t->fields[i].name, name))
			return &t->fields[i].type;
	ck_abort_msg("no field %s", name);
	return NULL;
}

START_TEST(members_are_found_by_kind_and_name)
{
	const struct varlink_member *m;

	parse("# comment\ninterface org.example-1.x2 # more\n"
	      "method Go(a: int) -> (b: string)\ntype Go (x: bool)\nerror Go ()#end");
	ck_assert_str_eq(idl->name, "org.example-1.x2");
	ck_assert_uint_eq(idl->n_members, 3);
	m = varlink_idl_member(idl, VARLINK_METHOD, "Go");
	ck_assert_int_eq(field(&m->type, "a")->kind, VARLINK_INT);
	ck_assert_int_eq(field(&m->out, "b")->kind, VARLINK_STRING);
	m = varlink_idl_member(idl, VARLINK_TYPE, "Go");
	ck_assert_int_eq(field(&m->type, "x")->kind, VARLINK_BOOL);
	m = varlink_idl_member(idl, VARLINK_ERROR, "Go");
	ck_assert_int_eq(m->type.kind, VARLINK_STRUCT);
	ck_assert_uint_eq(m->type.n_fields, 0);
	ck_assert_ptr_null(varlink_idl_member(idl, VARLINK_METHOD, "go"));
}
END_TEST

START_TEST(every_kind_of_type_is_understood)
{
	const struct varlink_type *t, *u;

	parse("interface a.b\n"
	      "type All (b: bool, i: int, f: float, s: string, o: object, e: (x, y_z, w1),\n"
	      "  st: (in: (deep: ?int)), a: []int, m: [string]?string, n: ?All, l: []?[string][]Later,\n"
	      "  empty: (), type: string, method: ?(one))\n"
	      "type Later (a, b)\n");
	t = &varlink_idl_member(idl, VARLINK_TYPE, "All")->type;
	ck_assert_int_eq(field(t, "f")->kind, VARLINK_FLOAT);
	ck_assert_int_eq(field(t, "o")->kind, VARLINK_OBJECT);
	ck_assert_int_eq(field(t, "e")->kind, VARLINK_ENUM);
	ck_assert_uint_eq(field(t, "e")->n_fields, 3);
	ck_assert_str_eq(field(t, "e")->fields[1].name, "y_z");
	ck_assert(field(field(field(t, "st"), "in"), "deep")->nullable);
	ck_assert_int_eq(field(t, "a")->kind, VARLINK_ARRAY);
	ck_assert_int_eq(field(t, "a")->element->kind, VARLINK_INT);
	ck_assert_int_eq(field(t, "m")->kind, VARLINK_MAP);
	ck_assert(field(t, "m")->element->nullable);
	ck_assert_ptr_eq(field(t, "n")->target, t);
	u = field(t, "l")->element;
	ck_assert(u->nullable);
	ck_assert_int_eq(u->kind, VARLINK_MAP);
	ck_assert_ptr_eq(
		u->element->element->target, &varlink_idl_member(idl, VARLINK_TYPE, "Later")->type);
	ck_assert_int_eq(field(t, "empty")->kind, VARLINK_STRUCT);
	ck_assert_int_eq(field(t, "method")->kind, VARLINK_ENUM);
}
END_TEST

START_TEST(errors_name_line_column_and_what_was_found)
{
	assert_error("type A (\n  a int)", "line 3, column 5: expected ',' or ')', got 'int'");
	assert_error("type A (a: int,\n  b int)", "line 3, column 5: expected ':', got 'int'");
	assert_error("type A (a: int", "line 2, column 15: expected ',' or ')', got the end");
	assert_error("type a ()",
		"line 2, column 6: expected a name that begins with a capital, got 'a'");
	assert_error(
		"frob A ()", "line 2, column 1: expected 'type', 'method' or 'error', got 'frob'");
	assert_error("method M() (a: int)", "line 2, column 12: expected '->', got '('");
	assert_error("method M()->(a, b)",
		"line 2, column 13: expected fields with their types, got '('");
	assert_error("type A (a: Missing)", "line 2, column 12: there is no type 'Missing'");
	assert_error("type A (a: integer)", "line 2, column 12: expected a type, got 'integer'");
	assert_error("type A (a: ??int)", "line 2, column 13: expected a type, got '?'");
	assert_error("type A (a: [int]string)", "line 2, column 13: expected ']', got 'int'");
	assert_error("type A (a: int, a: int)",
		"line 2, column 17: expected another name than the one that is taken, got 'a'");
	assert_error("type A ()\ntype A ()",
		"line 3, column 6: expected another name than the one that is taken, got 'A'");
	assert_error("type A (a, b: int)", "line 2, column 13: expected ',' or ')', got ':'");
	assert_error("type A (a,)", "line 2, column 11: expected a field's name, got ')'");
	assert_error("type A_B ()",
		"line 2, column 6: expected a name that begins with a capital, got 'A_B'");
	assert_error("type A (a__b)", "line 2, column 9: expected a field's name, got 'a__b'");
	assert_error("type A (a_)", "line 2, column 9: expected a field's name, got 'a_'");
	assert_error("type A (_a)", "line 2, column 9: expected a field's name, got '_a'");
	assert_error("type A int", "line 2, column 8: expected '(', got 'int'");
}
END_TEST

START_TEST(names_of_interfaces_follow_the_rules)
{
	static const char *const bad[] = { "", "a", "1a.b", "a..b", "a.b.", ".a.b", "a.-b", "a-.b",
		"a.b-", "a_b.c", "a.b_c", "a/b" };
	char text[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "interface %s\nmethod X() -> ()", bad[i]);
		ck_assert_msg(
			varlink_idl_parse(text, &idl, &err) == -EINVAL, "accepted: %s", bad[i]);
	}
	parse("interface a.1-b.c--d");
	ck_assert_str_eq(idl->name, "a.1-b.c--d");
}
END_TEST

START_TEST(nesting_is_limited)
{
	char text[512] = "interface a.b\ntype A (a: ";
	size_t n = strlen(text);

	for (int i = 0; i < 31; i++)
		strcat(text, "[]");
	strcat(text, "int)");
	parse(text);
	teardown();
	text[n] = '\0';
	for (int i = 0; i < 32; i++)
		strcat(text, "[]");
	strcat(text, "int)");
	ck_assert_int_eq(varlink_idl_parse(text, &idl, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "nested deeper than 32"));
}
END_TEST

START_TEST(the_manager_interface_parses)
{
	parse(manager_idl);
	ck_assert_str_eq(idl->name, "io.elasticd.Manager");
	ck_assert_ptr_nonnull(varlink_idl_member(idl, VARLINK_METHOD, "Start"));
}
END_TEST

START_TEST(the_peer_interface_has_only_messages_without_answers)
{
	int n = 0;

	parse(peer_idl);
	ck_assert_str_eq(idl->name, "io.elasticd.Peer");
	for (size_t i = 0; i < idl->n_members; i++) {
		ck_assert_int_ne(idl->members[i].kind, VARLINK_ERROR);
		if (idl->members[i].kind != VARLINK_METHOD)
			continue;
		ck_assert_uint_eq(idl->members[i].out.n_fields, 0);
		n++;
	}
	ck_assert_int_eq(n, 44);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_idl");
	TCase *t = tcase_create("varlink_idl");

	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_test(t, members_are_found_by_kind_and_name);
	tcase_add_test(t, every_kind_of_type_is_understood);
	tcase_add_test(t, errors_name_line_column_and_what_was_found);
	tcase_add_test(t, names_of_interfaces_follow_the_rules);
	tcase_add_test(t, nesting_is_limited);
	tcase_add_test(t, the_manager_interface_parses);
	tcase_add_test(t, the_peer_interface_has_only_messages_without_answers);
	suite_add_tcase(s, t);
	return suite_run(s);
}
