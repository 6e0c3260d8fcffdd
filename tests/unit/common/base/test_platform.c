/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "common/base/platform.h"
#include "tests/unit/run.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static char dir[64];

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test-platform-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void field(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "%s\n", text);
	fclose(f);
}

static const struct {
	enum platform is;
	const char *fields[8]; /* name and text in turn */
} hosts[] = {
	{ PLATFORM_GCE, { "sys_vendor", "Google", "product_name", "Google Compute Engine" } },
	{ PLATFORM_GCE, { "product_name", "Google", "bios_vendor", "Google" } },
	{ PLATFORM_OTHER,
		{ "sys_vendor", "Google", "product_name", "Eve", "bios_vendor", "coreboot" } },
	{ PLATFORM_AWS, { "sys_vendor", "Amazon EC2", "product_name", "p5.48xlarge" } },
	{ PLATFORM_AWS, { "sys_vendor", "Xen", "product_name", "HVM domU", "bios_version",
				"4.11.amazon" } },
	{ PLATFORM_AWS, { "board_vendor", "Amazon EC2" } },
	{ PLATFORM_UNKNOWN,
		{ "sys_vendor", "Xen", "product_name", "HVM domU", "bios_version", "4.17" } },
	{ PLATFORM_AZURE,
		{ "sys_vendor", "Microsoft Corporation", "product_name", "Virtual Machine",
			"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77" } },
	{ PLATFORM_OTHER, { "sys_vendor", "Microsoft Corporation", "product_name",
				  "Virtual Machine", "chassis_asset_tag", "1234-5678" } },
	{ PLATFORM_UNKNOWN,
		{ "sys_vendor", "Microsoft Corporation", "product_name", "Virtual Machine" } },
	{ PLATFORM_OTHER, { "sys_vendor", "Dell Inc.", "product_name", "PowerEdge XE9680" } },
	{ PLATFORM_OTHER, { "sys_vendor", "QEMU", "product_name", "Standard PC" } },
	{ PLATFORM_UNKNOWN, { "sys_vendor", "", "product_name", " " } },
	{ PLATFORM_UNKNOWN, { NULL } },
};

START_TEST(the_firmware_says_where_a_host_is)
{
	char details[256];

	for (int i = 0; i < 8 && hosts[_i].fields[i]; i += 2)
		field(hosts[_i].fields[i], hosts[_i].fields[i + 1]);
	ck_assert_int_eq(platform_from_dmi(dir, details, sizeof(details)), hosts[_i].is);
	ck_assert(details[0]);
}
END_TEST

START_TEST(firmware_text_cannot_steer_a_terminal)
{
	char details[256];

	field("sys_vendor", "\033[2JACME\001");
	platform_from_dmi(dir, details, sizeof(details));
	ck_assert_ptr_null(strchr(details, '\033'));
	ck_assert_ptr_nonnull(strstr(details, "[2JACME"));
}
END_TEST

START_TEST(without_the_files_nothing_is_known)
{
	char details[256];

	ck_assert_int_eq(
		platform_from_dmi("/nonexistent", details, sizeof(details)), PLATFORM_UNKNOWN);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("platform");
	TCase *t = tcase_create("platform");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(
		t, the_firmware_says_where_a_host_is, 0, sizeof(hosts) / sizeof(hosts[0]));
	tcase_add_test(t, firmware_text_cannot_steer_a_terminal);
	tcase_add_test(t, without_the_files_nothing_is_known);
	suite_add_tcase(s, t);
	return suite_run(s);
}
