/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/export.h"
#include "client/launch/job_file.h"
#include "client/launch/table.h"
#include "common/base/scan.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Keys that several flags decide together: the command, variables, the prefix. */

/* Finds program in the caller's PATH; a copy of program if it is not there. Returns owned. */
static char *find_program(const char *program)
{
	const char *path = getenv("PATH");

	while (path && *path && !strchr(program, '/')) {
		size_t n = strcspn(path, ":");
		char *full;

		if (asprintf(&full, "%.*s/%s", (int)n, path, program) < 0)
			return NULL;
		if (*full == '/' && access(full, X_OK) == 0)
			return full;
		free(full);
		path += n + (path[n] == ':');
	}
	return strdup(program);
}

/* Adds the program with its full path: a job of the daemon starts with another PATH than the
 * caller's, which may have a virtual environment. */
static int add_program(const struct launch_state *s, json_t *command, const char *program)
{
	_cleanup_free_ char *found = s->from->foreground ? strdup(program) : find_program(program);
	json_t *word;

	if (!found)
		return launch_no_memory(s);
	word = json_string(found);
	if (!word)
		return error_set(s->err, -EINVAL, "the program's name: expected text in UTF-8");
	return json_add(command, word) < 0 ? launch_no_memory(s) : 0;
}

static bool ends_in(const char *program, const char *suffix)
{
	size_t n = strlen(program), len = strlen(suffix);

	return n > len && !strcmp(program + n - len, suffix);
}

/* Whether the kernel could execute path: it is executable, and a binary or a script with an
 * interpreter. */
static bool is_executable(const char *path)
{
	_cleanup_file_ FILE *f = access(path, X_OK) == 0 ? fopen(path, "re") : NULL;
	char start[2] = "";

	if (!f)
		return access(path, X_OK) == 0; /* unreadable: may be executable all the same */
	return fread(start, 1, sizeof(start), f) == sizeof(start) &&
	       (!memcmp(start, "#!", 2) || start[0] == '\x7f');
}

/* Refuses a job file in place of the program, which could never be executed. */
static int refuse_job_file(const struct launch_state *s, const char *program)
{
	struct stat st;

	if (job_file_stem(program) < 0 || stat(program, &st) < 0 || !S_ISREG(st.st_mode) ||
		is_executable(program))
		return 0;
	return error_set(s->err, -EINVAL,
		"%s is no program that can be executed; if it is a job file: --spec %s", program,
		program);
}

static bool by_python(const struct launch_state *s)
{
	if (s->values[OPT_RUN_PATH] || s->values[OPT_MODULE])
		return true;
	return ends_in(s->command[0], ".py") && !s->values[OPT_NO_PYTHON];
}

static int add_interpreter(const struct launch_state *s, json_t *command)
{
	const char *python = getenv("PYTHON_EXEC");
	int r = add_program(s, command, python && *python ? python : "python3");

	/* Unbuffered, so that a crash does not lose the last lines. */
	if (r == 0 && json_add(command, json_string("-u")) < 0)
		r = launch_no_memory(s);
	if (r == 0 && s->values[OPT_MODULE] && !s->values[OPT_RUN_PATH] &&
		json_add(command, json_string("-m")) < 0)
		r = launch_no_memory(s);
	return r;
}

static int set_command(struct launch_state *s)
{
	json_t *role = launch_role_object(s, OPT_SPEC), *command;
	int r = 0, i = 0;

	if (!role)
		return -EINVAL;
	command = json_array();
	if (json_put(role, "command", command) < 0)
		return launch_no_memory(s);
	if (by_python(s))
		r = add_interpreter(s, command);
	else
		r = refuse_job_file(s, s->command[0]);
	if (r == 0 && !by_python(s))
		r = add_program(s, command, s->command[i++]);
	for (; r == 0 && i < s->n_command; i++) {
		json_t *word = json_string(s->command[i]);

		if (!word)
			return error_set(s->err, -EINVAL,
				"argument %d of the program: expected text in UTF-8", i);
		if (json_add(command, word) < 0)
			r = launch_no_memory(s);
	}
	return r;
}

/* Sets a variable in every role. */
static int set_variable(struct launch_state *s, const char *name, const char *value)
{
	json_t *roles = json_object_get(s->doc, "roles"), *role;
	size_t i;

	json_array_foreach (roles, i, role) {
		json_t *env = json_object_get(role, "env"), *text = json_string(value);

		if (!text)
			return launch_refuse(s, OPT_ENV, "%.64s: expected text in UTF-8", name);
		if (!env) {
			env = json_object();
			if (json_put(role, "env", env) < 0) {
				json_decref(text);
				return launch_no_memory(s);
			}
		}
		if (json_put(env, name, text) < 0)
			return launch_refuse(s, OPT_ENV, "expected a name in UTF-8");
	}
	return 0;
}

static int set_variables(struct launch_state *s)
{
	for (size_t i = 0; i < s->n_env; i++) {
		const char *equals = strchr(s->env[i], '=');
		_cleanup_free_ char *name =
			equals ? strndup(s->env[i], equals - s->env[i]) : strdup(s->env[i]);
		const char *value;
		int r;

		if (!name)
			return launch_no_memory(s);
		if (!export_is_name(name, strlen(name)))
			return launch_expected(s, OPT_ENV,
				"NAME or NAME=VALUE, a name being letters, digits and '_' and not "
				"beginning with a digit",
				s->env[i]);
		value = equals ? equals + 1 : getenv(name);
		if (!value)
			return launch_refuse(s, OPT_ENV, "%.64s is not set here", name);
		r = set_variable(s, name, value);
		if (r < 0)
			return r;
	}
	/* torchrun exports only what the user gave, not its own default. */
	if (s->values[OPT_SIGNALS_TO_HANDLE])
		return set_variable(
			s, "TORCHELASTIC_SIGNALS_TO_HANDLE", s->values[OPT_SIGNALS_TO_HANDLE]);
	return 0;
}

/* Converts a template of Python's to one of logs.prefix: the only difference is "${" before
 * something that is not a variable, which becomes "$${". */
static void convert_template(FILE *f, const char *p)
{
	static const char *const known[] = { "${role_name}", "${role}", "${index}", "${rank}",
		"${local_rank}", "${host}" };

	for (; *p; p++) {
		bool variable = p[0] != '$' || p[1] != '{';

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !variable; i++)
			variable = !strncmp(p, known[i], strlen(known[i]));
		if (!variable)
			fputc('$', f);
		if (p[0] == '$' && p[1] == '$')
			fputc(*p++, f);
		fputc(*p, f);
	}
}

static int set_prefix(struct launch_state *s)
{
	const char *template = getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
	_cleanup_free_ char *text = NULL;
	json_t *prefix;
	size_t size;
	FILE *f;

	if (!template || json_object_get(json_object_get(s->doc, "logs"), "prefix"))
		return 0;
	f = open_memstream(&text, &size);
	if (!f)
		return launch_no_memory(s);
	convert_template(f, template);
	if (fclose(f))
		return launch_no_memory(s);
	prefix = json_string(text);
	if (!prefix)
		return error_set(s->err, -EINVAL,
			"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE: expected text in UTF-8");
	return launch_set(s, "logs", "prefix", prefix);
}

/* Reads torchrun's variable for the stop time-out, unless a flag or a job file sets it. */
static int set_stop_timeout(struct launch_state *s)
{
	const char *text = getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
	char buf[32];
	uint64_t seconds;

	if (!text || !*text || s->values[OPT_SHUTDOWN_TIMEOUT] || s->from_file)
		return 0;
	if (scan_whole(text, INT32_MAX, &seconds) < 0)
		return error_set(s->err, -EINVAL,
			"TORCH_ELASTIC_SHUTDOWN_TIMEOUT: expected a number of seconds, got "
			"\"%.40s\"",
			text);
	snprintf(buf, sizeof(buf), "%us", (unsigned int)seconds);
	return launch_set(s, "stop", "timeout", json_string(buf));
}

/* Sets where the workers start: "run" uses the caller's own directory, an elasticd needs its name.
 */
static int set_directory(struct launch_state *s)
{
	_cleanup_free_ char *cwd = NULL;

	if (s->from->foreground) {
		if (json_object_get(s->doc, "inherit_env"))
			return 0;
		return launch_set(s, NULL, "inherit_env", json_true());
	}
	if (json_object_get(s->doc, "cwd"))
		return 0;
	cwd = launch_absolute(NULL, ".");
	if (!cwd)
		return error_set(s->err, -errno, "the current directory: %s", strerror(errno));
	return launch_set(s, NULL, "cwd", launch_text_json(s, OPT_CWD, cwd));
}

/* Sets OMP_NUM_THREADS=1 for several workers: one thread per CPU in each of them is slower. */
static int set_threads(struct launch_state *s)
{
	const json_t *role = json_array_get(json_object_get(s->doc, "roles"), 0);
	_cleanup_(spec_freep) struct spec *spec = NULL;
	const char *threads = getenv("OMP_NUM_THREADS");
	int workers;

	if (s->from_file || json_object_get(json_object_get(role, "env"), "OMP_NUM_THREADS"))
		return 0;
	/* The agent sets it by the CPUs of each worker. */
	if (!threads && s->values[OPT_NUMA_BINDING])
		return 0;
	/* The caller's own choice; run's workers inherit it, a daemon's have to be given it. */
	if (threads)
		return s->from->foreground ? 0 : set_variable(s, "OMP_NUM_THREADS", threads);
	if (spec_parse(s->doc, &spec, NULL) < 0 || spec_resolve(spec, NULL) < 0)
		return 0; /* The check of the whole specification reports it. */
	workers = spec_world_size(spec);
	if (workers < 2)
		return 0;
	if (launch_warn(s,
		    "OMP_NUM_THREADS is not set: each of the %d workers gets OMP_NUM_THREADS=1, so "
		    "that together they do not overload the host; set it to what suits the program",
		    workers) < 0)
		return -ENOMEM;
	return set_variable(s, "OMP_NUM_THREADS", "1");
}

int launch_finish(struct launch_state *s)
{
	int r = s->n_command ? set_command(s) : 0;

	if (r == 0)
		r = set_variables(s);
	if (r == 0)
		r = launch_rendezvous(s);
	if (r == 0)
		r = set_prefix(s);
	if (r == 0)
		r = set_stop_timeout(s);
	if (r == 0)
		r = set_directory(s);
	if (r == 0)
		r = set_threads(s);
	return r;
}
