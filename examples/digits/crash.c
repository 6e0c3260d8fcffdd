/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const struct {
	const char *word;
	int signal;
} ways[] = { { "exit", 0 }, { "abort", SIGABRT }, { "segv", SIGSEGV } };

bool crash_parse_how(const char *word, struct crash *c)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(word, ways[i].word) == 0) {
			c->signal = ways[i].signal;
			return true;
		}
	return false;
}

/* The shape in which torchelastic's workers tell why they failed. The texts are this program's
 * own and have nothing in them that JSON would have to escape. */
static void write_error_file(const char *what, const char *where)
{
	const char *path = getenv("TORCHELASTIC_ERROR_FILE");
	FILE *f;

	if (!path || !*path)
		return;
	f = fopen(path, "we");
	if (!f) {
		fprintf(stderr, "digits: cannot write %s: %s\n", path, strerror(errno));
		return;
	}
	fprintf(f,
		"{\"message\": {\"message\": \"InjectedFailure: %s\", \"extraInfo\":"
		" {\"py_callstack\": \"%s\\nInjectedFailure: %s\", \"timestamp\": \"%lld\"}}}\n",
		what, where, what, (long long)time(NULL));
	fclose(f);
}

void crash_if_due(const struct crash *c, int rank, int epoch)
{
	const char *count = getenv("TORCHELASTIC_RESTART_COUNT");
	char what[96], where[160];

	if (rank != c->rank || epoch != c->epoch || (count && atoi(count) != 0))
		return;
	snprintf(what, sizeof(what), "rank %d was told to fail in epoch %d", rank, epoch);
	snprintf(where, sizeof(where), "%s:%d, in %s(), called by train_epoch()", __FILE__,
		__LINE__, __func__);
	write_error_file(what, where);
	if (c->signal == 0) {
		fprintf(stderr, "digits: %s\n", what);
		exit(CRASH_STATUS);
	}
	fprintf(stderr, "digits: %s (%s)\n", what, strsignal(c->signal));
	/* A death by the signal itself: no handler of a sanitizer, and no core file. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	signal(c->signal, SIG_DFL);
	raise(c->signal);
}
