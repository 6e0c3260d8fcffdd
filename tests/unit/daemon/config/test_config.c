/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "daemon/config/config.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>

static struct config c;
static struct error err;
static char dir[64];
static char told[4096]; /* the errors of load(), a line each, without the directory */

static void setup(void)
{
	ck_assert_int_eq(config_init(&c), 0);
	strcpy(dir, "/tmp/test-config-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	config_fini(&c);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void put(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ck_assert_int_eq(file_write_atomic(path, text, strlen(text), 0644, false), 0);
}

static void on_error(void *arg, const char *text)
{
	const char *name = strstr(text, "elasticd.conf");

	strcat(strcat(told, name ? name : text), "\n");
}

static int load(bool required)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/elasticd.conf", dir);
	told[0] = '\0';
	return config_load(&c, path, required, on_error, NULL, &err);
}

START_TEST(nothing_read_leaves_the_defaults)
{
	ck_assert_int_eq(config_parse(&c, "f", "", &err), 0);
	ck_assert_int_eq(c.keep_runs, 10000);
	ck_assert_int_eq(c.keep_days, 30);
	ck_assert_int_eq(c.keep_bytes, INT64_C(10) << 30);
	ck_assert_int_eq(c.message_size, 8 << 20);
	ck_assert_int_eq(c.queued_bytes, 4 << 20);
	ck_assert_int_eq(c.connections, 4096);
	ck_assert_int_eq(c.connections_per_user, 256);
	ck_assert_int_eq(c.buffered_bytes, 64 << 20);
	ck_assert_int_eq(c.calls_in_flight, 64);
	ck_assert_int_eq(c.jobs_per_user, CONFIG_JOBS_SHARE);
	ck_assert(!c.require_secret);
	ck_assert_int_eq(c.log_level, -1);
	ck_assert_int_eq(c.socket_mode, -1);
	ck_assert(c.scopes);
	ck_assert_ptr_null(c.admin_group);
}
END_TEST

START_TEST(every_key_is_read)
{
	const char *text =
		"# comment\n[elasticd]\nsocket_mode=0666\n"
		"admin_group = a\nallow_groups = one, two three\nallow_users = u\n"
		"log_dir = /l\nlog_level = debug\nscopes = no\nslice = s\n"
		"; another\n[logs]\nkeep_runs = 7\nkeep_days = 0\nkeep_bytes = 1G\n[limits]\nmessage_size = 64K\nqueued_bytes = 1M\n"
		"connections = 10\nconnections_per_user = 5\nbuffered_bytes = 32M\n"
		"calls_in_flight = 2\njobs = 3\njobs_per_user = 1\n"
		"[rendezvous]\nrequire = token\n[host]\ntopology = pod3/rack7/node12\n"
		"[metrics]\nlisten = [::1]:9465\n";

	ck_assert_int_eq(config_parse(&c, "f", text, &err), 0);
	ck_assert_int_eq(c.socket_mode, 0666);
	ck_assert_str_eq(c.admin_group, "a");
	ck_assert_str_eq(c.allow_groups[0], "one");
	ck_assert_str_eq(c.allow_groups[1], "two");
	ck_assert_str_eq(c.allow_groups[2], "three");
	ck_assert_ptr_null(c.allow_groups[3]);
	ck_assert_str_eq(c.allow_users[0], "u");
	ck_assert_str_eq(c.log_dir, "/l");
	ck_assert_int_eq(c.log_level, LOG_DEBUG);
	ck_assert_int_eq(c.keep_runs, 7);
	ck_assert_int_eq(c.keep_days, 0);
	ck_assert_int_eq(c.keep_bytes, 1 << 30);
	ck_assert(!c.scopes);
	ck_assert_str_eq(c.slice, "s");
	ck_assert_int_eq(c.message_size, 65536);
	ck_assert_int_eq(c.queued_bytes, 1 << 20);
	ck_assert_int_eq(c.connections, 10);
	ck_assert_int_eq(c.connections_per_user, 5);
	ck_assert_int_eq(c.buffered_bytes, 32 << 20);
	ck_assert_int_eq(c.calls_in_flight, 2);
	ck_assert_int_eq(c.jobs, 3);
	ck_assert_int_eq(c.jobs_per_user, 1);
	ck_assert(c.require_secret);
	ck_assert_str_eq(c.topology, "pod3/rack7/node12");
	ck_assert_str_eq(c.listen, "[::1]:9465");
	ck_assert_int_eq(config_parse(&c, "f", "[rendezvous]\nrequire = none\n", &err), 0);
	ck_assert(!c.require_secret);
}
END_TEST

/* A wrong text, and a part of its error. */
static const struct {
	const char *text, *says;
} wrong[] = {
	{ "[elasticd]\n\nkeep_run = 3\n", "f:3: unknown key \"keep_run\" in section [elasticd]" },
	{ "[daemon]\nx = 1\n",
		"f:2: unknown section [daemon]; expected [elasticd], [logs], [limits], "
		"[preemption], [rendezvous], [host] or [metrics]" },
	{ "x = 1\n", "f:1: unknown section []; expected [elasticd], [logs], [limits], "
		     "[preemption], [rendezvous], [host] or [metrics]" },
	{ "[limits]\njobs = 0\n",
		"f:2: [limits] jobs: expected a number from 1 to 100000, found \"0\"" },
	{ "[limits]\njobs = many\n",
		"f:2: [limits] jobs: expected a number from 1 to 100000, found \"many\"" },
	{ "[limits]\nmessage_size = 1\n",
		"f:2: [limits] message_size: expected a size from 4096 to 67108864, found \"1\"" },
	{ "[elasticd]\nsocket_mode = 0999\n",
		"f:2: [elasticd] socket_mode: expected a file mode such as 0660, found \"0999\"" },
	{ "[elasticd]\nscopes = maybe\n",
		"f:2: [elasticd] scopes: expected yes or no, found \"maybe\"" },
	{ "[elasticd]\nlog_dir = logs\n",
		"f:2: [elasticd] log_dir: expected an absolute path, found \"logs\"" },
	{ "[elasticd]\nlog_level = loud\n",
		"f:2: [elasticd] log_level: expected err, warning, notice, info or debug, found "
		"\"loud\"" },
	{ "[host]\ntopology = pod3//node12\n",
		"f:2: [host] topology: expected 1 to 16 parts such as \"pod3/rack7/node12\", found "
		"\"pod3//node12\"" },
	{ "[rendezvous]\nrequire = yes\n",
		"f:2: [rendezvous] require: expected none or token, found \"yes\"" },
	{ "[metrics]\nlisten = 9465\n",
		"f:2: [metrics] listen: expected ADDRESS:PORT such as 127.0.0.1:9465, found "
		"\"9465\"" },
	{ "[metrics]\nlisten = localhost:9465\n",
		"f:2: [metrics] listen: expected ADDRESS:PORT such as 127.0.0.1:9465, found "
		"\"localhost:9465\"" },
	{ "[elasticd]\nnonsense\n", "f:2: expected a [section], \"key = value\" or a comment" },
	/* An indented line is a key, not more of the value above. */
	{ "[elasticd]\nslice = a\n  wrong = b\n",
		"f:3: unknown key \"wrong\" in section [elasticd]" },
};

START_TEST(errors_name_file_and_line)
{
	ck_assert_int_eq(config_parse(&c, "f", wrong[_i].text, &err), -EINVAL);
	ck_assert_str_eq(err.text, wrong[_i].says);
}
END_TEST

START_TEST(a_line_that_would_be_cut_is_refused)
{
	char text[1024] = "[elasticd]\nslice = ";

	memset(text + strlen(text), 'x', 600);
	ck_assert_int_eq(config_parse(&c, "f", text, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "f:2: the line is longer than"));
}
END_TEST

START_TEST(a_comment_may_have_any_length)
{
	char text[1024] = "[elasticd]\n  # ";

	memset(text + strlen(text), 'x', 600);
	strcat(text, "\nslice = a\n");
	ck_assert_int_eq(config_parse(&c, "f", text, &err), 0);
	ck_assert_str_eq(c.slice, "a");
}
END_TEST

START_TEST(a_missing_file_is_fine_unless_it_was_asked_for)
{
	ck_assert_int_eq(load(false), 0);
	ck_assert_int_eq(load(true), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "elasticd.conf: No such file"));
}
END_TEST

START_TEST(files_of_the_directory_come_later_in_order_and_win)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/elasticd.conf.d", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	put("elasticd.conf", "[limits]\njobs = 1\nconnections = 5\n");
	put("elasticd.conf.d/20-b.conf", "[limits]\njobs = 3\n");
	put("elasticd.conf.d/10-a.conf", "[limits]\njobs = 2\n");
	put("elasticd.conf.d/30-c.conf.bak", "[limits]\njobs = 4\n");
	put("elasticd.conf.d/.40.conf", "[limits]\njobs = 5\n");
	ck_assert_int_eq(load(false), 0);
	ck_assert_int_eq(c.jobs, 3);
	ck_assert_int_eq(c.connections, 5);
}
END_TEST

START_TEST(an_unreadable_file_leaves_all_as_it_was)
{
	c.jobs = 77;
	put("elasticd.conf", "[limits]\njobs = 1\nwrong = 5\n");
	ck_assert_int_eq(load(false), -EINVAL);
	ck_assert_int_eq(c.jobs, 77);
	ck_assert_ptr_nonnull(strstr(err.text, "elasticd.conf:3: unknown key"));
}
END_TEST

START_TEST(a_file_with_a_zero_byte_is_refused_as_a_whole)
{
	static const char text[] = "[logs]\nkeep_days = 1\n\0[nonsense]\n";
	char path[128];

	snprintf(path, sizeof(path), "%s/elasticd.conf", dir);
	ck_assert_int_eq(file_write_atomic(path, text, sizeof(text) - 1, 0644, false), 0);
	ck_assert_int_eq(load(true), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "elasticd.conf: a zero byte"));
	ck_assert_int_ne(c.keep_days, 1);
}
END_TEST

START_TEST(all_errors_of_all_files_are_found_at_once)
{
	char path[128], line[700] = "slice = ";

	memset(line + strlen(line), 'x', 600);
	snprintf(path, sizeof(path), "%s/elasticd.conf.d", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	put("elasticd.conf",
		"[limits]\njobs = 0\nnonsense\n[wrong]\nx = 1\ny = 2\n[limits]\njob = 3\n");
	put("elasticd.conf.d/10-a.conf", "[elasticd\n[elasticd]\nlog_dir = a\n");
	put("elasticd.conf.d/20-b.conf", line);
	ck_assert_int_eq(load(false), -EINVAL);
	ck_assert_str_eq(told,
		"elasticd.conf:2: [limits] jobs: expected a number from 1 to 100000, found \"0\"\n"
		"elasticd.conf:3: expected a [section], \"key = value\" or a comment\n"
		"elasticd.conf:5: unknown section [wrong]; expected [elasticd], [logs], [limits], "
		"[preemption], [rendezvous], [host] or [metrics]\n"
		"elasticd.conf:8: unknown key \"job\" in section [limits]\n"
		"elasticd.conf.d/10-a.conf:1: expected a [section], \"key = value\" or a comment\n"
		"elasticd.conf.d/10-a.conf:3: [elasticd] log_dir: expected an absolute path, found "
		"\"a\"\n"
		"elasticd.conf.d/20-b.conf:1: the line is longer than 198 bytes\n");
	ck_assert_ptr_nonnull(strstr(err.text, "elasticd.conf:2: [limits] jobs: expected"));
	ck_assert_ptr_nonnull(strstr(err.text, " (and 6 more; \"elasticd --check\" names all)"));
}
END_TEST

START_TEST(files_that_are_no_regular_ones_are_named_and_not_waited_for)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/elasticd.conf.d", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	put("elasticd.conf", "[limits]\njobs = 1\n");
	snprintf(path, sizeof(path), "%s/elasticd.conf.d/10-fifo.conf", dir);
	ck_assert_int_eq(mkfifo(path, 0644), 0);
	snprintf(path, sizeof(path), "%s/elasticd.conf.d/20-dir.conf", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/elasticd.conf.d/30-device.conf", dir);
	ck_assert_int_eq(symlink("/dev/zero", path), 0);
	snprintf(path, sizeof(path), "%s/elasticd.conf.d/35-none.conf", dir);
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	put("elasticd.conf.d/40-wrong.conf", "[limits]\njobs = 0\n");
	put("40-linked", "[limits]\njobs = 2\n");
	snprintf(path, sizeof(path), "%s/elasticd.conf.d/50-link.conf", dir);
	ck_assert_int_eq(symlink("../40-linked", path), 0);
	ck_assert_int_eq(load(false), -EINVAL);
	ck_assert_str_eq(told,
		"elasticd.conf.d/10-fifo.conf: not a regular file\n"
		"elasticd.conf.d/20-dir.conf: not a regular file\n"
		"elasticd.conf.d/30-device.conf: not a regular file\n"
		"elasticd.conf.d/40-wrong.conf:2: [limits] jobs: expected a number from 1 to 100000, "
		"found \"0\"\n");
}
END_TEST

START_TEST(keys_that_wait_for_the_next_start_are_named)
{
	struct config old = { 0 };
	size_t i = 0;

	ck_assert_int_eq(config_init(&old), 0);
	ck_assert_ptr_null(config_next_start(&old, &c, &i));
	put("elasticd.conf", "[elasticd]\nlog_dir = /l\nlog_level = debug\nscopes = no\nslice = s\n"
			     "[limits]\njobs = 3\nmessage_size = 1M\n");
	ck_assert_int_eq(load(false), 0);
	i = 0;
	ck_assert_str_eq(config_next_start(&old, &c, &i), "log_dir");
	ck_assert_str_eq(config_next_start(&old, &c, &i), "scopes");
	ck_assert_str_eq(config_next_start(&old, &c, &i), "slice");
	ck_assert_str_eq(config_next_start(&old, &c, &i), "message_size");
	ck_assert_ptr_null(config_next_start(&old, &c, &i));
	/* They wait still, whatever is loaded meanwhile; the others have their new values. */
	ck_assert(c.scopes && !c.log_dir && c.message_size == 8 << 20 && c.jobs == 3);
	ck_assert_str_eq(c.slice, "elasticd.slice");
	ck_assert_str_eq(old.slice, "s");
	config_fini(&old);
}
END_TEST

START_TEST(loading_again_forgets_keys_that_are_gone)
{
	put("elasticd.conf", "[limits]\njobs = 1\n");
	ck_assert_int_eq(load(false), 0);
	put("elasticd.conf", "");
	ck_assert_int_eq(load(false), 0);
	ck_assert_int_eq(c.jobs, 1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("config");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, nothing_read_leaves_the_defaults);
	tcase_add_test(t, every_key_is_read);
	tcase_add_loop_test(t, errors_name_file_and_line, 0, (int)(sizeof(wrong) / sizeof(*wrong)));
	tcase_add_test(t, a_line_that_would_be_cut_is_refused);
	tcase_add_test(t, a_comment_may_have_any_length);
	tcase_add_test(t, files_that_are_no_regular_ones_are_named_and_not_waited_for);
	tcase_add_test(t, a_missing_file_is_fine_unless_it_was_asked_for);
	tcase_add_test(t, files_of_the_directory_come_later_in_order_and_win);
	tcase_add_test(t, an_unreadable_file_leaves_all_as_it_was);
	tcase_add_test(t, a_file_with_a_zero_byte_is_refused_as_a_whole);
	tcase_add_test(t, all_errors_of_all_files_are_found_at_once);
	tcase_add_test(t, keys_that_wait_for_the_next_start_are_named);
	tcase_add_test(t, loading_again_forgets_keys_that_are_gone);
	suite_add_tcase(s, t);
	return suite_run(s);
}
