/* SPDX-License-Identifier: Apache-2.0 */
/* status: a page for each job in the form of systemctl's, with a table of its workers. */
#include "client/base/address.h"
#include "client/base/job.h"
#include "client/base/preemption.h"
#include "client/output/screen.h"
#include "client/output/time_text.h"
#include "client/output/wrap.h"
#include "client/verbs/listing.h"
#include "client/verbs/verbs.h"
#include "common/base/memstream.h"
#include "common/base/printable.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/text/size.h"

#include <inttypes.h>
#include <string.h>

/* The column where a field's text begins, and goes on in the next line where it is too long. */
enum { FIELD_INDENT = 12 };
/* With --watch: changes that come so soon one after the other are drawn together. */
enum { WATCH_TOGETHER_MS = 50 };

/* Prints "label: text more", text in a colour. */
static void print_field_more(
	const struct ctl *ctl, const char *label, const char *text, enum color c, const char *more)
{
	_cleanup_free_ char *shown = text ? printable_dup(text) : NULL, *line = NULL;

	if (shown &&
		asprintf(&line, "%10s%s %s%s%s%s\n", label, *label ? ":" : " ", ctl_color(ctl, c),
			shown, *ctl_color(ctl, c) ? COLOR_OFF : "", more) >= 0)
		wrap_print(stdout, line, FIELD_INDENT, ctl->columns);
}

static void print_field(const struct ctl *ctl, const char *label, const char *text, enum color c)
{
	print_field_more(ctl, label, text, c, "");
}

static void state_field(const struct ctl *ctl, const json_t *job)
{
	char stamp[TIME_TEXT_MAX], ago[TIME_TEXT_MAX], more[2 * TIME_TEXT_MAX + 32] = "";
	const char *state = get_text(job, "state");
	int64_t since = job_since_us(job);
	bool steady = job_ended(job) || job_in(job, "running") || !has_value(job, "started_us");

	/* Between these states the job only says when its workers were started. */
	if (since > 0)
		snprintf(more, sizeof(more), "%s%s %s; %s", job_unready(job) ? ", not ready," : "",
			steady ? " since" : ", started", time_text_timestamp(since, stamp),
			time_text_ago(ctl_now_us(), since, ago));
	print_field_more(ctl, "State", state ? state : "?", color_state(state), more);
}

static void run_field(const struct ctl *ctl, const json_t *job)
{
	const char *user = json_get_string(job, "user", "?"),
		   *run = json_get_string(job, "run", "?");
	char text[512];

	snprintf(text, sizeof(text), "%s, attempt %d, as %s", run, (int)get_int(job, "attempt"),
		user);
	print_field(ctl, "Run", text, COLOR_NONE);
}

static bool any_worker_has(const json_t *job, const char *key)
{
	json_t *worker;
	size_t i;

	json_array_foreach (json_object_get(job, "workers"), i, worker)
		if (has_value(worker, key))
			return true;
	return false;
}

static void restart_fields(const struct ctl *ctl, const json_t *job)
{
	int used = (int)get_int(job, "restarts"), max = (int)get_int(job, "max_restarts");
	/* Only workers that restart on their own have a limit of their own. */
	bool alone = any_worker_has(job, "max_restarts");
	const char *whose = alone ? " of the group" : "";
	const char *more = alone ? "; workers have their own (see elasticctl why)" : "";
	char text[128], ago[TIME_TEXT_MAX];

	if (max > 0)
		snprintf(text, sizeof(text), "%d of %d used%s%s", used, max, whose, more);
	else if (max < 0)
		snprintf(text, sizeof(text), "%d used%s, limited by restart.window%s", used, whose,
			more);
	else
		snprintf(text, sizeof(text), "%s%s", alone ? "none of the group" : "none allowed",
			more);
	print_field(ctl, "Restarts", text, max > 0 && used >= max ? COLOR_YELLOW : COLOR_NONE);
	if (has_value(job, "next_try_us"))
		print_field(ctl, "Next try",
			time_text_ago(ctl_now_us(), get_int(job, "next_try_us"), ago),
			COLOR_YELLOW);
}

static void workers_field(const struct ctl *ctl, const json_t *job)
{
	static const char *const states[] = { "running", "starting", "waiting", "stopping",
		"succeeded", "failed", "stopped" };
	const json_t *workers = json_object_get(job, "workers");
	char text[256] = "";
	size_t used = 0;

	for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
		json_t *worker;
		size_t i;
		int n = 0;

		json_array_foreach (workers, i, worker)
			n += job_in(worker, states[s]);
		if (n > 0 && used < sizeof(text))
			used += snprintf(text + used, sizeof(text) - used, "%s%d %s",
				used ? ", " : "", n, states[s]);
	}
	if (used > 0)
		print_field(ctl, "Workers", text, COLOR_NONE);
}

/* "93.2% of 4h 12m: 12m waiting, 3m starting" */
static void goodput_field(const struct ctl *ctl, const json_t *job)
{
	static const char *const parts[] = { "waiting", "starting", "stopping", "saving", "hanging",
		"repeated", "unknown" };
	const json_t *g = json_object_get(job, "goodput");
	char text[400], name[32], took[DURATION_TEXT_MAX];
	int used;

	if (!json_is_object(g) || !get_int(g, "total_ms"))
		return;
	used = snprintf(text, sizeof(text), "%.1f%% of %s",
		json_number_value(json_object_get(g, "percent")),
		duration_text(get_int(g, "total_ms"), took));
	for (size_t i = 0, n = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(name, sizeof(name), "%s_ms", parts[i]);
		if (!get_int(g, name) || used >= (int)sizeof(text))
			continue;
		used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%s %s",
			n++ ? ", " : ": ", duration_text(get_int(g, name), took), parts[i]);
	}
	print_field(ctl, "Goodput", text, COLOR_NONE);
}

/* A line for each straggler: of all hosts, or of this one. */
static void slow_fields(const struct ctl *ctl, const json_t *job)
{
	const char *label = "Slow", *role;
	json_t *worker;
	size_t i;

	json_array_foreach (json_object_get(job, "stragglers"), i, worker) {
		print_field(ctl, label, json_string_value(worker), COLOR_YELLOW);
		label = "";
	}
	if (i)
		return;
	json_array_foreach (json_object_get(job, "workers"), i, worker) {
		_cleanup_free_ char *text = NULL;

		role = get_text(worker, "role");
		if (!has_value(worker, "straggler") ||
			asprintf(&text, "%s:%d %s", role ? role : "worker",
				(int)get_int(worker, "index"), get_text(worker, "straggler")) < 0) {
			text = NULL;
			continue;
		}
		print_field(ctl, label, text, COLOR_YELLOW);
		label = "";
	}
}

static void preemption_fields(const struct ctl *ctl, const json_t *job)
{
	const json_t *p = preemption_of(job);
	_cleanup_free_ char *who = p ? preemption_who(p, ctl_now_us()) : NULL;
	_cleanup_free_ char *progress = p ? preemption_progress(p, ctl_now_us()) : NULL;

	if (!p)
		return;
	print_field(ctl, "Notice", who, COLOR_YELLOW);
	print_field(ctl, "Leaving", progress, COLOR_NONE);
}

static void queue_field(const struct ctl *ctl, const json_t *job)
{
	static const char *const counts[] = { "queued", "running", "over" };
	const json_t *q = json_object_get(job, "queue");
	char text[400] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && json_is_object(q); i++)
		used += snprintf(text + used, sizeof(text) - used, "%s%lld %s", used ? ", " : "",
			(long long)get_int(q, counts[i]), counts[i]);
	if (used && get_int(q, "put_back"))
		used += snprintf(text + used, sizeof(text) - used, ", %lld put back",
			(long long)get_int(q, "put_back"));
	if (used && has_value(q, "error"))
		snprintf(text + used, sizeof(text) - used, "; %.200s", get_text(q, "error"));
	if (used)
		print_field(ctl, "Queue", text, has_value(q, "error") ? COLOR_RED : COLOR_NONE);
}

/* ", clock +1.250 ms (+-0.040 ms)": what is added to that host's time to get that of the head. */
static void clock_text(const json_t *host, char *text, size_t size)
{
	*text = '\0';
	if (has_value(host, "offset_us") && has_value(host, "uncertainty_us"))
		snprintf(text, size, ", clock %+.3f ms (+-%.3f ms)",
			(double)get_int(host, "offset_us") / 1000,
			(double)get_int(host, "uncertainty_us") / 1000);
}

/* One line for each host of a group: "1 node1: ranks 2-3, running, heard 0.4 s ago, version 1.0".
 */
static void host_field(const struct ctl *ctl, const char *label, const json_t *host)
{
	int64_t first = get_int(host, "first_rank"), n = get_int(host, "workers");
	const char *version = get_text(host, "version"), *name = json_get_string(host, "host", "?");
	const char *state = json_get_string(host, "state", "?");
	char ranks[64] = "", heard[TIME_TEXT_MAX + 16] = "", took[TIME_TEXT_MAX], clock[64];
	char rank[24] = "-", text[768];
	char kept[TIME_TEXT_MAX + 32] = "";

	if (has_value(host, "group_rank"))
		snprintf(rank, sizeof(rank), "%lld", (long long)get_int(host, "group_rank"));
	if (n > 1)
		snprintf(ranks, sizeof(ranks), "ranks %lld-%lld, ", (long long)first,
			(long long)(first + n - 1));
	else if (n == 1)
		snprintf(ranks, sizeof(ranks), "rank %lld, ", (long long)first);
	if (has_value(host, "heard_us"))
		snprintf(heard, sizeof(heard), ", heard %s ago",
			time_text_since(ctl_now_us(), get_int(host, "heard_us"), took));
	if (has_value(host, "quarantine_us"))
		snprintf(kept, sizeof(kept), ", in quarantine until %s",
			time_text_clock(get_int(host, "quarantine_us"), true, took));
	clock_text(host, clock, sizeof(clock));
	snprintf(text, sizeof(text), "%s %.255s: %s%s%s%s%s%s%s%.64s", rank, name, ranks, state,
		json_get_bool(host, "leads", false) ? ", leads" : "", kept, heard, clock,
		version ? ", version " : "", version ? version : "");
	print_field(ctl, label, text, COLOR_NONE);
}

static void host_fields(const struct ctl *ctl, const json_t *job)
{
	const json_t *host;
	size_t i;

	json_array_foreach (json_object_get(job, "hosts"), i, host)
		host_field(ctl, i ? "" : "Hosts", host);
	print_field(ctl, "Note", get_text(job, "note"), COLOR_YELLOW);
}

static enum color verdict_color(const json_t *job)
{
	if (job_in(job, "preempted"))
		return COLOR_YELLOW;
	return job_exit_status(job) ? COLOR_RED : COLOR_GREEN;
}

static void agent_field(const struct ctl *ctl, const json_t *job, const char *pid)
{
	char text[640], stamp[TIME_TEXT_MAX], took[TIME_TEXT_MAX];
	int64_t since = get_int(job, "agent_silent_since_us");
	const char *why = get_text(job, "agent_silent_reason");

	if (!since) {
		print_field(ctl, "Agent", pid, COLOR_NONE);
		return;
	}
	snprintf(text, sizeof(text), "%s, has not answered since %s (%s)%s%s", pid,
		time_text_timestamp(since, stamp), time_text_since(ctl_now_us(), since, took),
		why ? ": " : "", why ? why : "");
	print_field(ctl, "Agent", text, COLOR_RED);
}

static void print_head(const struct ctl *ctl, const json_t *job)
{
	const char *name = json_get_string(job, "name", "?"), *command = get_text(job, "command");
	enum color c = color_state(get_text(job, "state"));
	const char *reason = get_text(job, "reason");
	const char *message = get_text(json_object_get(job, "verdict"), "message");
	_cleanup_free_ char *verdict = NULL, *line = NULL;
	_cleanup_free_ char *shown = command ? printable_dup(command) : NULL;
	char pid[32];

	if (asprintf(&line, "%s%s%s %s%s%s%s%s\n", ctl_color(ctl, c),
		    ctl->utf8 ? "\xe2\x97\x8f" : "*", *ctl_color(ctl, c) ? COLOR_OFF : "",
		    ctl_color(ctl, COLOR_BOLD), name, *ctl_color(ctl, COLOR_BOLD) ? COLOR_OFF : "",
		    shown ? " - " : "", shown ? shown : "") >= 0)
		wrap_print(stdout, line, WRAP_OWN, ctl->columns);
	state_field(ctl, job);
	/* The verdict says it where it is the same. */
	if (reason && *reason && (!message || strcmp(reason, message) != 0))
		print_field(ctl, "Reason", reason, COLOR_NONE);
	if (has_value(job, "verdict")) {
		verdict = job_verdict_text(job);
		print_field(ctl, "Verdict", verdict, verdict_color(job));
	}
	preemption_fields(ctl, job);
	run_field(ctl, job);
	restart_fields(ctl, job);
	if (has_value(job, "agent_pid") && !job_ended(job)) {
		snprintf(pid, sizeof(pid), "pid %d", (int)get_int(job, "agent_pid"));
		agent_field(ctl, job, pid);
	}
	print_field(ctl, "Logs", get_text(job, "log_dir"), COLOR_NONE);
	host_fields(ctl, job);
	workers_field(ctl, job);
	goodput_field(ctl, job);
	slow_fields(ctl, job);
	queue_field(ctl, job);
}

/* Adds the middle cells of a row: what differs from worker to worker. */
static void life_cells(struct table *t, const json_t *worker)
{
	const json_t *ex = json_object_get(worker, "exit");
	char buf[TIME_TEXT_MAX], end[32];
	int64_t until = has_value(worker, "ended_us") ? get_int(worker, "ended_us") : ctl_now_us();
	bool bad = has_value(ex, "signal") || has_value(ex, "error") || get_int(ex, "code") != 0;

	if (has_value(worker, "pid") && !has_value(worker, "ended_us"))
		table_cellf(t, COLOR_NONE, "%d", (int)get_int(worker, "pid"));
	else
		table_cell(t, COLOR_DIM, "-");
	job_exit_short(ex, end);
	table_cell(t, !*end ? COLOR_DIM : bad ? COLOR_RED : COLOR_NONE, *end ? end : "-");
	if (has_value(worker, "started_us"))
		table_cell(
			t, COLOR_NONE, time_text_since(until, get_int(worker, "started_us"), buf));
	else
		table_cell(t, COLOR_DIM, "-");
	table_cellf(t, COLOR_NONE, "%d", (int)get_int(worker, "restarts"));
}

static void who_cells(struct table *t, const json_t *worker)
{
	const char *role = json_get_string(worker, "role", "worker");

	table_cellf(t, COLOR_NONE, "%d", (int)get_int(worker, "rank"));
	table_cellf(t, COLOR_NONE, "%s:%d%s%s", role, (int)get_int(worker, "index"),
		json_get_bool(worker, "leader", false) ? " (leader)" : "",
		json_get_bool(worker, "extra", false) ? " (extra)" : "");
}

/* Adds the state, and what is special about it. */
static void state_cell(struct table *t, const json_t *worker)
{
	const char *state = get_text(worker, "state");
	char when[TIME_TEXT_MAX];

	state = state ? state : "?";
	if (has_value(worker, "next_start_us") && job_in(worker, "waiting"))
		table_cellf(t, COLOR_YELLOW, "%s, starts %s", state,
			time_text_ago(ctl_now_us(), get_int(worker, "next_start_us"), when));
	else
		table_cellf(t, color_state(state), "%s%s%s", state,
			json_get_bool(worker, "attached", false) ? ", attached" : "",
			json_get_bool(worker, "on_purpose", false) ? ", on purpose" : "");
}

static void saved_cell(struct table *t, const json_t *worker)
{
	const char *path = get_text(worker, "saved_path");

	if (has_value(worker, "saved_step"))
		table_cellf(t, COLOR_GREEN, "%lld%s%s", (long long)get_int(worker, "saved_step"),
			path ? " " : "", path ? path : "");
	else
		table_cell(t, COLOR_DIM, "-");
}

/* Adds the CPU share over the worker's life (above 100% on several CPUs), and the CPU time. */
static void cpu_cell(struct table *t, const json_t *worker)
{
	int64_t used_ms = get_int(worker, "cpu_ms");
	int64_t life_ms = (ctl_now_us() - get_int(worker, "started_us")) / 1000;
	char used[DURATION_TEXT_MAX];

	if (!has_value(worker, "cpu_ms"))
		table_cell(t, COLOR_DIM, "-");
	else if (!has_value(worker, "started_us") || life_ms <= 0)
		table_cell(t, COLOR_NONE, duration_text(used_ms, used));
	else
		table_cellf(t, COLOR_NONE, "%" PRId64 "%% %s",
			(used_ms * 100 + life_ms / 2) / life_ms, duration_text(used_ms, used));
}

static void step_cells(struct table *t, const json_t *worker)
{
	const json_t *speed = json_object_get(worker, "steps_per_s");

	if (has_value(worker, "step"))
		table_cellf(t, COLOR_NONE, "%" PRId64, get_int(worker, "step"));
	else
		table_cell(t, COLOR_DIM, "-");
	if (json_is_number(speed))
		table_cellf(t, has_value(worker, "straggler") ? COLOR_YELLOW : COLOR_NONE, "%.3g",
			json_number_value(speed));
	else
		table_cell(t, COLOR_DIM, "-");
}

static void live_cells(struct table *t, const json_t *worker)
{
	char size[SIZE_TEXT_MAX];
	const char *line = get_text(worker, "last_line"), *reason = get_text(worker, "reason");

	if (has_value(worker, "rss_bytes"))
		table_cell(t, COLOR_NONE, size_text(get_int(worker, "rss_bytes"), size));
	else
		table_cell(t, COLOR_DIM, "-");
	cpu_cell(t, worker);
	if (line && *line)
		table_cell(t, COLOR_NONE, line);
	else if (reason && *reason)
		table_cellf(t, COLOR_DIM, "(%s)", reason);
	else
		table_cell(t, COLOR_NONE, NULL);
}

static void workers_table(
	const struct ctl *ctl, const json_t *job, const struct ranks *wanted, bool full)
{
	bool saved = any_worker_has(job, "saved_step"), steps = any_worker_has(job, "steps");
	const struct {
		struct table_column column;
		bool shown;
	} all[] = {
		{ { "RANK", TABLE_RIGHT }, true },
		{ { "ROLE", 0 }, true },
		{ { "STATE", TABLE_SHRINK }, true },
		{ { "SAVED", TABLE_SHRINK }, saved },
		{ { "PID", TABLE_RIGHT | TABLE_DROP(7) }, true },
		{ { "EXIT", TABLE_DROP(2) }, true },
		{ { "UPTIME", TABLE_RIGHT | TABLE_DROP(3) }, true },
		{ { "RESTARTS", TABLE_RIGHT | TABLE_DROP(6) }, true },
		{ { "STEP", TABLE_RIGHT | TABLE_DROP(2) }, steps },
		{ { "STEPS/S", TABLE_RIGHT }, steps },
		{ { "RSS", TABLE_RIGHT | TABLE_DROP(5) }, true },
		{ { "CPU", TABLE_RIGHT | TABLE_DROP(4) }, true },
		{ { "LAST LINE", TABLE_DROP(1) }, true },
	};
	struct table_column columns[sizeof(all) / sizeof(all[0]) + 1] = { 0 };
	_cleanup_(table_freep) struct table *t = NULL;
	size_t n = 0;
	struct table_style style = ctl_table_style(ctl);
	json_t *worker;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].shown)
			columns[n++] = all[i].column;
	t = table_new(columns);
	if (!t)
		return;
	json_array_foreach (json_object_get(job, "workers"), i, worker) {
		if (wanted && !ranks_contains(wanted, (int)get_int(worker, "rank")))
			continue;
		who_cells(t, worker);
		state_cell(t, worker);
		if (saved)
			saved_cell(t, worker);
		life_cells(t, worker);
		if (steps)
			step_cells(t, worker);
		live_cells(t, worker);
	}
	if (table_rows(t) == 0)
		return;
	if (full)
		style.columns = 0;
	if (style.legend)
		putchar('\n');
	table_print(t, stdout, &style);
}

/* Gets a job with its live figures; prints an error, and returns CTL_NO_JOB if it does not exist.
 */
static int fetch_job(struct ctl *ctl, const char *name, json_t **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *error = NULL;
	struct error err = { 0 };
	int r = ctl_try(
		ctl, "Status", ctl_with(ctl_job(name), "live", json_true()), &answer, &error, &err);

	if (error)
		return ctl_error(ctl, !strcmp(error, "NotFound") ? CTL_NO_JOB : r, "%s", err.text);
	if (r == 0)
		*ret = json_incref(json_object_get(answer, "job"));
	return r;
}

/* The page of a job, with the workers that the address names. */
static int print_page(struct ctl *ctl, const struct address *a, const json_t *job, bool full)
{
	_cleanup_(ranks_fini) struct ranks wanted = { 0 };
	_cleanup_free_ char *set = NULL;
	struct error err = { 0 };

	if (address_ranks(a, job, &set, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	if (set && ranks_parse(&wanted, set, NULL, &err) < 0)
		return ctl_error(ctl, CTL_REFUSED, "%s", err.text);
	if (ctl->json || ctl->quiet)
		return 0;
	print_head(ctl, job);
	workers_table(ctl, job, set ? &wanted : NULL, full);
	return 0;
}

static int status_of_job(struct ctl *ctl, const char *text, bool full, bool first, json_t *all)
{
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *job = NULL;
	struct error err = { 0 };
	int r;

	if (address_parse(text, &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	r = fetch_job(ctl, a.job, &job);
	if (r != 0)
		return r;
	if (!first && !ctl->json && !ctl->quiet)
		putchar('\n');
	r = print_page(ctl, &a, job, full);
	if (r != 0)
		return r;
	json_array_append(all, job);
	return job_ended(job) ? CTL_NOT_ACTIVE : 0;
}

/* Without arguments: shows the daemon, then the active jobs. line: JSON in one line. */
static int status_of_all(struct ctl *ctl, bool line)
{
	_cleanup_json_ json_t *version = NULL, *list = NULL;
	char since[TIME_TEXT_MAX];
	const char *number;
	size_t n;
	int r = ctl_call(ctl, "Version", NULL, &version);

	if (r == 0)
		r = ctl_call(ctl, "List", NULL, &list);
	if (r != 0)
		return r;
	if (ctl->json) {
		_cleanup_json_ json_t *both =
			ctl_with(json_object(), "daemon", json_incref(version));

		both = ctl_with(both, "jobs", json_incref(json_object_get(list, "jobs")));
		ctl_print_json(both, line);
		return 0;
	}
	number = get_text(version, "version");
	n = json_array_size(json_object_get(list, "jobs"));
	printf("%s%s%s elasticd %s\n", ctl_color(ctl, COLOR_GREEN),
		ctl->utf8 ? "\xe2\x97\x8f" : "*", *ctl_color(ctl, COLOR_GREEN) ? COLOR_OFF : "",
		number ? number : "?");
	printf("%10s: pid %d, up %s\n", "Daemon", (int)get_int(version, "pid"),
		time_text_since(ctl_now_us(), get_int(version, "started_us"), since));
	print_field(ctl, "Socket", ctl->socket, COLOR_NONE);
	printf("%10s: %zu active\n", "Jobs", n);
	if (n > 0) {
		putchar('\n');
		listing_print(ctl, json_object_get(list, "jobs"));
	}
	return 0;
}

/* --- status --watch --- */

/* Draws what is printed between the two. */
struct drawing {
	FILE *before, *f;
	char *text;
	size_t size;
};

static int draw_begin(struct ctl *ctl, struct drawing *d)
{
	*d = (struct drawing){ .before = stdout };
	d->f = open_memstream(&d->text, &d->size);
	if (!d->f)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	stdout = d->f;
	return 0;
}

static void draw_end(const struct ctl *ctl, struct drawing *d, bool show, bool last)
{
	_cleanup_free_ char *text = NULL;

	stdout = d->before;
	text = memstream_end(d->f, &d->text);
	if (text && show && ctl->json)
		fputs(text, stdout), fflush(stdout);
	else if (text && show)
		screen_page(text, last);
}

/* Takes the next answer, and those that have come by then: only the last one counts. */
static int watch_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more)
{
	int r = 0;

	do {
		json_decref(*ret);
		*ret = NULL;
		r = ctl_next(ctl, link, ret, ret_more);
	} while (r == 0 && *ret_more && varlink_sync_wait(link, WATCH_TOGETHER_MS) == 1);
	return r;
}

/* With the figures of this moment, unless the run is over. */
static int watch_draw(
	struct ctl *ctl, const struct address *a, const char *run, bool full, bool *ret_ended)
{
	_cleanup_json_ json_t *job = NULL;
	struct drawing d;
	int r = fetch_job(ctl, run, &job);

	if (r == 0)
		r = draw_begin(ctl, &d);
	if (r != 0)
		return r;
	r = print_page(ctl, a, job, full);
	if (ctl->json)
		ctl_print_json(job, true);
	*ret_ended = job_ended(job);
	draw_end(ctl, &d, r == 0, *ret_ended);
	return r;
}

static int watch_job(struct ctl *ctl, const char *text, bool full)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_(address_fini) struct address a = { 0 };
	_cleanup_json_ json_t *answer = NULL;
	bool more = true, ended = false;
	struct error err = { 0 };
	int r;

	if (address_parse(text, &a, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	/* Says that there is no such job in the words of status. */
	r = fetch_job(ctl, a.job, &answer);
	if (r == 0)
		r = ctl_stream(ctl, "Watch", ctl_job(a.job), &link);
	while (r == 0 && more && !ended && !ferror(stdout)) {
		const char *run;

		r = watch_next(ctl, link, &answer, &more);
		run = get_text(json_object_get(answer, "job"), "run");
		if (r == 0)
			r = watch_draw(ctl, &a, run ? run : a.job, full, &ended);
	}
	return r ? r : CTL_NOT_ACTIVE;
}

static int watch_all(struct ctl *ctl)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_json_ json_t *answer = NULL;
	struct drawing d;
	bool more = true;
	int r = ctl_stream(ctl, "Events", ctl_with(json_object(), "follow", json_true()), &link);

	while (r == 0 && more && !ferror(stdout)) {
		r = draw_begin(ctl, &d);
		if (r != 0)
			break;
		r = status_of_all(ctl, true);
		draw_end(ctl, &d, r == 0, false);
		if (r == 0)
			r = watch_next(ctl, link, &answer, &more);
	}
	return r;
}

static int watch_status(struct ctl *ctl, const struct args *args, bool full)
{
	if (args->argc > 1)
		return ctl_usage(ctl, "--watch is for one job, got %d", args->argc);
	ctl->streams = true;
	return args->argc ? watch_job(ctl, args->argv[0], full) : watch_all(ctl);
}

int cmd_status(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *all = json_array();
	bool full = args_has(args, "full");
	int result = 0;

	if (full)
		ctl->columns = 0;
	if (args_has(args, "watch"))
		return watch_status(ctl, args, full);
	if (args->argc == 0)
		return status_of_all(ctl, false);
	for (int i = 0; i < args->argc; i++) {
		int r = status_of_job(ctl, args->argv[i], full, json_array_size(all) == 0, all);

		if (r == CTL_NO_DAEMON || r == CTL_TIMED_OUT || r == CTL_USAGE)
			return r;
		/* The largest status counts: "no such job" before "not active" before "active". */
		result = r > result ? r : result;
	}
	if (ctl->json && json_array_size(all) > 0)
		ctl_print_json(args->argc == 1 ? json_array_get(all, 0) : all, false);
	return result;
}
