/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/page.h"

#include "common/base/proc.h"
#include "daemon/metrics/metrics.h"
#include "daemon/metrics/open_metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct page {
	struct open_metrics text;
	struct daemon *daemon;
	struct readings *readings;
	enum access_level level;
	uid_t uid;
};

static void page_number(
	struct page *p, const char *name, const char *type, const char *help, double number)
{
	open_metrics_family(&p->text, name, type, help);
	open_metrics_sample(&p->text, NULL, NULL, NULL, number);
}

static double open_descriptors(void)
{
	struct stat st;
	/* Since Linux 6.2 their number is the directory's size. */
	bool sized = stat("/proc/self/fd", &st) == 0 && st.st_size > 0;
	_cleanup_close_ int fd =
		sized ? -1 : open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int n = 0;

	if (sized)
		return (double)st.st_size;
	if (!dir)
		return NAN;
	TAKE_FD(fd);
	while (readdir(dir))
		n++;
	return n - 3; /* ".", ".." and its own */
}

static void page_process(struct page *p)
{
	struct proc_stat self = { 0 };
	struct rusage used = { 0 };
	double cpu;

	getrusage(RUSAGE_SELF, &used);
	cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	      1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	open_metrics_family(&p->text, "elasticd_build", "info", "The version of elasticd.");
	open_metrics_sample(&p->text, NULL, "version", VERSION, 1);
	page_number(p, "process_start_time_seconds", "gauge", "When elasticd began.",
		1e-6 * (double)p->daemon->started_us);
	page_number(p, "process_cpu_seconds", "counter", "Processor time of elasticd.", cpu);
	if (proc_stat_read(getpid(), &self) == 0)
		page_number(p, "process_resident_memory_bytes", "gauge", "Memory of elasticd.",
			(double)self.rss_bytes);
	page_number(p, "process_open_fds", "gauge", "Open descriptors of elasticd.",
		open_descriptors());
}

static bool page_sees(const struct page *p, const struct job *j)
{
	return access_job(p->level, p->uid, j->rec.uid);
}

static void page_jobs(struct page *p, const struct ended_counts *ended)
{
	int n[MIRROR_N] = { 0 };

	for (struct job *j = registry_first_active(p->daemon->registry); j;
		j = registry_next_active(j))
		if (!job_is_over(j) && page_sees(p, j))
			n[j->mirror.state]++;
	open_metrics_family(&p->text, "elasticd_jobs", "gauge", "Active jobs by their state.");
	for (int i = 0; i < MIRROR_N; i++)
		if (!mirror_state_ended(i))
			open_metrics_sample(&p->text, NULL, "state", mirror_state_name(i), n[i]);
	if (p->level != ACCESS_ALL)
		return;
	open_metrics_family(&p->text, "elasticd_jobs_ended", "counter",
		"Runs that ended since elasticd began, by their last state.");
	for (int i = 0; i < MIRROR_N; i++)
		if (mirror_state_ended(i))
			open_metrics_sample(
				&p->text, NULL, "state", mirror_state_name(i), (double)ended->n[i]);
}

static bool page_shows_end(const struct page *p, const struct job *j, int64_t since_us)
{
	return job_is_over(j) && j->mirror.ended_us >= since_us && page_sees(p, j);
}

/* A job that has ended has no numbers any more; for alerts its end is seen for a while. */
static void page_ends(struct page *p)
{
	struct registry *r = p->daemon->registry;
	int64_t since_us = (int64_t)loop_real_us() - METRICS_ENDED_S * INT64_C(1000000);
	char labels[READING_LABELS_MAX];
	int surplus = -METRICS_ENDED_MAX;

	for (struct job *j = registry_first(r); j; j = registry_next(j))
		surplus += page_shows_end(p, j, since_us);
	open_metrics_family(&p->text, "elasticd_job_end_timestamp_seconds", "gauge",
		"When a run ended, by its last state; for an hour.");
	for (struct job *j = registry_first(r); j; j = registry_next(j)) {
		if (!page_shows_end(p, j, since_us) || surplus-- > 0)
			continue;
		labels[0] = '\0';
		open_metrics_label(labels, sizeof(labels), "name", j->rec.name);
		open_metrics_label(labels, sizeof(labels), "run", j->rec.run);
		open_metrics_label(labels, sizeof(labels), "user", j->rec.user);
		open_metrics_sample(&p->text, labels, "state", mirror_state_name(j->mirror.state),
			1e-6 * (double)j->mirror.ended_us);
	}
}

static void page_states(struct page *p)
{
	open_metrics_family(&p->text, "elasticd_job_state", "gauge",
		"1 for the state that the job is in; a job has no other sample.");
	for (struct reading *x = readings_first(p->readings); x; x = readings_next(x))
		if (page_sees(p, x->job))
			open_metrics_sample(&p->text, x->labels, "state",
				mirror_state_name(x->job->mirror.state), 1);
	open_metrics_family(&p->text, "elasticd_job_up", "gauge",
		"1 where the job's agent answered; else the job has none of the numbers below.");
	for (struct reading *x = readings_first(p->readings); x; x = readings_next(x))
		if (page_sees(p, x->job))
			open_metrics_sample(&p->text, x->labels, NULL, NULL, x->known);
}

/* A state that no worker is in, or a part that no time went to, says nothing. */
static bool page_shows(const struct metric_row *row, double number)
{
	return !isnan(number) && (number != 0 || !row->label || row->type == METRIC_COUNTER);
}

static void page_row(struct page *p, size_t i)
{
	const struct metric_row *row = &metric_rows[i];

	if (i == 0 || strcmp(row->name, metric_rows[i - 1].name) != 0)
		open_metrics_family(&p->text, row->name,
			row->type == METRIC_COUNTER ? "counter" : "gauge", row->help);
	for (struct reading *x = readings_first(p->readings); x; x = readings_next(x))
		if (x->known && page_shows(row, x->numbers.values[i]) && page_sees(p, x->job))
			open_metrics_sample(
				&p->text, x->labels, row->label, row->value, x->numbers.values[i]);
}

char *page_text(struct daemon *d, struct readings *readings, const struct ended_counts *ended,
	enum access_level level, uid_t uid, size_t *ret_len)
{
	struct page p = { .daemon = d, .readings = readings, .level = level, .uid = uid };

	page_process(&p);
	page_jobs(&p, ended);
	page_ends(&p);
	page_states(&p);
	for (size_t i = 0; i < metric_n_rows; i++)
		page_row(&p, i);
	return open_metrics_end(&p.text, ret_len);
}
