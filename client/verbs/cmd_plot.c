/* SPDX-License-Identifier: Apache-2.0 */
/* plot: draws a run, from elasticd or from the files that its agent wrote. */
#include "client/base/job.h"
#include "client/output/screen.h"
#include "client/plot/svg.h"
#include "client/verbs/verbs.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* --- files --- */

/* Opens a regular file for reading: a FIFO in its place must not block. NULL with errno. */
static FILE *file_open(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *f;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode)) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
		return NULL;
	}
	f = fdopen(fd, "r");
	if (f)
		fd = -1;
	return f;
}

/* The host whose agent wrote the events beside which job.json is; owned, NULL if it is not known.
 */
static char *file_host(const char *events)
{
	const char *slash = strrchr(events, '/');
	_cleanup_json_ json_t *job = NULL;
	_cleanup_free_ char *path = NULL;
	struct error err = { 0 };
	const char *host;

	if (asprintf(&path, "%.*sjob.json", slash ? (int)(slash + 1 - events) : 0, events) < 0) {
		path = NULL;
		return NULL;
	}
	if (json_read_file(path, 0, &job, &err) < 0)
		return NULL;
	host = json_get_string(job, "host", NULL);
	return host ? strdup(host) : NULL;
}

/* Events that are older than the first word about the host's clock have that clock, too. */
static void file_clock(struct plot *p, FILE *f)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_json_ json_t *event = NULL;
	size_t cap = 0;

	while (!event && getline(&line, &cap, f) > 0)
		if (strstr(line, "\"event\":\"clock\""))
			event = json_loads(line, 0, NULL);
	plot_clock(p, event);
	rewind(f);
}

static int file_events(struct ctl *ctl, struct plot *p, const char *path)
{
	_cleanup_file_ FILE *f = file_open(path);
	_cleanup_free_ char *line = NULL, *host = NULL;
	size_t cap = 0, before = p->events;

	if (!f)
		return ctl_error(ctl, CTL_REFUSED, "%s: %s", path, strerror(errno));
	host = file_host(path);
	plot_source(p, host);
	file_clock(p, f);
	while (getline(&line, &cap, f) > 0) {
		/* A line that a full disk cut short is left out. */
		json_t *event = json_loads(line, 0, NULL);

		plot_add(p, event);
		json_decref(event);
	}
	if (ferror(f))
		return ctl_error(ctl, CTL_REFUSED, "%s: cannot be read", path);
	if (p->events == before)
		return ctl_error(ctl, CTL_REFUSED, "%s: no events of a run", path);
	return 0;
}

/* A run's directory, or its events.jsonl. */
static int file_add(struct ctl *ctl, struct plot *p, const char *path)
{
	_cleanup_free_ char *events = NULL;
	struct stat st;

	if (stat(path, &st) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return file_events(ctl, p, path);
	if (asprintf(&events, "%s/events.jsonl", path) < 0) {
		events = NULL;
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	}
	return file_events(ctl, p, events);
}

/* --- elasticd --- */

/* Names workers that no event names yet, because they have not ended. */
static void daemon_names(struct plot *p, const json_t *job)
{
	json_t *worker;
	size_t i;

	json_array_foreach (json_object_get(job, "workers"), i, worker)
		plot_name(p, (int)get_int(worker, "rank"), get_text(worker, "role"),
			(int)get_int(worker, "index"));
}

static int daemon_add(struct ctl *ctl, struct plot *p, const char *name)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_json_ json_t *job = NULL;
	bool more = true;
	int r = job_status(ctl, name, false, &job);

	if (r != 0)
		return r;
	plot_source(p, NULL);
	r = ctl_stream(ctl, "Events", ctl_job(get_text(job, "run")), &link);
	while (r == 0 && more) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *event;
		size_t i;

		r = ctl_next(ctl, link, &answer, &more);
		json_array_foreach (json_object_get(answer, "events"), i, event)
			plot_add(p, event);
	}
	if (r == 0 && !p->events)
		return ctl_error(ctl, CTL_REFUSED, "%s: elasticd has no events of it", name);
	daemon_names(p, job);
	return r;
}

int cmd_plot(struct ctl *ctl, struct args *args)
{
	_cleanup_(plot_fini) struct plot p = { 0 };
	bool live = !strchr(args->argv[0], '/');
	int r = 0;

	if (ctl->json)
		return ctl_usage(ctl, "plot writes a picture: events --json has what it shows");
	if (ctl->columns > 0)
		return ctl_usage(ctl, "plot writes a picture: redirect it to a file");
	p.several = args->argc > 1;
	for (int i = 0; i < args->argc && r == 0; i++) {
		if (i && (live || !strchr(args->argv[i], '/')))
			return ctl_usage(ctl,
				"several runs are drawn as one group only from their directories");
		r = live ? daemon_add(ctl, &p, args->argv[i]) : file_add(ctl, &p, args->argv[i]);
	}
	if (r != 0)
		return r;
	screen_exact(stdout);
	r = plot_finish(&p, live ? ctl_now_us() : 0);
	if (r == 0)
		r = args_has(args, "html") ? svg_write_page(&p, stdout) : svg_write(&p, stdout);
	return r < 0 ? ctl_error(ctl, CTL_FAILED, "out of memory") : 0;
}
