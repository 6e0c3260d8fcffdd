/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/kernel_log.h"
#include "tests/unit/run.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A pipe of packets in place of /dev/kmsg: each read() returns one record. */
static struct kernel_log *klog;
static int writer;
static bool sure;
static char text[KERNEL_LOG_TEXT];

static void setup(void)
{
	char path[64];
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_DIRECT), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	klog = kernel_log_open(path);
	ck_assert_ptr_nonnull(klog);
	close(fds[0]);
	writer = fds[1];
}

static void teardown(void)
{
	klog = kernel_log_close(klog);
	close(writer);
}

/* 73 is another worker. */
static bool is_worker(void *arg, pid_t pid)
{
	return pid == 73;
}

static void logs(const char *record)
{
	ck_assert_int_eq(write(writer, record, strlen(record)), (ssize_t)strlen(record));
}

static const struct {
	const char *record;
	int pid; /* 0: it is none */
} records[] = {
	{ "6,1,2,-;train[71]: segfault at 8 ip 00005581 sp 00007ffc error 4 in train[5581+1000] likely "
	  "on CPU 1 (core 1, socket 0)\n SUBSYSTEM=x\n",
		71 },
	{ "6,1,2,-;a[b]: c[71]: segfault at 0 ip 0 sp 7f error 14", 71 },
	{ "6,1,2,-;traps: train[71] general protection fault ip:7f sp:7f error:0 in libc.so.6[7f+1]",
		71 },
	{ "6,1,2,-;traps: train[71] trap invalid opcode ip:55 sp:7f error:0 in train[55+1]", 71 },
	{ "6,1,2,-;train[71]: unhandled level 2 translation fault (11) at 0x00000000, esr 0x92",
		71 },
	{ "3,1,2,-;MCE 0x8310: Killing train:71 due to hardware memory corruption", 71 },
	{ "14,1,2,-;train[71]: segfault at 8 ip 00005581", 0 }, /* another program wrote it */
	{ "6,1,2,-;usb 1-1: new device", 0 },
	{ "6,1,2,-;train[x]: segfault at 8", 0 },
	{ "no record", 0 },
	{ "6,1,2,-;", 0 },
};

START_TEST(the_log_says_where_a_process_accessed_badly)
{
	logs(records[_i].record);
	kernel_log_read(klog);
	ck_assert_int_eq(
		kernel_log_take_trap(klog, 71, is_worker, NULL, &sure, text), records[_i].pid != 0);
	if (records[_i].pid)
		ck_assert(sure && strstr(text, "71") && !strchr(text, '\n'));
	ck_assert(!kernel_log_take_trap(klog, 71, is_worker, NULL, &sure, text));
}
END_TEST

START_TEST(a_bad_access_of_another_process_is_unsure)
{
	logs("6,1,2,-;train[73]: segfault at 3 ip 0"); /* of a worker that ended with it */
	logs("6,1,2,-;thread[72]: segfault at 1 ip 0");
	logs("6,1,2,-;train[71]: segfault at 2 ip 0");
	kernel_log_read(klog);
	ck_assert(kernel_log_take_trap(klog, 71, is_worker, NULL, &sure, text) && sure);
	ck_assert_ptr_nonnull(strstr(text, "segfault at 2"));
	ck_assert(kernel_log_take_trap(klog, 71, is_worker, NULL, &sure, text) && !sure);
	ck_assert_ptr_nonnull(strstr(text, "segfault at 1"));
	ck_assert(!kernel_log_take_trap(klog, 71, is_worker, NULL, &sure, text));
	ck_assert(kernel_log_take_trap(klog, 73, is_worker, NULL, &sure, text) && sure);
}
END_TEST

START_TEST(errors_of_gpus_are_found_by_process)
{
	ck_assert(!kernel_log_find_xid(klog, 71, &sure, text));
	logs("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen "
	     "off the bus.");
	logs("4,1,2,-;NVRM: Xid (PCI:0000:5e:00): 31, pid=71, name=train, Ch 00000008");
	kernel_log_read(klog);
	ck_assert(kernel_log_find_xid(klog, 71, &sure, text));
	ck_assert_ptr_nonnull(strstr(text, "): 31, pid=71"));
	ck_assert(sure);
	ck_assert(kernel_log_find_xid(klog, 72, &sure, text));
	ck_assert_ptr_nonnull(strstr(text, "): 79, "));
	ck_assert(!sure);
	kernel_log_begin(klog);
	ck_assert(!kernel_log_find_xid(klog, 71, &sure, text));
}
END_TEST

START_TEST(a_log_that_cannot_be_read_says_nothing)
{
	ck_assert_ptr_null(kernel_log_open("/nonexistent"));
	kernel_log_begin(NULL);
	kernel_log_read(NULL);
	ck_assert(!kernel_log_take_trap(NULL, 71, is_worker, NULL, &sure, text));
	ck_assert(!kernel_log_find_xid(NULL, 71, &sure, text));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kernel_log");
	TCase *t = tcase_create("kernel_log");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, the_log_says_where_a_process_accessed_badly, 0,
		(int)(sizeof(records) / sizeof(records[0])));
	tcase_add_test(t, a_bad_access_of_another_process_is_unsure);
	tcase_add_test(t, errors_of_gpus_are_found_by_process);
	tcase_add_test(t, a_log_that_cannot_be_read_says_nothing);
	suite_add_tcase(s, t);
	return suite_run(s);
}
