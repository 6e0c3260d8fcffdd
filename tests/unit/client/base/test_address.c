/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/address.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *job(void)
{
	json_t *j = json_loads("{\"workers\":["
			       "{\"role\":\"chief\",\"index\":0,\"rank\":0},"
			       "{\"role\":\"worker\",\"index\":0,\"rank\":1},"
			       "{\"role\":\"worker\",\"index\":1,\"rank\":2},"
			       "{\"role\":\"worker\",\"index\":2,\"rank\":3},"
			       "{\"role\":\"odd\",\"index\":0,\"rank\":-7},{},3]}",
		0, NULL);

	ck_assert_ptr_nonnull(j);
	return j;
}

/* The ranks that text means: "-" for all, "!" and the code for an error. */
static char *meant(const char *text)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *j = job();
	struct error err = { 0 };
	char *set = NULL;
	int r;

	ck_assert_msg(address_parse(text, &a, &err) == 0, "%s: %s", text, err.text);
	r = address_ranks(&a, j, &set, &err);
	if (r < 0) {
		ck_assert(err.text[0] != '\0');
		return strdup(r == -ENOENT ? "!ENOENT" : "!");
	}
	return set ? set : strdup("-");
}

START_TEST(workers_are_addressed_by_rank_set_role_and_index)
{
	static const struct {
		const char *text, *ranks;
	} rows[] = {
		{ "digits", "-" },
		{ "digits/2", "2" },
		{ "digits/0,2-3", "0,2,3" },
		{ "digits/3,0,2", "0,2,3" },
		{ "digits/0,3-7", "!ENOENT" },
		{ "digits/worker", "1-3" },
		{ "digits/worker:1", "2" },
		{ "digits/worker:0,2", "1,3" },
		{ "digits/chief:0", "0" },
		{ "digits/nobody", "!ENOENT" },
		{ "digits/worker:3", "!ENOENT" },
		{ "digits/worker:1-3", "!ENOENT" },
		{ "digits/odd", "!ENOENT" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_free_ char *s = meant(rows[i].text);

		ck_assert_msg(!strcmp(s, rows[i].ranks), "%s: %s", rows[i].text, s);
	}
}
END_TEST

START_TEST(the_parts_of_an_address_are_kept_apart)
{
	_cleanup_(address_fini) struct address a = { 0 };

	ck_assert_int_eq(address_parse("my.job-1/trainer:4", &a, NULL), 0);
	ck_assert_str_eq(a.job, "my.job-1");
	ck_assert_str_eq(a.role, "trainer");
	ck_assert_str_eq(a.indexes, "4");
	ck_assert_ptr_null(a.ranks);
}
END_TEST

START_TEST(broken_addresses_are_refused_with_a_reason)
{
	static const char *const bad[] = { "", "/", "/3", "job/", "job/3-", "job/3-1", "job/1,,2",
		"job/,", "job/:3", "job/w:", "job/w:x", "job/w:1-", "job/99999999999" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct address a = { 0 };
		struct error err = { 0 };

		ck_assert_msg(address_parse(bad[i], &a, &err) == -EINVAL, "%s", bad[i]);
		ck_assert_msg(err.text[0] != '\0', "%s", bad[i]);
		ck_assert_ptr_null(a.job);
	}
}
END_TEST

START_TEST(workers_of_other_hosts_are_known_by_their_hosts_roles)
{
	_cleanup_json_ json_t *job = json_pack(
		"{s:[{s:s, s:i, s:i}], s:[{s:[{s:s, s:i, s:i, s:i}]}, {s:[{s:s, s:i, s:i, s:i}]}]}",
		"workers", "role", "w", "index", 0, "rank", 0, "hosts", "roles", "role", "w",
		"workers", 2, "first_rank", 0, "first_index", 0, "roles", "role", "w", "workers", 2,
		"first_rank", 4, "first_index", 2);
	static const struct {
		const char *text, *ranks;
	} rows[] = { { "j/w:0", "0" }, { "j/w:1-2", "1,4" }, { "j/w", "0,1,4,5" },
		{ "j/w:4", NULL }, { "j/v:0", NULL } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_(address_fini) struct address a = { 0 };
		_cleanup_free_ char *ranks = NULL;
		struct error err = { 0 };
		int r;

		ck_assert_int_eq(address_parse(rows[i].text, &a, &err), 0);
		r = address_ranks(&a, job, &ranks, &err);
		ck_assert_int_eq(r, rows[i].ranks ? 0 : -ENOENT);
		if (rows[i].ranks)
			ck_assert_str_eq(ranks, rows[i].ranks);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("address");
	TCase *tc = tcase_create("address");

	tcase_add_test(tc, workers_are_addressed_by_rank_set_role_and_index);
	tcase_add_test(tc, the_parts_of_an_address_are_kept_apart);
	tcase_add_test(tc, workers_of_other_hosts_are_known_by_their_hosts_roles);
	tcase_add_test(tc, broken_addresses_are_refused_with_a_reason);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
