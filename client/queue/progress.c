/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/progress.h"

#include "client/output/time_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The rate is that of the last MEMORY_MS. */
enum { MEMORY_MS = 3000, BAR_WIDTH = 20 };

void progress_begin(struct progress *p)
{
	*p = (struct progress){ .first = -1 };
}

void progress_update(struct progress *p, const struct progress_counts *c, uint64_t now_ms)
{
	int64_t left = c->queued + c->running, done;
	double passed, memory;

	if (p->first < 0) {
		/* Tasks accepted before the first look count from now on. */
		p->first = left > c->accepted ? left - c->accepted : 0;
		p->done = p->first + c->accepted - left;
		p->last_ms = now_ms;
		return;
	}
	/* Tasks that others submit make it too small for a while. */
	done = p->first + c->accepted - left;
	if (done < p->done)
		done = p->done;
	/* Old samples lose weight on both sides of the fraction. At the beginning it is the plain
	 * rate. */
	passed = (double)(now_ms - p->last_ms);
	memory = MEMORY_MS / (passed + MEMORY_MS);
	p->lately_done = p->lately_done * memory + (double)(done - p->done);
	p->lately_ms = p->lately_ms * memory + passed;
	p->last_ms = now_ms;
	p->done = done;
}

static double tasks_per_s(const struct progress *p)
{
	return p->lately_ms > 0 ? p->lately_done * 1000 / p->lately_ms : 0;
}

static void draw_bar(int percent, char text[BAR_WIDTH + 3])
{
	int n = percent * BAR_WIDTH / 100;

	text[0] = '[';
	for (int i = 0; i < BAR_WIDTH; i++)
		text[i + 1] = i < n ? '#' : '-';
	text[BAR_WIDTH + 1] = ']';
	text[BAR_WIDTH + 2] = '\0';
}

const char *progress_line(
	const struct progress *p, const struct progress_counts *c, char *buf, size_t size)
{
	int64_t left = c->queued + c->running, all = p->done + left;
	char picture[BAR_WIDTH + 3] = "", eta[TIME_TEXT_MAX] = "?", speed[32] = "?";
	int percent = all > 0 ? (int)(p->done * 100 / all) : 100;
	double r = tasks_per_s(p);
	draw_bar(percent, picture);
	if (p->lately_ms > 0)
		snprintf(speed, sizeof(speed), "%.*f", r < 10 ? 1 : 0, r);
	/* Without the end of the input the remaining time is unknown. */
	if (r > 0 && left > 0)
		time_text_since((int64_t)((double)left / r * 1e6), 0, eta);
	else if (left == 0)
		snprintf(eta, sizeof(eta), "0s");
	snprintf(buf, size,
		"%s %3d%%  %" PRId64 " queued  %" PRId64 " running  %" PRId64
		" done  %s/s  ETA %s%s",
		picture, percent, c->queued, c->running, p->done, speed, c->all ? "" : ">", eta);

	return buf;
}
