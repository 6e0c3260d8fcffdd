/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/local_address.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text, *address;
} found[] = {
	{ "127.0.0.1", "127.0.0.1" }, { "127.0.0.0/8", "127.0.0.1" },
	{ "127.0.0.1/32", "127.0.0.1" }, { "lo", "127.0.0.1" },
	{ "node7.cluster", "node7.cluster" }, /* a name is for the others to look up */
};

START_TEST(addresses_networks_interfaces_and_names_are_understood)
{
	struct error err = { 0 };
	char *address = NULL;

	ck_assert_msg(local_address_find(found[_i].text, &address, &err) == 0, "%s", err.text);
	ck_assert_str_eq(address, found[_i].address);
	free(address);
}
END_TEST

static const char *const elsewhere[] = { "240.1.2.3", "240.1.2.0/24", "2001:db8::1",
	"2001:db8::/32", "127.0.0.1/33", "127.0.0/8", "/8" };

START_TEST(an_address_of_no_interface_is_refused_and_the_error_lists_this_hosts)
{
	struct error err = { 0 };
	char *address = NULL;

	ck_assert_int_eq(local_address_find(elsewhere[_i], &address, &err), -EINVAL);
	ck_assert_str_eq(err.field, "rendezvous.address");
	ck_assert_ptr_nonnull(strstr(err.text, elsewhere[_i]));
	ck_assert_ptr_nonnull(strstr(err.text, "127.0.0.1 (lo)"));
	ck_assert_ptr_null(address);
}
END_TEST

START_TEST(none_may_be_given)
{
	char *address = (char *)"x";

	ck_assert_int_eq(local_address_find(NULL, &address, NULL), 0);
	ck_assert_ptr_null(address);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("local_address");
	TCase *tc = tcase_create("local_address");

	tcase_add_loop_test(tc, addresses_networks_interfaces_and_names_are_understood, 0,
		sizeof(found) / sizeof(found[0]));
	tcase_add_loop_test(tc,
		an_address_of_no_interface_is_refused_and_the_error_lists_this_hosts, 0,
		sizeof(elsewhere) / sizeof(elsewhere[0]));
	tcase_add_test(tc, none_may_be_given);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
