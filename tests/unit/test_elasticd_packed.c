/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of bindings: into memory that is there, many packed into one. */
#include "tests/unit/fake_agent.h"

enum { MANY = 300, PUT = ELASTICD_PUT, GET = ELASTICD_GET, DELETE = ELASTICD_DELETE };

static struct elasticd *h;
static struct elasticd_op *ops;
static char buffer[64];
static int64_t said[MANY];

static void setup(void)
{
	unsetenv("ELASTICD_WORKER_SOCKET");
	ck_assert_int_eq(elasticd_open(&h), 0);
	ops = NULL;
	memset(buffer, 'x', sizeof(buffer));
}

static void teardown(void)
{
	elasticd_close(h);
}

static int made(size_t n, const char *kinds, const char *keys, const char *values,
	const size_t *lens, size_t room)
{
	return elasticd_pipeline_packed(h, n, (const unsigned char *)kinds, keys, values, lens, 0,
		&ops, buffer, room, said);
}

START_TEST(a_value_is_read_into_the_buffer)
{
	void *value = NULL;

	ck_assert_int_eq(elasticd_put(h, "k", "a\0b", 3, 0), 0);
	ck_assert_int_eq(elasticd_read(h, "//k", 0, buffer, 3, &value), 3);
	ck_assert_mem_eq(buffer, "a\0bx", 4);
	ck_assert_ptr_null(value);
	ck_assert_int_eq(elasticd_put(h, "empty", NULL, 0, 0), 0);
	ck_assert_int_eq(elasticd_read(h, "empty", 0, buffer, 0, &value), 0);
	ck_assert_ptr_null(value);
}
END_TEST

START_TEST(a_value_that_is_too_long_for_the_buffer_is_given)
{
	void *value = NULL;

	ck_assert_int_eq(elasticd_put(h, "k", "four", 4, 0), 0);
	ck_assert_int_eq(elasticd_read(h, "k", 0, buffer, 3, &value), 4);
	ck_assert_str_eq(value, "four");
	ck_assert_int_eq(buffer[0], 'x');
	free(value);
}
END_TEST

START_TEST(what_a_read_fails_with_is_negative)
{
	void *value = NULL;

	ck_assert_int_eq(elasticd_read(h, "k", 0, buffer, 3, &value), -ELASTICD_NOT_FOUND);
	ck_assert_int_eq(elasticd_read(h, "k", 1, buffer, 3, &value), -ELASTICD_DEADLINE_EXCEEDED);
	ck_assert_int_eq(elasticd_read(h, "", 0, buffer, 3, &value), -ELASTICD_INVALID_ARGUMENT);
	ck_assert_ptr_null(value);
}
END_TEST

START_TEST(packed_calls_are_made_in_their_order)
{
	const size_t lens[] = { 1, 3, 0, 0, 0, 0 };
	const char kinds[] = { PUT, PUT, GET, GET, DELETE, PUT };

	ck_assert_int_eq(made(6, kinds, "a\0b\0b\0a\0b\0b", "1two", lens, sizeof(buffer)), 0);
	ck_assert_ptr_null(ops);
	ck_assert_mem_eq(buffer, "two1x", 5);
	ck_assert_int_eq(said[2], 3);
	ck_assert_int_eq(said[3], 1);
	ck_assert_int_eq(said[4], 1);
	ck_assert_int_eq(elasticd_read(h, "b", 0, buffer, 0, NULL), 0);
	ck_assert_int_eq(made(0, "", "", NULL, NULL, 0), 0);
	ck_assert_ptr_null(ops);
}
END_TEST

START_TEST(flags_stand_above_the_kind)
{
	const char over[] = { PUT + ELASTICD_KIND_FLAGS * ELASTICD_OVERWRITE, 0 };
	const char both[] = {
		PUT + ELASTICD_KIND_FLAGS * (ELASTICD_OVERWRITE | ELASTICD_PERSISTENT), 0
	};
	const size_t lens[] = { 1 };

	ck_assert_int_eq(made(1, over, "k", "1", lens, 0), 0);
	ck_assert_int_eq(elasticd_delete(h, "k", NULL), 0);
	ck_assert_int_eq(made(1, both, "k", "2", lens, 0), 0);
	ck_assert_int_eq(made(1, (const char[]){ GET }, "k", NULL, NULL, 1), 0);
	ck_assert_int_eq(buffer[0], '2');
}
END_TEST

START_TEST(where_one_fails_each_has_its_own_end)
{
	const size_t lens[] = { 1, 1, 0 };
	const char kinds[] = { PUT, PUT, GET };

	ck_assert_int_eq(made(3, kinds, "k\0k\0k", "12", lens, 1), ELASTICD_ALREADY_EXISTS);
	ck_assert_ptr_nonnull(ops);
	ck_assert_int_eq(ops[0].status, 0);
	ck_assert_int_eq(ops[1].status, ELASTICD_ALREADY_EXISTS);
	ck_assert_ptr_nonnull(ops[1].text);
	ck_assert_str_eq(ops[2].ret_value, "1");
	elasticd_ops_free(ops, 3);
	elasticd_ops_free(NULL, 0);
}
END_TEST

START_TEST(what_does_not_fit_the_buffer_is_given)
{
	const char gets[] = { GET, GET };

	ck_assert_int_eq(elasticd_put(h, "a", "12", 2, 0), 0);
	ck_assert_int_eq(elasticd_put(h, "b", "345", 3, 0), 0);
	ck_assert_int_eq(made(2, gets, "a\0b", NULL, NULL, 4), 0);
	ck_assert_ptr_nonnull(ops);
	ck_assert_str_eq(ops[0].ret_value, "12");
	ck_assert_str_eq(ops[1].ret_value, "345");
	elasticd_ops_free(ops, 2);
	ops = NULL;
	ck_assert_int_eq(made(2, gets, "a\0b", NULL, NULL, 5), 0);
	ck_assert_ptr_null(ops);
	ck_assert_mem_eq(buffer, "12345x", 6);
}
END_TEST

START_TEST(outcomes_are_packed_with_what_their_values_are)
{
	char json[] = "json", text[] = "text", none[] = "", other[] = "jso", one[] = "1";
	const struct elasticd_outcome o[] = {
		{ 5, ELASTICD_SUCCEEDED, json, 4, json, 0, none, none, none, 1 },
		{ 6, ELASTICD_SUCCEEDED, text, 4, text, 0, none, none, none, 1 },
		{ 7, ELASTICD_FAILED, one, 1, json, 3, none, none, none, 1 },
		{ 8, ELASTICD_SUCCEEDED, NULL, 0, none, 0, none, none, none, 1 },
		{ 9, ELASTICD_SUCCEEDED, one, 1, other, 0, none, none, none, 1 },
		{ 1, ELASTICD_TASK_CANCELLED, NULL, 0, none, 1, none, none, none, 0 },
	};
	const int64_t expected[] = { 5, 4 * ELASTICD_KINDS + ELASTICD_KIND_JSON, 6,
		4 * ELASTICD_KINDS + ELASTICD_KIND_TEXT, 7, ELASTICD_KIND_ERROR, 8,
		ELASTICD_KIND_BYTES, 9, ELASTICD_KINDS + ELASTICD_KIND_BYTES, 1,
		ELASTICD_KIND_ERROR };

	ck_assert_uint_eq(elasticd_outcomes_pack(o, 6, buffer, 8, said), 9);
	ck_assert_uint_eq(elasticd_outcomes_pack(o, 6, buffer, 9, said), 9);
	ck_assert_mem_eq(buffer, "jsontext1x", 10);
	ck_assert_mem_eq(said, expected, sizeof(expected));
	ck_assert_uint_eq(elasticd_outcomes_pack(o, 0, NULL, 0, said), 0);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("packed");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_value_is_read_into_the_buffer);
	tcase_add_test(t, a_value_that_is_too_long_for_the_buffer_is_given);
	tcase_add_test(t, what_a_read_fails_with_is_negative);
	tcase_add_test(t, packed_calls_are_made_in_their_order);
	tcase_add_test(t, flags_stand_above_the_kind);
	tcase_add_test(t, where_one_fails_each_has_its_own_end);
	tcase_add_test(t, what_does_not_fit_the_buffer_is_given);
	tcase_add_test(t, outcomes_are_packed_with_what_their_values_are);
	return tests_run(t);
}
