/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/numbers.h"

#include "common/text/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define GAUGE(n, h, p)                                               \
	{                                                            \
		"elasticd_job_" n, METRIC_GAUGE, h, NULL, NULL, p, 1 \
	}
#define GAUGE_OF(n, h, l, v, p)                                \
	{                                                      \
		"elasticd_job_" n, METRIC_GAUGE, h, l, v, p, 1 \
	}
#define COUNT(n, h, p)                                                 \
	{                                                              \
		"elasticd_job_" n, METRIC_COUNTER, h, NULL, NULL, p, 1 \
	}
#define COUNT_OF(n, h, l, v, p)                                  \
	{                                                        \
		"elasticd_job_" n, METRIC_COUNTER, h, l, v, p, 1 \
	}
#define TIME(n, h, p, s)                                                        \
	{                                                                       \
		"elasticd_job_" n "_seconds", METRIC_GAUGE, h, NULL, NULL, p, s \
	}

/* A path that begins with "=" counts the workers in that state, with "#" the items of a list; with
 * "+", "<", ">" and "?" it is the sum, the least, the greatest and the number of what workers have
 * by that name. */
#define WORKERS(state) \
	GAUGE_OF("workers", "Workers of this host by their state.", "state", state, "=" state)
#define RESTARTS(cause)                                                                        \
	COUNT_OF("restarts", "Restarts of the group by their cause, counted or not.", "cause", \
		cause, "restarts_by_cause." cause)
#define SPENT(part)                                                                                \
	{                                                                                          \
		"elasticd_job_time_seconds", METRIC_GAUGE, "What the run's time went to.", "part", \
			part, "goodput." part "_ms", 1e-3                                          \
	}
#define TASKS_OVER(result)                                                                     \
	COUNT_OF("queue_tasks_ended", "Tasks of the queue that have ended.", "result", result, \
		"queue." result)

const struct metric_row metric_rows[] = {
	TIME("start_timestamp", "When the run began.", "started_us", 1e-6),
	GAUGE("attempt", "Number of the group's attempt, from 0.", "attempt"),
	WORKERS("waiting"),
	WORKERS("starting"),
	WORKERS("running"),
	WORKERS("stopping"),
	WORKERS("succeeded"),
	WORKERS("failed"),
	WORKERS("stopped"),
	RESTARTS("exit"),
	RESTARTS("signal"),
	RESTARTS("exec"),
	RESTARTS("finished"),
	RESTARTS("operator"),
	RESTARTS("scale"),
	RESTARTS("agent-lost"),
	RESTARTS("heartbeat"),
	GAUGE("restarts_used", "Restarts that the restart budget paid for.", "restarts"),
	GAUGE("restarts_max",
		"Restarts that the restart budget allows; -1: its window limits them.",
		"max_restarts"),
	GAUGE_OF("queue_tasks", "Tasks of the queue that have not ended.", "state", "queued",
		"queue.queued"),
	GAUGE_OF("queue_tasks", "Tasks of the queue that have not ended.", "state", "running",
		"queue.running"),
	TASKS_OVER("succeeded"),
	TASKS_OVER("failed"),
	TASKS_OVER("cancelled"),
	COUNT("queue_put_back", "How often a task was put back for another worker.",
		"queue.put_back"),
	GAUGE("queue_workers", "Workers that take tasks of the queue.", "queue.workers"),
	GAUGE("workers_slow", "Workers that are slower than the others.", "?straggler"),
	GAUGE_OF("step", "Number of the last step of the first and the last of the workers.", "of",
		"last", "<step"),
	GAUGE_OF("step", "Number of the last step of the first and the last of the workers.", "of",
		"first", ">step"),
	GAUGE("steps_per_second", "Steps per second of the slowest worker.", "<steps_per_s"),
	{ "elasticd_job_goodput_ratio", METRIC_GAUGE,
		"Share of the run's time in which it made progress.", NULL, NULL, "goodput.percent",
		0.01 },
	SPENT("working"),
	SPENT("waiting"),
	SPENT("starting"),
	SPENT("stopping"),
	SPENT("saving"),
	SPENT("hanging"),
	SPENT("repeated"),
	SPENT("unknown"),
	GAUGE("memory_bytes", "Memory of the workers of this host.", "+rss_bytes"),
	{ "elasticd_job_cpu_seconds", METRIC_GAUGE,
		"Processor time of the workers that run on this host.", NULL, NULL, "+cpu_ms",
		1e-3 },
	GAUGE("workers_silent", "Workers that have missed a heartbeat.", "silent_workers"),
	GAUGE("hosts", "Hosts of the group, with spares.", "#hosts"),
	TIME("etcd", "How long etcd took for its last answer to this host.", "etcd_ms", 1e-3),
};

const size_t metric_n_rows = sizeof(metric_rows) / sizeof(*metric_rows);
static_assert(
	sizeof(metric_rows) / sizeof(*metric_rows) <= METRIC_ROWS_MAX, "a value for each row");

static double of_workers(const json_t *job, char what, const char *key)
{
	const json_t *workers = json_object_get(job, "workers");
	double all = NAN, one;
	json_t *worker, *value;
	size_t i;
	int n = 0;

	json_array_foreach ((json_t *)workers, i, worker) {
		value = json_object_get(worker, key);
		n += value != NULL;
		if (!json_is_number(value))
			continue;
		one = json_number_value(value);
		if (isnan(all))
			all = one;
		else if (what == '+')
			all += one;
		else if (what == '<' ? one < all : one > all)
			all = one;
	}
	return what == '?' && json_is_array(workers) ? n : all;
}

static double count_workers(const json_t *job, const char *state)
{
	const json_t *workers = json_object_get(job, "workers");
	json_t *worker;
	size_t i;
	int n = 0;

	if (!json_is_array(workers))
		return NAN;
	json_array_foreach (workers, i, worker)
		n += !strcmp(json_get_string(worker, "state", ""), state);
	return n;
}

static double number_at(const json_t *job, const char *path)
{
	const char *dot = strchr(path, '.');
	const json_t *list;
	char key[32];

	if (path[0] == '=')
		return count_workers(job, path + 1);
	if (path[0] == '#') {
		list = json_object_get(job, path + 1);
		return json_is_array(list) ? (double)json_array_size(list) : NAN;
	}
	if (strchr("+<>?", path[0]))
		return of_workers(job, path[0], path + 1);
	if (dot && (size_t)(dot - path) < sizeof(key)) {
		memcpy(key, path, (size_t)(dot - path));
		key[dot - path] = '\0';
		job = json_object_get(job, key);
		path = dot + 1;
		if (job && !json_object_get(job, path))
			return 0; /* counts that are 0 may be left out */
	}
	job = json_object_get(job, path);
	return json_is_number(job) ? json_number_value(job) : NAN;
}

void job_numbers_read(const json_t *job, struct job_numbers *ret)
{
	for (size_t i = 0; i < metric_n_rows; i++)
		ret->values[i] = number_at(job, metric_rows[i].path) * metric_rows[i].scale;
}
