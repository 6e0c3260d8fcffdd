/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One of many tasks that train at random speeds until they are preempted, and what it can do to the
 * others meanwhile: racer DIRECTORY. Its own line of DIRECTORY/plan, the one of its rank, says how:
 *
 * SEED PAUSE_US STRIDE LAST START HOW
 *
 * Steps 0, 1.. up to LAST (-1: no end; then it exits with 0), of which each is up to STRIDE further
 * than the one before and takes up to PAUSE_US. It begins when DIRECTORY/go is there (START 0), or
 * when a notice is up (1). HOW: live; notify (gives notice at step 50), die (once a notice is up),
 * notify-die (both), die-saving, die-saved, fail (exits with 3 once a notice is up), hang (does so
 * once a notice is up, until DIRECTORY/wake is there).
 *
 * DIRECTORY/log.RANK gets a line for each thing it does, before the next one, by one write() each:
 * "begin STEP ACTION" of elasticd_step(), "saved STEP", "die", "end CODE".
 */

#include "worker/elasticd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct plan {
	unsigned seed, pause_us, stride;
	long long last;
	int start;
	char how[32];
};

static struct elasticd *h;
static struct plan plan;
static const char *directory;
static int log_fd;

static void check(enum elasticd_status status)
{
	if (!status)
		return;
	dprintf(2, "%s: %s\n", elasticd_status_name(status), elasticd_error_text());
	exit(99);
}

static bool is(const char *how)
{
	return strcmp(plan.how, how) == 0;
}

static void pause_us(unsigned us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000L }, NULL);
}

static void wait_for(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	while (access(path, F_OK) < 0)
		pause_us(20000);
}

static void read_plan(void)
{
	char path[4096], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/plan", directory);
	f = fopen(path, "re");
	for (int i = 0; f && i <= elasticd_rank(h); i++)
		if (!fgets(line, sizeof(line), f))
			exit(98);
	if (!f || sscanf(line, "%u %u %u %lld %d %31s", &plan.seed, &plan.pause_us, &plan.stride,
			  &plan.last, &plan.start, plan.how) != 6)
		exit(98);
	fclose(f);
	snprintf(path, sizeof(path), "%s/log.%d", directory, elasticd_rank(h));
	log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

_Noreturn static void die(void)
{
	dprintf(log_fd, "die\n");
	raise(SIGKILL);
	abort();
}

_Noreturn static void end(int code)
{
	dprintf(log_fd, "end %d\n", code);
	exit(code);
}

static void misbehave(long long n)
{
	if ((is("notify") || is("notify-die")) && n >= 50 && !elasticd_notice(h))
		check(elasticd_notify(h, "a whim", -1));
	if (!elasticd_notice(h))
		return;
	if (is("die") || is("notify-die"))
		die();
	if (is("fail"))
		end(3);
	if (is("hang"))
		wait_for("wake");
}

static void save(long long n)
{
	char path[64];

	if (is("die-saving"))
		die();
	pause_us((unsigned)rand_r(&plan.seed) % (plan.pause_us + 1));
	snprintf(path, sizeof(path), "%d/%lld", elasticd_rank(h), n);
	check(elasticd_saved(h, n, path));
	dprintf(log_fd, "saved %lld\n", n);
	if (is("die-saved"))
		die();
}

int main(int argc, char *argv[])
{
	directory = argc > 1 ? argv[1] : ".";
	check(elasticd_open(&h));
	/* So that it is known to use the library, before its first step; then its log is there. */
	check(elasticd_put(h, "here", "", 0, ELASTICD_PUT_OVERWRITE));
	read_plan();
	if (plan.start == 0)
		wait_for("go");
	while (plan.start == 1 && !elasticd_notice(h))
		pause_us(20000);
	for (long long n = 0; plan.last < 0 || n <= plan.last;
		n += 1 + rand_r(&plan.seed) % plan.stride) {
		enum elasticd_action action;

		check(elasticd_step(h, n, &action));
		dprintf(log_fd, "begin %lld %d\n", n, action);
		if (action == ELASTICD_ACTION_SAVE || action == ELASTICD_ACTION_SAVE_AND_EXIT)
			save(n);
		if (action == ELASTICD_ACTION_SAVE_AND_EXIT || action == ELASTICD_ACTION_EXIT)
			end(elasticd_exit_code(h));
		misbehave(n);
		pause_us((unsigned)rand_r(&plan.seed) % (plan.pause_us + 1));
	}
	end(0);
}
