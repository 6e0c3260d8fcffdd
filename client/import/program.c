/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/program.h"

#include "client/import/order.h"
#include "client/import/values.h"
#include "common/spec/spec.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/text/size.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* supervisord's defaults */
enum {
	PROGRAM_PRIORITY = 999,
	PROGRAM_PRIORITY_LISTENER = -1,
	PROGRAM_PRIORITY_MAX = 999999, /* here */
	PROGRAM_START_SECONDS = 1,
	PROGRAM_START_RETRIES = 3,
	PROGRAM_STOP_SECONDS = 10,
	PROGRAM_LOG_BACKUPS = 10,
	PROGRAM_LOG_BYTES = 50 << 20,
	PROGRAM_MIN_FDS = 1024,
	PROGRAM_RETRIES_MAX = 1024, /* elasticd's restart.window_max */
};

/* One program that is being converted. */
struct program {
	const struct sections *all;
	struct section *s;
	const char *short_name; /* x of [program:x] */
	const char *group;	/* its name; short_name where there is none */
	char host[65];
	int n, first; /* numprocs, numprocs_start */
	json_t *env;  /* the variables that %(ENV_X)s finds beside ours */
	json_t *envs; /* those of each process, which some keys find; NULL: not known yet */
	sections_problem_fn fn;
	void *arg;
	struct import_job *job;
};

static void program_problem(const struct program *p, const struct section *s,
	const struct section_key *k, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void program_problem(const struct program *p, const struct section *s,
	const struct section_key *k, const char *fmt, ...)
{
	char why[512], text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "[%.80s]%s%.80s: %s", s->name, k ? " " : "", k ? k->name : "",
		why);
	p->fn(p->arg, s->file, k ? k->line : s->line, text);
}

/* --- values --- */

/* The section of k: the program's own, or [supervisord]. */
static const struct section *program_owner(const struct program *p, const struct section_key *k)
{
	for (size_t i = 0; i < p->s->n; i++)
		if (&p->s->keys[i] == k)
			return p->s;
	return sections_find(p->all, "supervisord");
}

/* Where %(ENV_X)s of k is found: supervisord hands few keys the program's own environment. */
static const json_t *program_variables(const struct program *p, const struct section_key *k, int i)
{
	static const char *const keys[] = { "command", "directory", "stdout_logfile",
		"stderr_logfile" };
	const json_t *env = NULL;

	for (size_t n = 0; n < sizeof(keys) / sizeof(keys[0]); n++)
		if (!strncmp(k->name, keys[n], strlen(keys[n])) && program_owner(p, k) == p->s)
			env = json_array_get(p->envs, (size_t)(i - p->first));
	return env ? env : p->env;
}

/* The directory of the file of s; owned. */
static char *program_here(const struct section *s)
{
	char *here = strdup(s->file), *end = here ? strrchr(here, '/') : NULL;

	if (end)
		end[end == here] = '\0';
	return here;
}

/* The value for process number i; owned, NULL without the key. */
static char *program_text(struct program *p, struct section_key *k, int i)
{
	const struct section *owner = k ? program_owner(p, k) : NULL;
	_cleanup_free_ char *problem = NULL, *here = owner ? program_here(owner) : NULL;
	char number[16], count[16], *text = NULL;
	/* [supervisord] knows the first two alone. */
	const struct value_name names[] = { { "here", here }, { "host_node_name", p->host },
		{ "program_name", p->short_name }, { "group_name", p->group },
		{ "process_num", number }, { "numprocs", count } };
	size_t n = sizeof(names) / sizeof(names[0]);

	if (!here)
		return NULL;
	snprintf(number, sizeof(number), "%d", i);
	snprintf(count, sizeof(count), "%d", p->n);
	if (!strcmp(owner->name, "supervisord"))
		n = 2;
	if (value_expand(k->value, names, n, program_variables(p, k, i), &text, &problem) < 0)
		return NULL;
	if (problem && !k->used)
		program_problem(p, owner, k, "%s", problem);
	k->used = true;
	return text;
}

/* The value that all processes share; a problem where the first two differ. Owned. */
static char *program_one(struct program *p, struct section_key *k)
{
	bool again = !k || k->used;
	char *text = program_text(p, k, p->first);
	_cleanup_free_ char *next = !again && p->n > 1 ? program_text(p, k, p->first + 1) : NULL;

	if (text && next && strcmp(text, next) != 0)
		program_problem(
			p, program_owner(p, k), k, "all workers have that of process %d", p->first);
	return text;
}

static struct section_key *program_key(struct program *p, const char *name)
{
	return section_find(p->s, name);
}

static int program_int(struct program *p, const char *name, int otherwise)
{
	struct section_key *k = program_key(p, name);
	_cleanup_free_ char *text = program_one(p, k);
	char *end;
	long n;

	if (!text)
		return otherwise;
	n = strtol(text, &end, 10);
	if (end != text && !*end && n >= 0 && n <= 1000000000)
		return (int)n;
	program_problem(p, p->s, k, "expected a number, got \"%.40s\"", text);
	return otherwise;
}

static bool program_bool(struct program *p, const char *name, bool otherwise)
{
	struct section_key *k = program_key(p, name);
	_cleanup_free_ char *text = program_one(p, k);
	int value = text ? value_bool(text) : otherwise;

	if (value >= 0)
		return value;
	program_problem(p, p->s, k, "expected true or false, got \"%.40s\"", text);
	return otherwise;
}

/* "50MB" */
static int64_t program_bytes(struct program *p, const char *name, int64_t otherwise)
{
	static const char *const units[] = { "KB", "MB", "GB" };
	struct section_key *k = program_key(p, name);
	_cleanup_free_ char *text = program_one(p, k);
	char *end;
	long long n;

	if (!text)
		return otherwise;
	n = strtoll(text, &end, 10);
	for (int i = 0; i < 3; i++)
		if (!strcasecmp(end, units[i]) && n >= 0 && n < 1 << 20)
			return (int64_t)n << 10 * (i + 1);
	if (end != text && !*end && n >= 0)
		return n;
	program_problem(p, p->s, k, "expected a size, got \"%.40s\"", text);
	return otherwise;
}

/* --- parts of the document --- */

/* Sets section.key (section NULL: at the top), and notes where it is from: "autorestart=true". */
static void program_set(
	struct program *p, const char *section, const char *key, json_t *value, const char *from)
{
	const struct section_key *k = from ? program_key(p, from) : NULL;
	json_t *object = section ? json_object_get(p->job->doc, section) : p->job->doc;
	char path[64], note[160];

	if (!object) {
		object = json_object();
		json_put(p->job->doc, section, object);
	}
	json_put(object, key, value);
	if (!from)
		return;
	snprintf(path, sizeof(path), "%s%s%s", section ? section : "", section ? "." : "", key);
	snprintf(note, sizeof(note), "%s%s%.100s", from, k ? "=" : ", the default",
		k ? k->value : "");
	json_put(p->job->notes, path, json_string_lossy(note, strcspn(note, "\n")));
}

static void program_set_ms(
	struct program *p, const char *section, const char *key, int64_t ms, const char *from)
{
	char text[DURATION_TEXT_MAX];

	program_set(p, section, key, json_string(duration_format(ms, text)), from);
}

/*
 * supervisord gives up on a process that has not stayed up for startsecs startretries times in a
 * row, with a second more before each. The window is as long as such a row, so that only processes
 * that hardly stay up longer have more restarts in it.
 */
static void program_restart_limits(struct program *p)
{
	int up = program_int(p, "startsecs", PROGRAM_START_SECONDS);
	int retries = program_int(p, "startretries", PROGRAM_START_RETRIES);
	int64_t most = retries < PROGRAM_RETRIES_MAX ? retries : PROGRAM_RETRIES_MAX;
	int64_t window_s = 1 + (up < 86400 ? up : 86400) * most, pause_s = 1;

	if (!retries) {
		program_problem(p, p->s, program_key(p, "startretries"),
			"a process that is to be started again has at least one restart");
		most = 1;
	}
	for (int64_t i = 0; i < most; i++) {
		window_s += pause_s;
		pause_s = pause_s * 2 < most ? pause_s * 2 : most;
	}
	program_set(p, "restart", "scope", json_string("worker"), NULL);
	program_set(p, "restart", "window_max", json_integer(up ? most : PROGRAM_RETRIES_MAX),
		"startretries");
	program_set_ms(p, "restart", "window", up ? window_s * 1000 : 1, "startsecs");
	program_set_ms(p, "restart", "backoff", 1000, NULL);
	program_set_ms(p, "restart", "backoff_max", most * 1000, NULL);
	program_set_ms(p, "restart", "healthy_after", up ? up * 1000LL : 1, "startsecs");
}

/* Exit codes that are no failure: only 0 is one here, others end the process for good. */
static void program_exit_codes(struct program *p)
{
	struct section_key *k = program_key(p, "exitcodes");
	_cleanup_free_ char *text = program_one(p, k);
	json_t *codes = json_object();
	bool zero = !text;
	char *save = NULL;

	for (char *w = text ? strtok_r(text, ", \t\n", &save) : NULL; w;
		w = strtok_r(NULL, ", \t\n", &save)) {
		if (strcmp(w, "0") != 0)
			json_put(codes, w, json_string("fatal"));
		zero |= !strcmp(w, "0");
	}
	if (!zero)
		program_problem(p, p->s, k, "a process that exits with 0 is not started again");
	if (json_object_size(codes))
		program_set(p, "restart", "codes", codes, "exitcodes");
	else
		json_decref(codes);
}

static void program_restart(struct program *p)
{
	struct section_key *k = program_key(p, "autorestart");
	_cleanup_free_ char *text = program_one(p, k);
	bool unexpected = !text || !strcasecmp(text, "unexpected");

	if (!unexpected && !program_bool(p, "autorestart", true)) {
		program_set(p, "restart", "policy", json_string("never"), "autorestart");
		if (program_int(p, "startretries", 0))
			program_problem(p, p->s, program_key(p, "startretries"),
				"without autorestart no process is started again");
		return;
	}
	program_set(p, "restart", "policy", json_string(unexpected ? "on-failure" : "always"),
		"autorestart");
	if (unexpected)
		program_exit_codes(p);
	program_restart_limits(p);
}

static void program_stop(struct program *p)
{
	_cleanup_free_ char *signal = program_one(p, program_key(p, "stopsignal"));
	bool group = program_bool(p, "stopasgroup", false);

	if (signal)
		program_set(p, "stop", "signal", json_string_lossy(signal, strlen(signal)),
			"stopsignal");
	program_set(p, "stop", "whom", json_string(group ? "group" : "main"), "stopasgroup");
	program_set_ms(p, "stop", "timeout",
		program_int(p, "stopwaitsecs", PROGRAM_STOP_SECONDS) * 1000LL, "stopwaitsecs");
	if (!program_bool(p, "killasgroup", true) && !group)
		program_problem(p, p->s, program_key(p, "killasgroup"),
			"processes that a worker leaves behind are always ended");
}

static bool program_has_log(struct program *p, const char *stream)
{
	char name[32];
	struct section_key *k;
	_cleanup_free_ char *text = NULL;

	snprintf(name, sizeof(name), "%s_logfile", stream);
	k = program_key(p, name);
	text = program_text(p, k, p->first);
	if (!text || !strcasecmp(text, "auto"))
		return true;
	if (!strcasecmp(text, "none") || !strcasecmp(text, "off") || !strcmp(text, "/dev/null"))
		return false;
	program_problem(p, p->s, k,
		"the output goes to files that \"elasticctl logs %.64s\" shows, not to %.200s",
		p->job->name, text);
	return true;
}

static void program_logs(struct program *p)
{
	int64_t bytes = program_bytes(p, "stdout_logfile_maxbytes", PROGRAM_LOG_BYTES);
	int keep = program_int(p, "stdout_logfile_backups", PROGRAM_LOG_BACKUPS);
	bool merge = program_bool(p, "redirect_stderr", false);
	bool out = program_has_log(p, "stdout"), err = merge ? out : program_has_log(p, "stderr");
	char text[SIZE_TEXT_MAX];

	if (!out && !err) {
		program_set(p, "logs", "dir", json_string("/dev/null"), "stdout_logfile");
		return;
	}
	if (!out || !err)
		program_set(p, "logs", "redirects", json_string(out ? "1" : "2"),
			out ? "stderr_logfile" : "stdout_logfile");
	if (merge)
		program_set(p, "logs", "merge", json_true(), "redirect_stderr");
	if (bytes) {
		program_set(p, "logs", "max_size", json_string(size_format(bytes, text)),
			"stdout_logfile_maxbytes");
		program_set(p, "logs", "keep", json_integer(keep < 1000 ? keep : 1000),
			"stdout_logfile_backups");
	}
	if (!merge && program_key(p, "stderr_logfile_maxbytes") &&
		program_bytes(p, "stderr_logfile_maxbytes", bytes) != bytes)
		program_problem(p, p->s, program_key(p, "stderr_logfile_maxbytes"),
			"both streams have one limit, that of stdout");
	if (!merge && program_key(p, "stderr_logfile_backups") &&
		program_int(p, "stderr_logfile_backups", keep) != keep)
		program_problem(p, p->s, program_key(p, "stderr_logfile_backups"),
			"both streams keep as many files as stdout");
}

/* --- the role --- */

/* Adds the variables that k names for process number i. */
static void program_add_env(struct program *p, struct section_key *k, int i, json_t *env)
{
	bool again = k && k->used;
	_cleanup_free_ char *text = program_text(p, k, i);
	_cleanup_json_ json_t *pairs = text ? value_pairs(text) : NULL;

	if (pairs)
		json_object_update(env, pairs);
	else if (text && !again)
		program_problem(p, program_owner(p, k), k, "expected KEY=\"value\",...");
}

/* The words of the command of process number i; NULL: it has none. */
static json_t *program_command(struct program *p, int i)
{
	_cleanup_free_ char *text = program_text(p, program_key(p, "command"), i);

	return text ? value_words(text) : NULL;
}

/* Splits what all lists have in front from the rest: role.command and role.args. */
static void program_words(json_t *role, json_t *lists)
{
	size_t n = json_array_size(lists), same = json_array_size(json_array_get(lists, 0));
	json_t *command = json_array(), *args = json_array(), *list;
	bool differ = false;
	size_t i;

	json_array_foreach (lists, i, list) {
		size_t k = 0;

		while (k < same && json_equal(json_array_get(list, k),
					   json_array_get(json_array_get(lists, 0), k)))
			k++;
		differ |= k < json_array_size(list);
		same = k;
		differ |= i && json_array_size(list) != json_array_size(json_array_get(lists, 0));
	}
	for (i = 0; i < same; i++)
		json_add(command, json_incref(json_array_get(json_array_get(lists, 0), i)));
	if (!same) { /* the programs themselves differ */
		json_add(command, json_string("/usr/bin/env"));
		json_add(command, json_string("--"));
	}
	for (i = 0; i < n; i++) {
		json_t *rest = json_array();

		list = json_array_get(lists, i);
		for (size_t k = same; k < json_array_size(list); k++)
			json_add(rest, json_incref(json_array_get(list, k)));
		differ |= json_array_size(rest) > 0;
		json_add(args, rest);
	}
	json_put(role, "command", command);
	if (differ)
		json_put(role, "args", json_incref(args));
	json_decref(args);
}

/* role.env, and role.env_per_replica where processes differ. */
static void program_envs(json_t *role, json_t *envs)
{
	json_t *first = json_array_get(envs, 0), *env, *value;
	json_t *common = json_deep_copy(first);
	bool differ = false;
	const char *name;
	void *next;
	size_t i;

	json_array_foreach (envs, i, env)
		json_object_foreach_safe(common, next, name,
			value) if (!json_equal(json_object_get(env, name), value))
			json_object_del(common, name);
	json_array_foreach (envs, i, env) {
		json_object_foreach (common, name, value)
			json_object_del(env, name);
		differ |= json_object_size(env) > 0;
	}
	if (json_object_size(common))
		json_put(role, "env", json_incref(common));
	json_decref(common);
	if (differ)
		json_put(role, "env_per_replica", json_incref(envs));
}

/* supervisord lets its processes open as many files as it wants for itself. */
static void program_files(struct program *p, json_t *role)
{
	struct section *top = sections_find(p->all, "supervisord");
	_cleanup_free_ char *text = program_one(p, section_find(top, "minfds"));
	long n = text ? strtol(text, NULL, 10) : 0;

	if (n > PROGRAM_MIN_FDS && n <= INT_MAX)
		json_put(role, "limits", json_pack("{s:i}", "nofile", (int)n));
}

/* How many processes there are, and their environments. */
static int program_processes(struct program *p, json_t *envs)
{
	p->n = program_int(p, "numprocs", 1);
	if (p->n < 1 || p->n > SPEC_REPLICAS_MAX) {
		program_problem(p, p->s, program_key(p, "numprocs"), "expected 1 to %d, got %d",
			SPEC_REPLICAS_MAX, p->n);
		return -EINVAL;
	}
	p->first = program_int(p, "numprocs_start", 0);
	for (int i = 0; i < p->n; i++) {
		json_t *env = json_copy(p->env);

		program_add_env(p, program_key(p, "environment"), p->first + i, env);
		json_add(envs, env);
	}
	p->envs = envs;
	return 0;
}

static int program_role(struct program *p)
{
	_cleanup_json_ json_t *lists = json_array(), *envs = json_array();
	json_t *role = json_object(), *roles = json_array();

	json_add(roles, role);
	json_put(p->job->doc, "roles", roles);
	for (int i = 0; i < p->n; i++) {
		json_t *words = program_command(p, p->first + i);

		json_add(envs, json_copy(json_array_get(p->envs, (size_t)i)));
		if (!json_array_size(words)) {
			json_decref(words);
			program_problem(p, p->s, program_key(p, "command"),
				"a command is missing, or cannot be read");
			return -EINVAL;
		}
		json_add(lists, words);
	}
	program_words(role, lists);
	program_envs(role, envs);
	if (p->n > 1)
		json_put(role, "replicas", json_integer(p->n));
	program_files(p, role);
	return 0;
}

/* --- the whole --- */

static void program_after(struct program *p)
{
	json_t *names = order_before(p->all, p->s);

	if (json_array_size(names))
		program_set(p, NULL, "after", names, "priority");
	else
		json_decref(names);
}

/* The name of the user that text is the number of, else text; takes text. */
static char *program_user(
	const struct program *p, const struct section_key *k, char *text, bool again)
{
	const struct passwd *pw;
	char *name;

	if (!*text || text[strspn(text, "0123456789")])
		return text;
	pw = getpwuid((uid_t)strtoul(text, NULL, 10));
	if (!pw && !again)
		program_problem(p, program_owner(p, k), k,
			"no user here has the number %.20s: write its name", text);
	name = pw ? strdup(pw->pw_name) : NULL;
	if (!name)
		return text;
	free(text);
	return name;
}

/* Keys of [supervisord] that its processes have, too, unless they say otherwise. */
static void program_inherit(struct program *p, const char *key, const char *as)
{
	struct section *top = sections_find(p->all, "supervisord");
	struct section_key *own = program_key(p, key), *k = own ? own : section_find(top, key);
	bool user = !strcmp(key, "user"), again = k && k->used;
	_cleanup_free_ char *text = program_one(p, k);

	if (text && user)
		text = program_user(p, k, text, again);
	if (text && (!user || own || strcmp(text, "root") != 0))
		program_set(p, NULL, as, json_string_lossy(text, strlen(text)), key);
}

/* Keys that have no counterpart and need none. */
static bool program_needs_none(const struct section_key *k)
{
	static const char *const part[] = { "%(program_name)s", "%(group_name)s",
		"%(process_num)" };

	if (!strcmp(k->name, "stdout_events_enabled") || !strcmp(k->name, "stdout_syslog") ||
		!strcmp(k->name, "stderr_events_enabled") || !strcmp(k->name, "stderr_syslog"))
		return value_bool(k->value) == 0;
	if (!strcmp(k->name, "stdout_capture_maxbytes") ||
		!strcmp(k->name, "stderr_capture_maxbytes"))
		return !strcmp(k->value, "0");
	if (!strcmp(k->name, "serverurl"))
		return !strcasecmp(k->value, "AUTO");
	for (size_t i = 0; i < 3 && !strcmp(k->name, "process_name"); i++)
		if (!strncmp(k->value, part[i], strlen(part[i])))
			return true;
	return false;
}

static void program_rest(struct program *p)
{
	static const char *const unused[] = { "autostart", "autorestart", "exitcodes",
		"stderr_logfile", "stderr_logfile_maxbytes", "stderr_logfile_backups", "startsecs",
		"startretries" };

	for (size_t i = 0; i < p->s->n; i++) {
		struct section_key *k = &p->s->keys[i];
		bool quiet = k->used || program_needs_none(k);

		for (size_t n = 0; n < sizeof(unused) / sizeof(unused[0]); n++)
			quiet |= !strcmp(k->name, unused[n]);
		if (!quiet && section_find(p->s, k->name) == k)
			program_problem(p, p->s, k, "has no counterpart");
	}
}

/* A program or group as it is before its keys are read. */
static struct program program_new(const struct sections *all, struct section *s, json_t *env,
	sections_problem_fn fn, void *arg)
{
	struct program p = { .all = all, .s = s, .env = env, .fn = fn, .arg = arg, .n = 1 };
	const struct section *group;

	gethostname(p.host, sizeof(p.host) - 1);
	program_add_env(&p, section_find(sections_find(all, "supervisord"), "environment"), 0, env);
	p.short_name = p.group = order_program(s);
	group = p.short_name ? order_group(all, p.short_name) : NULL;
	if (group)
		p.group = group->name + 6 + strspn(group->name + 6, " \t");
	return p;
}

static int64_t program_priority(struct program *p)
{
	bool listener = !strncmp(p->s->name, "eventlistener:", 14);
	struct section_key *k = program_key(p, "priority");
	bool again = k && k->used;
	_cleanup_free_ char *text = program_text(p, k, 0);
	char *end = text;
	long n = text ? strtol(text, &end, 10) : 0;

	if (text && end != text && !*end)
		return n < -PROGRAM_PRIORITY_MAX  ? -PROGRAM_PRIORITY_MAX
		       : n > PROGRAM_PRIORITY_MAX ? PROGRAM_PRIORITY_MAX
						  : n;
	if (text && !again)
		program_problem(p, p->s, k, "expected a number, got \"%.40s\"", text);
	return listener ? PROGRAM_PRIORITY_LISTENER : PROGRAM_PRIORITY;
}

/* Programs start by the priority of their group, then by their own. */
static void program_order(
	const struct sections *all, struct section *s, sections_problem_fn fn, void *arg)
{
	_cleanup_json_ json_t *env = json_object();
	struct program p = program_new(all, s, env, fn, arg), of = p;
	int64_t own = program_priority(&p);

	of.s = order_group(all, p.short_name);
	s->rank = (of.s ? program_priority(&of) : own) * (PROGRAM_PRIORITY_MAX + 1) + own;
	s->starts = program_bool(&p, "autostart", true) && order_goes_alone(s);
}

int import_job_make(const struct sections *all, struct section *s, sections_problem_fn fn,
	void *arg, struct import_job *ret)
{
	_cleanup_json_ json_t *env = json_object(), *envs = json_array();
	struct program p = program_new(all, s, env, fn, arg);

	*ret = (struct import_job){ .doc = json_object(),
		.notes = json_object(),
		.name = order_job_name(p.short_name),
		.disabled = !s->starts };
	p.job = ret;
	if (!ret->name || !ret->doc || !ret->notes ||
		asprintf(&ret->from, "[%s], %s:%d", s->name, s->file, s->line) < 0)
		return -ENOMEM;
	if (strcmp(ret->name, p.short_name) != 0)
		program_problem(&p, s, NULL, "the job is called %s", ret->name);
	if (!order_goes_alone(s))
		program_problem(&p, s, NULL,
			"nothing sends it events or opens its socket here: the job is disabled");
	if (program_processes(&p, envs) < 0)
		return -EINVAL;
	ret->group = order_group(all, p.short_name) ? strdup(p.group) : NULL;
	json_put(ret->doc, "name", json_string(ret->name));
	program_after(&p);
	program_inherit(&p, "user", "user");
	program_inherit(&p, "directory", "cwd");
	program_inherit(&p, "umask", "umask");
	if (program_role(&p) < 0)
		return -EINVAL;
	program_restart(&p);
	program_stop(&p);
	program_logs(&p);
	program_rest(&p);
	return 0;
}

void import_job_fini(struct import_job *j)
{
	json_decref(j->doc);
	json_decref(j->notes);
	free(j->name);
	free(j->from);
	free(j->group);
	*j = (struct import_job){ 0 };
}

void import_begin(struct sections *all, sections_problem_fn fn, void *arg)
{
	static const char *const own[] = { "supervisord", "supervisorctl", "unix_http_server",
		"inet_http_server", "include" };
	const struct program p = { .all = all, .fn = fn, .arg = arg };

	for (size_t i = 0; i < all->n; i++) {
		struct section *s = &all->items[i];
		bool known = order_program(s) != NULL || !strncmp(s->name, "rpcinterface:", 13);

		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
			known |= !strcmp(s->name, own[k]);
		if (sections_find(all, s->name) != s)
			program_problem(&p, s, NULL,
				"comes again, and only the last one of a name is used");
		else if (order_program(s))
			program_order(all, s, fn, arg);
		if (!strncmp(s->name, "group:", 6))
			program_problem(&p, s, NULL,
				"its programs become jobs of their own, which are not started or "
				"stopped together");
		else if (!known)
			program_problem(&p, s, NULL, "has no counterpart");
	}
}
