/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/columns.h"

#include "client/base/ctl.h"
#include "client/base/job.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <stdio.h>

const char *top_size(int64_t bytes, char buf[16])
{
	static const char units[] = "BKMGTP";
	double n = (double)bytes;
	size_t u = 0;

	while (n >= 999.5 && u + 2 < sizeof(units)) {
		n /= 1024;
		u++;
	}
	snprintf(buf, 16, "%.*f%c", u && n < 99.95 ? 1 : 0, n, units[u]);
	return buf;
}

/* --- values to sort by --- */

static double number_or_none(const json_t *j, const char *key)
{
	const json_t *v = json_object_get(j, key);

	return json_is_number(v) ? json_number_value(v) : -1;
}

static const json_t *first_worker(const struct top_item *item)
{
	return json_array_get(json_object_get(item->live, "workers"), 0);
}

#define TEXT_OF(name, key)                                   \
	static const char *name(const struct top_item *item) \
	{                                                    \
		return get_text(item->object, key);          \
	}
#define NUMBER_OF(name, where, key)                     \
	static double name(const struct top_item *item) \
	{                                               \
		return number_or_none(where, key);      \
	}

TEXT_OF(name_of, "name")
TEXT_OF(state_of, "state")
NUMBER_OF(attempt_of, item->object, "attempt")
NUMBER_OF(restarts_of, item->object, "restarts")
NUMBER_OF(silent_of, item->object, "silent_workers")
NUMBER_OF(job_memory_of, item->live, "memory_bytes")
NUMBER_OF(job_speed_of, first_worker(item), "steps_per_s")
NUMBER_OF(rank_of, item->object, "rank")
NUMBER_OF(pid_of, item->object, "pid")
NUMBER_OF(memory_of, item->object, "rss_bytes")
NUMBER_OF(step_of, item->object, "step")
NUMBER_OF(speed_of, item->object, "steps_per_s")
TEXT_OF(last_of, "last_line")

static const char *job_state_of(const struct top_item *item)
{
	return job_unready(item->object) ? "not ready" : state_of(item);
}

static double workers_of(const struct top_item *item)
{
	return job_workers(item->object, NULL);
}

static double cpu_of(const struct top_item *item)
{
	return item->cpu;
}

static double gpu_percent_of(const struct top_item *item)
{
	return item->gpu_percent;
}

static double gpu_memory_of(const struct top_item *item)
{
	return (double)item->gpu_bytes;
}

static const char *id_of(const struct top_item *item)
{
	return item->id;
}

static const char *job_last_of(const struct top_item *item)
{
	return get_text(first_worker(item), "last_line");
}

/* --- cells --- */

static void number_cell(struct table *t, double n)
{
	if (n < 0)
		table_cell(t, COLOR_DIM, "-");
	else
		table_cellf(t, COLOR_NONE, "%.0f", n);
}

static void name_cell(struct table *t, const struct top_item *item)
{
	table_cell(t, COLOR_BOLD, name_of(item));
}

static void state_cell(struct table *t, const struct top_item *item)
{
	table_cell(t, job_unready(item->object) ? COLOR_YELLOW : color_state(state_of(item)),
		job_state_of(item));
}

static void restarts_cell(struct table *t, const struct top_item *item)
{
	int used = (int)get_int(item->object, "restarts"),
	    max = (int)get_int(item->object, "max_restarts");
	enum color c = max > 0 && used >= max ? COLOR_YELLOW : COLOR_NONE;

	if (max < 0)
		table_cellf(t, c, "%d", used);
	else
		table_cellf(t, c, "%d/%d", used, max);
}

static void cpu_cell(struct table *t, const struct top_item *item)
{
	if (item->cpu < 0)
		table_cell(t, COLOR_DIM, "-");
	else
		table_cellf(t, COLOR_NONE, "%.*f", item->cpu < 99.95 ? 1 : 0, item->cpu);
}

static void size_cell(struct table *t, double bytes)
{
	char text[16];

	table_cell(t, bytes < 0 ? COLOR_DIM : COLOR_NONE,
		bytes < 0 ? "-" : top_size((int64_t)bytes, text));
}

static void speed_of_cell(struct table *t, double per_s, bool slow)
{
	if (per_s < 0)
		table_cell(t, COLOR_DIM, "-");
	else
		table_cellf(
			t, slow ? COLOR_YELLOW : COLOR_NONE, "%.*f", per_s < 9.995 ? 2 : 1, per_s);
}

static void job_speed_cell(struct table *t, const struct top_item *item)
{
	speed_of_cell(t, job_speed_of(item), false);
}

static void speed_cell(struct table *t, const struct top_item *item)
{
	speed_of_cell(t, speed_of(item), has_value(item->object, "straggler"));
}

static void silent_cell(struct table *t, const struct top_item *item)
{
	double silent = silent_of(item);

	if (silent < 0)
		table_cell(t, COLOR_DIM, "-");
	else if (silent > 0)
		table_cellf(t, COLOR_RED, "%.0f late", silent);
	else
		table_cell(t, COLOR_GREEN, "ok");
}

/* Why it does not run, else its last line. */
static void job_last_cell(struct table *t, const struct top_item *item)
{
	const char *line = job_last_of(item), *reason = get_text(item->object, "reason");

	if (get_int(item->object, "agent_silent_since_us"))
		table_cell(t, COLOR_RED, "its agent does not answer");
	else if (line && *line && job_in(item->object, "running"))
		table_cell(t, COLOR_NONE, line);
	else
		table_cell(t, COLOR_DIM, reason);
}

static void worker_cell(struct table *t, const struct top_item *item)
{
	table_cell(t, COLOR_BOLD, item->id);
}

static void pid_cell(struct table *t, const struct top_item *item)
{
	number_cell(t, has_value(item->object, "ended_us") ? -1 : pid_of(item));
}

/* Its state, or how it ended. */
static void worker_state_cell(struct table *t, const struct top_item *item)
{
	const json_t *ex = json_object_get(item->object, "exit");
	const char *state = state_of(item);
	char end[32];

	if (state && json_is_object(ex) && job_in(item->object, "failed"))
		table_cellf(t, color_state(state), "%s %s", state, job_exit_short(ex, end));
	else
		table_cellf(t, color_state(state), "%s%s", state ? state : "?",
			json_get_bool(item->object, "attached", false) ? " attached" : "");
}

static void last_cell(struct table *t, const struct top_item *item)
{
	const char *line = last_of(item);

	if (line && *line)
		table_cell(t, COLOR_NONE, line);
	else
		table_cell(t, COLOR_DIM, get_text(item->object, "reason"));
}

const struct top_column top_job_columns[] = {
	{ "JOB", TABLE_SHRINK, 0, NULL, name_of, name_cell },
	{ "STATE", 0, 0, NULL, job_state_of, state_cell },
	{ "ATT", TABLE_RIGHT | TABLE_DROP(6), TOP_FALLS, attempt_of, NULL, NULL },
	{ "RST", TABLE_RIGHT | TABLE_DROP(5), TOP_FALLS, restarts_of, NULL, restarts_cell },
	{ "RANKS", TABLE_RIGHT | TABLE_DROP(3), TOP_FALLS, workers_of, NULL, NULL },
	{ "CPU%", TABLE_RIGHT, TOP_RARE | TOP_FALLS | TOP_LIVE, cpu_of, NULL, cpu_cell },
	{ "MEM", TABLE_RIGHT, TOP_RARE | TOP_FALLS | TOP_LIVE | TOP_SIZE, job_memory_of, NULL,
		NULL },
	{ "GPU%", TABLE_RIGHT | TABLE_DROP(4), TOP_RARE | TOP_FALLS, gpu_percent_of, NULL, NULL },
	{ "GPUMEM", TABLE_RIGHT | TABLE_DROP(2), TOP_RARE | TOP_FALLS | TOP_SIZE, gpu_memory_of,
		NULL, NULL },
	{ "STEPS/S", TABLE_RIGHT, TOP_RARE | TOP_FALLS | TOP_LIVE, job_speed_of, NULL,
		job_speed_cell },
	{ "BEATS", 0, TOP_RARE | TOP_FALLS, silent_of, NULL, silent_cell },
	{ "LAST LINE", 0, TOP_LIVE, NULL, job_last_of, job_last_cell },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct top_column top_worker_columns[] = {
	{ "RANK", TABLE_RIGHT, 0, rank_of, NULL, NULL },
	{ "WORKER", 0, 0, NULL, id_of, worker_cell },
	{ "STATE", TABLE_SHRINK, 0, NULL, state_of, worker_state_cell },
	{ "PID", TABLE_RIGHT | TABLE_DROP(4), 0, pid_of, NULL, pid_cell },
	{ "CPU%", TABLE_RIGHT, TOP_FALLS, cpu_of, NULL, cpu_cell },
	{ "MEM", TABLE_RIGHT | TABLE_DROP(2), TOP_FALLS | TOP_SIZE, memory_of, NULL, NULL },
	{ "GPU%", TABLE_RIGHT | TABLE_DROP(5), TOP_RARE | TOP_FALLS, gpu_percent_of, NULL, NULL },
	{ "GPUMEM", TABLE_RIGHT | TABLE_DROP(1), TOP_RARE | TOP_FALLS | TOP_SIZE, gpu_memory_of,
		NULL, NULL },
	{ "STEP", TABLE_RIGHT | TABLE_DROP(3), TOP_RARE | TOP_FALLS, step_of, NULL, NULL },
	{ "STEPS/S", TABLE_RIGHT, TOP_RARE | TOP_FALLS, speed_of, NULL, speed_cell },
	{ "LAST LINE", 0, 0, NULL, last_of, last_cell },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

void top_column_cell(const struct top_column *column, struct table *t, const struct top_item *item)
{
	if (column->cell)
		column->cell(t, item);
	else if (column->flags & TOP_SIZE)
		size_cell(t, column->number(item));
	else
		number_cell(t, column->number(item));
}
