/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"
#include "common/base/scan.h"
#include "common/base/signals.h"
#include "common/spec/spec.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/text/size.h"
#include "common/text/stdmap.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

/* One flag each: checks its value and puts it where the specification has it. */

/* Where the values of plain flags go in the specification. */
static const struct {
	const char *section, *key;
} places[OPT_COUNT] = {
	[OPT_REDIRECTS] = { "logs", "redirects" },
	[OPT_TEE] = { "logs", "tee" },
	[OPT_DUPLICATE_STDOUT] = { "logs", "duplicate_stdout" },
	[OPT_DUPLICATE_STDERR] = { "logs", "duplicate_stderr" },
	[OPT_PREFIX] = { "logs", "prefix" },
	[OPT_MERGE] = { "logs", "merge" },
	[OPT_TIMESTAMPS] = { "logs", "timestamps" },
	[OPT_MAX_SIZE] = { "logs", "max_size" },
	[OPT_KEEP_RUNS] = { "logs", "keep_runs" },
	[OPT_KEEP_DAYS] = { "logs", "keep_days" },
	[OPT_KEEP_BYTES] = { "logs", "keep_bytes" },
	[OPT_RESTART_POLICY] = { "restart", "policy" },
	[OPT_BACKOFF] = { "restart", "backoff" },
	[OPT_MAX_RUN_TIME] = { NULL, "max_run_time" },
	[OPT_SHUTDOWN_TIMEOUT] = { "stop", "timeout" },
	[OPT_NAME] = { NULL, "name" },
	[OPT_VIRTUAL_LOCAL_RANK] = { "compat", "virtual_local_rank" },
	[OPT_MAX_RESTARTS] = { "restart", "max" },
	[OPT_CWD] = { NULL, "cwd" },
	[OPT_LOG_DIR] = { "logs", "dir" },
};

static int set_plain(struct launch_state *s, enum launch_id id, json_t *value)
{
	return launch_set(s, places[id].section, places[id].key, value);
}

int launch_nothing(struct launch_state *s, enum launch_id id, const char *text)
{
	return 0;
}

int launch_text(struct launch_state *s, enum launch_id id, const char *text)
{
	return set_plain(s, id, launch_text_json(s, id, text));
}

int launch_true(struct launch_state *s, enum launch_id id, const char *text)
{
	return set_plain(s, id, json_true());
}

int launch_duration(struct launch_state *s, enum launch_id id, const char *text)
{
	char origin[LAUNCH_PET_MAX], buf[DURATION_TEXT_MAX];
	int64_t ms;
	int r = duration_parse_seconds(text, launch_origin(s, id, origin), &ms, s->err);

	return r < 0 ? r : set_plain(s, id, json_string(duration_format(ms, buf)));
}

int launch_streams(struct launch_state *s, enum launch_id id, const char *text)
{
	char origin[LAUNCH_PET_MAX];
	struct std_map map = { 0 };
	int r = std_map_parse(&map, text, launch_origin(s, id, origin), s->err);

	std_map_fini(&map);
	return r < 0 ? r : set_plain(s, id, json_string(text));
}

int launch_size(struct launch_state *s, enum launch_id id, const char *text)
{
	char origin[LAUNCH_PET_MAX];
	int64_t bytes;
	int r = size_parse(text, launch_origin(s, id, origin), &bytes, s->err);

	return r < 0 ? r : set_plain(s, id, json_string(text));
}

int launch_count(struct launch_state *s, enum launch_id id, const char *text)
{
	char expected[48];
	uint64_t count;

	if (scan_whole(text, INT_MAX, &count) == 0)
		return set_plain(s, id, json_integer((json_int_t)count));
	if (*text && strspn(text, "0123456789") == strlen(text))
		snprintf(expected, sizeof(expected), "an integer <= %d", INT_MAX);
	else
		snprintf(expected, sizeof(expected), "an integer >= 0");
	return launch_expected(s, id, expected, text);
}

int launch_nproc(struct launch_state *s, enum launch_id id, const char *text)
{
	json_t *role = launch_role_object(s, id), *value;
	uint64_t count;

	if (!role)
		return -EINVAL;
	if (!strcmp(text, "auto") || !strcmp(text, "cpu") || !strcmp(text, "gpu") ||
		!strcmp(text, "xpu"))
		value = json_string(text);
	else if (scan_whole(text, 4096, &count) == 0 && count)
		value = json_integer((json_int_t)count);
	else
		return launch_expected(
			s, id, "a number from 1 to 4096, auto, cpu, gpu or xpu", text);
	return json_put(role, "replicas", value) < 0 ? launch_no_memory(s) : 0;
}

int launch_role(struct launch_state *s, enum launch_id id, const char *text)
{
	json_t *role = launch_role_object(s, id), *value = launch_text_json(s, id, text);

	if (!role || !value) {
		json_decref(value);
		return -EINVAL;
	}
	return json_put(role, "name", value) < 0 ? launch_no_memory(s) : 0;
}

int launch_dir(struct launch_state *s, enum launch_id id, const char *text)
{
	_cleanup_free_ char *path = NULL;

	if (!*text)
		return launch_expected(s, id, "a directory", text);
	path = launch_absolute(NULL, text);
	if (!path)
		return launch_refuse(s, id, "the current directory: %s", strerror(errno));
	return set_plain(s, id, launch_text_json(s, id, path));
}

int launch_ranks_filter(struct launch_state *s, enum launch_id id, const char *text)
{
	char origin[LAUNCH_PET_MAX];
	struct ranks set = { 0 };
	int r;

	if (!*text)
		return 0;
	r = ranks_parse(&set, text, launch_origin(s, id, origin), s->err);
	ranks_fini(&set);
	return r < 0 ? r : launch_set(s, "logs", "filter", json_string(text));
}

/* Splits texts at commas; two commas are one that belongs to a text. */
int launch_duplicate(struct launch_state *s, enum launch_id id, const char *text)
{
	_cleanup_json_ json_t *array = json_array();
	_cleanup_free_ char *part = malloc(strlen(text) + 1);
	size_t n = 0;

	if (!part)
		return launch_no_memory(s);
	for (const char *p = text;; p++) {
		if (p[0] == ',' && p[1] == ',') {
			p++;
		} else if (!*p || *p == ',') {
			part[n] = '\0';
			if (n && json_add(array, launch_text_json(s, id, part)) < 0)
				return -EINVAL;
			n = 0;
			if (!*p)
				break;
			continue;
		}
		part[n++] = *p;
	}
	return set_plain(s, id, TAKE_PTR(array));
}

int launch_logs_specs(struct launch_state *s, enum launch_id id, const char *text)
{
	return launch_refuse(s, id,
		"plug-ins in Python are not loaded; see --log-dir, --redirects, --tee and --prefix");
}

int launch_numa_binding(struct launch_state *s, enum launch_id id, const char *text)
{
	for (int i = SPEC_AFFINITY_NODE; spec_affinity_names[i]; i++)
		if (!strcmp(spec_affinity_names[i], text))
			return launch_set(s, "resources", "affinity", json_string(text));
	return launch_expected(s, id, "node, socket, exclusive or core-complex", text);
}

int launch_stop_signal(struct launch_state *s, enum launch_id id, const char *text)
{
	char origin[LAUNCH_PET_MAX], name[SIGNALS_TEXT_MAX];
	int signo, r = signals_parse(text, launch_origin(s, id, origin), &signo, s->err);

	if (r < 0)
		return r;
	return launch_set(s, "stop", "signal", json_string(signals_short(signo, name)));
}

/* Skips unknown signal names with a warning, as torchrun does. */
int launch_signals_to_handle(struct launch_state *s, enum launch_id id, const char *text)
{
	_cleanup_json_ json_t *array = json_array();
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *word;

	while (rest && (word = strsep(&rest, ",")) != NULL) {
		char origin[LAUNCH_PET_MAX], name[SIGNALS_TEXT_MAX];
		int signo;

		word += strspn(word, " ");
		word[strcspn(word, " ")] = '\0';
		if (!*word)
			continue;
		signo = signals_from_string(word);
		if (signo < 0 || signo == SIGKILL || signo == SIGSTOP || signo == SIGCHLD) {
			if (launch_warn(s, "%s: %.64s is no signal that can be handled",
				    launch_origin(s, id, origin), word) < 0)
				return -ENOMEM;
			continue;
		}
		if (json_add(array, json_string(signals_short(signo, name))) < 0)
			return launch_no_memory(s);
	}
	return copy ? launch_set(s, "stop", "forward", TAKE_PTR(array)) : launch_no_memory(s);
}

int launch_monitor_interval(struct launch_state *s, enum launch_id id, const char *text)
{
	char *end;

	/* Accepts any text that torchrun reads as a number. */
	if (!*text || strtod(text, &end) < 0 || *end)
		return launch_expected(s, id, "a number of seconds", text);
	return 0;
}

int launch_start_method(struct launch_state *s, enum launch_id id, const char *text)
{
	if (strcmp(text, "spawn") && strcmp(text, "fork") && strcmp(text, "forkserver"))
		return launch_expected(s, id, "spawn, fork or forkserver", text);
	return 0;
}
