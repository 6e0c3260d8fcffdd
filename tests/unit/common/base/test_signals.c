/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/signals.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	int signo;
} good[] = {
	{ "TERM", SIGTERM },
	{ "SIGTERM", SIGTERM },
	{ "sigterm", SIGTERM },
	{ "term", SIGTERM },
	{ "15", 15 },
	{ "64", 64 },
	{ "33", 33 },
	{ "KILL", SIGKILL },
	{ "USR1", SIGUSR1 },
	{ "IOT", SIGABRT },
	{ "CLD", SIGCHLD },
	{ "IO", SIGIO },
	{ "POLL", SIGIO },
};

static const char *const bad[] = { "", "0", "65", "-1", "SIG", "SIGSIGTERM", "TERMX", "TER", "1 ",
	"RTMIN-1", "RTMAX+1", "RTMIN+", "RTMIN+31", "RTMAX-31", "RTMIN3", "SIG15", "+15",
	"99999999999999999999" };

START_TEST(a_signal_has_a_name_with_and_without_sig_and_a_number)
{
	int signo = -7;

	ck_assert_int_eq(signals_parse(good[_i].text, NULL, &signo, NULL), 0);
	ck_assert_int_eq(signo, good[_i].signo);
}
END_TEST

START_TEST(realtime_signals_count_from_both_ends)
{
	ck_assert_int_eq(signals_from_string("RTMIN"), SIGRTMIN);
	ck_assert_int_eq(signals_from_string("SIGRTMIN+3"), SIGRTMIN + 3);
	ck_assert_int_eq(signals_from_string("rtmin+0"), SIGRTMIN);
	ck_assert_int_eq(signals_from_string("RTMAX"), SIGRTMAX);
	ck_assert_int_eq(signals_from_string("RTMAX-2"), SIGRTMAX - 2);
}
END_TEST

START_TEST(an_unknown_signal_is_refused_by_name)
{
	struct error err = { 0 };
	int signo = -7;

	ck_assert_int_eq(signals_parse(bad[_i], "stop.signal", &signo, &err), -EINVAL);
	ck_assert_int_eq(signo, -7);
	ck_assert_ptr_nonnull(strstr(err.text, "stop.signal: expected a signal such as"));
}
END_TEST

START_TEST(every_signal_number_survives_its_name)
{
	char buf[SIGNALS_TEXT_MAX];

	for (int i = 1; i < NSIG; i++)
		ck_assert_int_eq(signals_from_string(signals_short(i, buf)), i);
	ck_assert_str_eq(signals_short(SIGSEGV, buf), "SEGV");
	ck_assert_str_eq(signals_name(SIGSEGV, buf), "SIGSEGV");
	ck_assert_str_eq(signals_name(SIGRTMIN, buf), "SIGRTMIN");
	ck_assert_str_eq(signals_name(SIGRTMIN + 3, buf), "SIGRTMIN+3");
	ck_assert_str_eq(signals_name(33, buf), "signal 33");
	ck_assert_str_eq(signals_name(0, buf), "signal 0");
	ck_assert_str_eq(signals_name(-2147483647 - 1, buf), "signal -2147483648");
}
END_TEST

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("signals");
	TCase *t = tcase_create("signals");

	tcase_add_loop_test(t, a_signal_has_a_name_with_and_without_sig_and_a_number, 0, N(good));
	tcase_add_test(t, realtime_signals_count_from_both_ends);
	tcase_add_loop_test(t, an_unknown_signal_is_refused_by_name, 0, N(bad));
	tcase_add_test(t, every_signal_number_survives_its_name);
	suite_add_tcase(s, t);
	return suite_run(s);
}
