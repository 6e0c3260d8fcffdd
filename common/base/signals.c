/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/signals.h"

#include "common/base/quote.h"
#include "common/base/scan.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Second names that the C library's table does not return. */
static const struct {
	const char *name;
	int signo;
} aliases[] = {
	{ "IOT", SIGABRT },
	{ "CLD", SIGCHLD },
	{ "IO", SIGIO },
	{ "POLL", SIGIO },
};

/* "RTMIN", "RTMIN+n", "RTMAX", "RTMAX-n". */
static int realtime_from_string(const char *name)
{
	int base = SIGRTMIN, sign = '+';
	uint64_t offset = 0;

	if (!strncasecmp(name, "RTMAX", 5)) {
		base = SIGRTMAX;
		sign = '-';
	} else if (strncasecmp(name, "RTMIN", 5)) {
		return -EINVAL;
	}
	name += 5;
	if (!*name)
		return base;
	if (*name != sign || scan_whole(name + 1, SIGRTMAX - SIGRTMIN, &offset) < 0)
		return -EINVAL;
	return sign == '+' ? base + (int)offset : base - (int)offset;
}

int signals_from_string(const char *text)
{
	uint64_t number;

	if (scan_whole(text, NSIG - 1, &number) == 0)
		return number > 0 ? (int)number : -EINVAL;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcasecmp(text, name))
			return i;
	}
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcasecmp(text, aliases[i].name))
			return aliases[i].signo;
	return realtime_from_string(text);
}

int signals_parse(const char *text, const char *field, int *ret_signo, struct error *err)
{
	char q[QUOTE_MAX];
	int signo = signals_from_string(text);

	if (signo < 0)
		return error_field(err, -EINVAL, field,
			"expected a signal such as \"TERM\", \"SIGUSR1\", \"RTMIN+3\" or 15, got %s",
			quote_text(text, q));
	*ret_signo = signo;
	return 0;
}

const char *signals_short(int signo, char buf[SIGNALS_TEXT_MAX])
{
	const char *name = sigabbrev_np(signo);

	if (name)
		snprintf(buf, SIGNALS_TEXT_MAX, "%s", name);
	else if (signo == SIGRTMIN)
		snprintf(buf, SIGNALS_TEXT_MAX, "RTMIN");
	else if (signo > SIGRTMIN && signo <= SIGRTMAX)
		snprintf(buf, SIGNALS_TEXT_MAX, "RTMIN+%d", signo - SIGRTMIN);
	else
		snprintf(buf, SIGNALS_TEXT_MAX, "%d", signo);
	return buf;
}

const char *signals_name(int signo, char buf[SIGNALS_TEXT_MAX])
{
	char name[SIGNALS_TEXT_MAX];

	signals_short(signo, name);
	if (name[0] >= 'A')
		snprintf(buf, SIGNALS_TEXT_MAX, "SIG%.*s", SIGNALS_TEXT_MAX - 4, name);
	else
		snprintf(buf, SIGNALS_TEXT_MAX, "signal %.*s", SIGNALS_TEXT_MAX - 8, name);
	return buf;
}

void signals_reset(void)
{
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
