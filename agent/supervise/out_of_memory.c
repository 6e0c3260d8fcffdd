/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/private.h"
#include "common/text/json.h"
#include "common/text/size.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Adds to a worker's end that the kernel killed the worker, or other processes of the job, for want
 * of memory.
 */

/* Whether limit is resources.memory_max, of which the kernel drops parts of a page. */
static bool oom_is_memory_max(const struct supervisor *sv, int64_t limit)
{
	int64_t max = sv->spec->resources.memory_max, page = sysconf(_SC_PAGESIZE);

	return max != SPEC_UNSET && limit / page == max / page;
}

/* "out of memory (limit memory_max 4G)" */
static void oom_text(
	const struct supervisor *sv, const struct oom_reading *s, char *text, size_t size)
{
	char bytes[SIZE_TEXT_MAX];

	if (s->limit < 0)
		snprintf(text, size, "out of memory on this host");
	else if (oom_is_memory_max(sv, s->limit))
		snprintf(text, size, "out of memory (limit memory_max %s)",
			size_format(sv->spec->resources.memory_max, bytes));
	else
		snprintf(text, size, "out of memory (limit %s of control group %.80s)",
			size_format(s->limit, bytes), s->group);
}

/* The data of the event; pid: of the worker that was killed, or 0. */
static json_t *oom_json(const struct oom_reading *s, pid_t pid)
{
	json_t *j = json_object();

	if (pid)
		json_put_int(j, "pid", pid);
	if (s->limit >= 0) {
		json_put_int(j, "limit", s->limit);
		json_put_string(j, "control_group", s->group);
	}
	return j;
}

static void oom_worker_killed(
	struct supervisor *sv, struct worker *w, const struct oom_reading *s, const char *why)
{
	char note[200];

	oom_explained(sv->oom, 1);
	if (!s->sure) {
		snprintf(note, sizeof(note),
			", perhaps killed by the kernel: it has killed %lld process%s on this "
			"host, out of memory",
			(long long)s->kills, s->kills == 1 ? "" : "es");
		worker_note_exit(w, note);
		return;
	}
	snprintf(note, sizeof(note), ", killed by the kernel: %s", why);
	worker_note_exit(w, note);
	w->exit.out_of_memory = true;
	supervisor_event(sv, "out-of-memory", w->rank, oom_json(s, w->pid),
		"%s (pid %d): killed by the kernel: %s", worker_name(w), (int)w->pid, why);
}

/* The kernel killed a process that w or another worker had started, and w failed after that. */
static void oom_process_killed(
	struct supervisor *sv, struct worker *w, const struct oom_reading *s, const char *why)
{
	char text[224], note[240];

	snprintf(text, sizeof(text), "the kernel killed %lld process%s of the job: %s",
		(long long)s->kills, s->kills == 1 ? "" : "es", why);
	snprintf(note, sizeof(note), ", after %s", text);
	oom_explained(sv->oom, s->kills);
	worker_note_exit(w, note);
	supervisor_event(
		sv, "out-of-memory", w->rank, oom_json(s, 0), "%s: %s", worker_name(w), text);
}

void supervisor_note_oom(struct supervisor *sv, struct worker *w)
{
	struct oom_reading s;
	char why[160];

	if (w->exit.signal == SIGKILL && sv->sigkilled)
		sv->sigkilled--;
	if (!worker_bad_exit(w) || w->exit.error || w->stop_us || w->on_purpose)
		return;
	oom_read(sv->oom, &s);
	/* Kills that may be those of workers whose ends come next are left to them. */
	if (w->exit.signal != SIGKILL)
		s.kills = s.sure && s.kills > sv->sigkilled ? s.kills - sv->sigkilled : 0;
	if (!s.kills)
		return;
	oom_text(sv, &s, why, sizeof(why));
	if (w->exit.signal == SIGKILL)
		oom_worker_killed(sv, w, &s, why);
	else
		oom_process_killed(sv, w, &s, why);
}
