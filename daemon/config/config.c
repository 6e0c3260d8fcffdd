/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config.h"

#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/scan.h"
#include "common/base/strings.h"
#include "common/text/duration.h"
#include "common/text/endpoint.h"
#include "common/text/retention.h"
#include "common/text/size.h"
#include "common/text/topology.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ini.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum config_type {
	CONFIG_STRING,
	CONFIG_PATH,
	CONFIG_WORDS,
	CONFIG_INT,
	CONFIG_SIZE,
	CONFIG_MODE,
	CONFIG_BOOL,
	CONFIG_LEVEL,
	CONFIG_DURATION,
	CONFIG_URL,
	CONFIG_REQUIRE,
	CONFIG_TOPOLOGY,
	CONFIG_ADDRESS,
};

static const struct config_key {
	const char *section;
	const char *name;
	enum config_type type;
	size_t offset;
	bool at_start; /* a change takes effect when elasticd is started next */
	int64_t min, max;
} keys[] = {
#define KEY(s, n, t, start, ...)                                         \
	{                                                                \
		s, #n, t, offsetof(struct config, n), start, __VA_ARGS__ \
	}
	KEY("elasticd", socket_mode, CONFIG_MODE, true, 0, 0),
	KEY("elasticd", admin_group, CONFIG_STRING, false, 0, 0),
	KEY("elasticd", allow_groups, CONFIG_WORDS, false, 0, 0),
	KEY("elasticd", allow_users, CONFIG_WORDS, false, 0, 0),
	KEY("elasticd", log_dir, CONFIG_PATH, true, 0, 0),
	KEY("elasticd", log_level, CONFIG_LEVEL, false, 0, 0),
	KEY("elasticd", scopes, CONFIG_BOOL, true, 0, 0),
	KEY("elasticd", slice, CONFIG_STRING, true, 0, 0),
	KEY("logs", keep_runs, CONFIG_INT, false, 0, 1000000),
	KEY("logs", keep_days, CONFIG_INT, false, 0, 36500),
	KEY("logs", keep_bytes, CONFIG_SIZE, false, 0, INT64_MAX),
	KEY("limits", message_size, CONFIG_SIZE, true, 4096, 64 << 20),
	KEY("limits", queued_bytes, CONFIG_SIZE, true, 65536, 1 << 30),
	KEY("limits", connections, CONFIG_INT, true, 1, 1000000),
	KEY("limits", connections_per_user, CONFIG_INT, true, 1, 1000000),
	KEY("limits", buffered_bytes, CONFIG_SIZE, true, 16 << 20, INT64_C(1) << 40),
	KEY("limits", calls_in_flight, CONFIG_INT, true, 1, 100000),
	KEY("limits", jobs, CONFIG_INT, false, 1, 100000),
	KEY("limits", jobs_per_user, CONFIG_INT, false, 0, 100000),
	KEY("preemption", gce_endpoint, CONFIG_URL, true, 0, 0),
	KEY("preemption", aws_endpoint, CONFIG_URL, true, 0, 0),
	KEY("preemption", azure_endpoint, CONFIG_URL, true, 0, 0),
	KEY("preemption", dmi_dir, CONFIG_PATH, true, 0, 0),
	KEY("preemption", inhibit_delay, CONFIG_DURATION, false, 0, 0),
	KEY("host", topology, CONFIG_TOPOLOGY, false, 0, 0),
	KEY("metrics", listen, CONFIG_ADDRESS, true, 0, 0),
#undef KEY
	{ "rendezvous", "require", CONFIG_REQUIRE, offsetof(struct config, require_secret), false,
		0, 0 },
};

struct config_errors {
	config_error_fn fn;
	void *arg;
	struct error *first;
	int n;
};

/* One file that is being read. inih does not tell its handler the line: the reader counts. */
struct config_reader {
	struct config *config;
	const char *name;
	const char *text; /* what is left of it */
	int line;
	char unknown[64]; /* the last section that there is not: it is one error, not one for each
			     key */
	struct config_errors *errors;
};

int config_init(struct config *c)
{
	*c = (struct config){
		.socket_mode = -1,
		.log_level = -1,
		.keep_runs = 10000,
		.keep_days = RETENTION_DAYS,
		.keep_bytes = RETENTION_BYTES,
		.scopes = true,
		.message_size = 8 << 20,
		.queued_bytes = 4 << 20,
		.connections = 4096,
		.connections_per_user = 256,
		.buffered_bytes = 64 << 20,
		.calls_in_flight = 64,
		.jobs = 1000,
		.jobs_per_user = CONFIG_JOBS_SHARE,
		.inhibit_delay = -1,
		.slice = strdup("elasticd.slice"),
	};
	return c->slice ? 0 : -ENOMEM;
}

void config_fini(struct config *c)
{
	free(c->admin_group);
	strings_free(c->allow_groups);
	strings_free(c->allow_users);
	free(c->log_dir);
	free(c->slice);
	free(c->gce_endpoint);
	free(c->aws_endpoint);
	free(c->azure_endpoint);
	free(c->dmi_dir);
	free(c->topology);
	free(c->listen);
	memset(c, 0, sizeof(*c));
}

static int out_of_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

static int set_string(char **slot, const char *value, struct error *err)
{
	char *copy = strdup(value);

	if (!copy)
		return out_of_memory(err);
	free(*slot);
	*slot = copy;
	return 0;
}

static int set_words(char ***slot, const char *value, struct error *err)
{
	_cleanup_free_ char *copy = strdup(value);
	_cleanup_strings_ char **words = NULL;
	char *save = NULL;
	size_t n = 0;

	if (!copy)
		return out_of_memory(err);
	for (char *w = strtok_r(copy, " \t,", &save); w; w = strtok_r(NULL, " \t,", &save))
		if (strings_add(&words, &n, w) < 0)
			return out_of_memory(err);
	strings_free(*slot);
	*slot = TAKE_PTR(words);
	return 0;
}

static int set_number(const struct config_key *k, void *slot, const char *value, struct error *err)
{
	uint64_t n = 0;
	int64_t size = 0;
	int r;

	if (k->type == CONFIG_INT) {
		r = scan_whole(value, k->max, &n);
		size = n;
	} else {
		r = size_parse(value, NULL, &size, NULL);
	}
	if (r < 0 || size < k->min || size > k->max)
		return error_set(err, -EINVAL, "expected a %s from %lld to %lld, found \"%s\"",
			k->type == CONFIG_INT ? "number" : "size", (long long)k->min,
			(long long)k->max, value);
	if (k->type == CONFIG_INT)
		*(int *)slot = size;
	else
		*(int64_t *)slot = size;
	return 0;
}

static int set_mode(int *slot, const char *value, struct error *err)
{
	char *end;
	long mode = strtol(value, &end, 8);

	if (end == value || *end || mode < 0 || mode > 0777)
		return error_set(
			err, -EINVAL, "expected a file mode such as 0660, found \"%s\"", value);
	*slot = mode;
	return 0;
}

static int set_bool(bool *slot, const char *value, struct error *err)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (!strcasecmp(value, words[i])) {
			*slot = i % 2;
			return 0;
		}
	}
	return error_set(err, -EINVAL, "expected yes or no, found \"%s\"", value);
}

static int set_require(bool *slot, const char *value, struct error *err)
{
	bool secret = !strcmp(value, "token");

	if (!secret && strcmp(value, "none") != 0)
		return error_set(err, -EINVAL, "expected none or token, found \"%s\"", value);
	*slot = secret;
	return 0;
}

static int set_level(int *slot, const char *value, struct error *err)
{
	int level = log_level_from_string(value);

	if (level < 0)
		return error_set(err, -EINVAL,
			"expected err, warning, notice, info or debug, found \"%s\"", value);
	*slot = level;
	return 0;
}

static bool is_address(const char *value)
{
	struct endpoint e = { .port = 0 };
	struct error err = { 0 };
	struct in6_addr any;

	return endpoint_parse(value, NULL, &e, &err) == 0 && e.has_port &&
	       (inet_pton(AF_INET, e.host, &any) == 1 || inet_pton(AF_INET6, e.host, &any) == 1);
}

static int set_key(
	struct config *c, const struct config_key *k, const char *value, struct error *err)
{
	void *slot = (char *)c + k->offset;

	switch (k->type) {
	case CONFIG_PATH:
		if (value[0] != '/')
			return error_set(
				err, -EINVAL, "expected an absolute path, found \"%s\"", value);
		return set_string(slot, value, err);
	case CONFIG_STRING:
		return set_string(slot, value, err);
	case CONFIG_URL:
		if (strncmp(value, "http://", 7) != 0)
			return error_set(err, -EINVAL,
				"expected http://ADDRESS[:PORT], found \"%s\"", value);
		return set_string(slot, value, err);
	case CONFIG_TOPOLOGY:
		if (!topology_is(value))
			return error_set(err, -EINVAL,
				"expected " TOPOLOGY_EXPECTED ", found \"%s\"", value);
		return set_string(slot, value, err);
	case CONFIG_ADDRESS:
		if (!is_address(value))
			return error_set(err, -EINVAL,
				"expected ADDRESS:PORT such as 127.0.0.1:9465, found \"%s\"",
				value);
		return set_string(slot, value, err);
	case CONFIG_DURATION:
		return duration_parse(value, NULL, slot, err);
	case CONFIG_WORDS:
		return set_words(slot, value, err);
	case CONFIG_INT:
	case CONFIG_SIZE:
		return set_number(k, slot, value, err);
	case CONFIG_MODE:
		return set_mode(slot, value, err);
	case CONFIG_BOOL:
		return set_bool(slot, value, err);
	case CONFIG_LEVEL:
		return set_level(slot, value, err);
	case CONFIG_REQUIRE:
		return set_require(slot, value, err);
	}
	return -EINVAL;
}

static bool is_section(const char *section)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(keys[i].section, section))
			return true;
	return false;
}

static int apply_key(struct config *c, const char *section, const char *name, const char *value,
	struct error *err)
{
	int r;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(keys[i].section, section) || strcmp(keys[i].name, name))
			continue;
		r = set_key(c, &keys[i], value, err);
		if (r < 0)
			error_prefix(err, "[%s] %s", section, name);
		return r;
	}
	return error_set(err, -EINVAL, "unknown key \"%s\" in section [%s]", name, section);
}

/* Takes an error; the first becomes that of the whole. Returns its code. */
static int add_error(struct config_errors *e, const struct error *err)
{
	if (e->fn)
		e->fn(e->arg, err->text);
	if (!e->n++)
		*e->first = *err;
	return err->code;
}

static int add_error_here(struct config_reader *r, struct error *err)
{
	error_prefix(err, "%s:%d", r->name, r->line);
	return add_error(r->errors, err);
}

static int on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct config_reader *r = arg;
	struct error err = { 0 };

	if (is_section(section)) {
		if (apply_key(r->config, section, name, value, &err) < 0)
			add_error_here(r, &err);
	} else if (!r->unknown[0] || strcmp(r->unknown, section)) {
		snprintf(r->unknown, sizeof(r->unknown), "%s", *section ? section : " ");
		error_set(&err, -EINVAL,
			"unknown section [%s]; expected [elasticd], [logs], [limits], "
			"[preemption], [rendezvous], [host] or [metrics]",
			section);
		add_error_here(r, &err);
	}
	return 1;
}

/* Whether inih would accept a line of n bytes that begins with no blank and is no comment. */
static bool is_line(const char *line, size_t n)
{
	if (!n || line[0] == '\r')
		return true;
	return line[0] == '[' ? memchr(line, ']', n) != NULL
			      : memchr(line, '=', n) || memchr(line, ':', n);
}

/*
 * fgets() on text. Counts lines, and leaves out those that inih would cut or refuse, since it names
 * only the first. Strips indents: inih would take an indented line as part of the value before.
 */
static char *next_line(char *buffer, int size, void *arg)
{
	struct config_reader *r = arg;
	struct error err = { 0 };
	size_t n;

	if (!*r->text)
		return NULL;
	r->text += strspn(r->text, " \t");
	n = strcspn(r->text, "\n");
	r->line++;
	if (*r->text == '#' || *r->text == ';')
		n = 0;
	else if (n + 2 > (size_t)size)
		error_set(&err, -EINVAL, "the line is longer than %d bytes", size - 2);
	else if (!is_line(r->text, n))
		error_set(&err, -EINVAL, "expected a [section], \"key = value\" or a comment");
	else
		memcpy(buffer, r->text, n);
	memcpy(buffer + (err.code ? 0 : n), "\n", 2);
	if (err.code)
		add_error_here(r, &err);
	r->text += strcspn(r->text, "\n");
	r->text += *r->text == '\n';
	return buffer;
}

/* Returns a negative errno only where reading itself fails. */
static int parse_text(
	struct config *c, const char *name, const char *text, struct config_errors *errors)
{
	struct config_reader r = { .config = c, .name = name, .text = text, .errors = errors };
	struct error err = { 0 };
	int line = ini_parse_stream(next_line, &r, on_key, &r);

	if (line == -2)
		return add_error(errors, (out_of_memory(&err), &err));
	if (line && !errors->n) {
		error_set(&err, -EINVAL,
			"%s:%d: expected a [section], \"key = value\" or a comment", name, line);
		add_error(errors, &err);
	}
	return 0;
}

int config_parse(struct config *c, const char *name, const char *text, struct error *err)
{
	struct config_errors errors = { .first = err };
	int r = parse_text(c, name, text, &errors);

	return r < 0 || !errors.n ? r : err->code;
}

/* /dev/null says that there is none. A FIFO, or another device, would have to be waited for. */
static bool is_text(const struct stat *st)
{
	return S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

static FILE *open_text(const char *file, struct error *err)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *f = NULL;

	if (fd < 0 || fstat(fd, &st) < 0)
		error_set(err, -errno, "%s: %s", file, strerror(errno));
	else if (!is_text(&st))
		error_set(err, -EINVAL, "%s: not a regular file", file);
	else if (!(f = fdopen(fd, "r")))
		out_of_memory(err);
	else
		TAKE_FD(fd);
	return f;
}

static int read_text(const char *file, char **ret, struct error *err)
{
	_cleanup_file_ FILE *f = open_text(file, err);
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	ssize_t n;

	if (!f)
		return err->code;
	errno = 0;
	n = getdelim(&text, &size, '\0', f);
	if (n > 0 && !text[n - 1])
		return error_set(err, -EINVAL, "%s: a zero byte, which no text has", file);
	if (n < 0) {
		if (ferror(f))
			return error_set(err, errno ? -errno : -EIO, "%s: %s", file,
				strerror(errno ? errno : EIO));
		free(text);
		text = strdup("");
		if (!text)
			return out_of_memory(err);
	}
	*ret = TAKE_PTR(text);
	return 0;
}

static int load_file(struct config *c, const char *file, struct config_errors *errors)
{
	_cleanup_free_ char *text = NULL;
	struct error err = { 0 };
	int r = read_text(file, &text, &err);

	return r < 0 ? add_error(errors, &err) : parse_text(c, file, text, errors);
}

static int is_conf(const struct dirent *e)
{
	return !fnmatch("*.conf", e->d_name, FNM_PERIOD);
}

static void load_dir(struct config *c, const char *dir, struct config_errors *errors)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, is_conf, alphasort);
	struct error err = { 0 };

	if (n < 0 && errno != ENOENT) {
		error_set(&err, -errno, "%s: %s", dir, strerror(errno));
		add_error(errors, &err);
	}
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *file = paths_join(dir, entries[i]->d_name);

		if (file)
			load_file(c, file, errors);
		else
			add_error(errors, (out_of_memory(&err), &err));
		free(entries[i]);
	}
	free(entries);
}

int config_load(struct config *c, const char *file, bool required, config_error_fn fn, void *arg,
	struct error *err)
{
	_cleanup_(config_fini) struct config fresh = { 0 };
	struct config_errors errors = { .first = err, .fn = fn, .arg = arg };
	_cleanup_free_ char *dir = NULL;

	if (config_init(&fresh) < 0 || asprintf(&dir, "%s.d", file) < 0)
		return out_of_memory(err);
	if (required || access(file, F_OK) == 0 || errno != ENOENT)
		load_file(&fresh, file, &errors);
	load_dir(&fresh, dir, &errors);
	if (errors.n > 1)
		error_append(err, " (and %d more; \"elasticd --check\" names all)", errors.n - 1);
	if (errors.n)
		return err->code;
	config_fini(c);
	*c = fresh;
	memset(&fresh, 0, sizeof(fresh));
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_value(const struct config_key *k, const void *a, const void *b)
{
	switch (k->type) {
	case CONFIG_STRING:
	case CONFIG_PATH:
	case CONFIG_URL:
	case CONFIG_TOPOLOGY:
	case CONFIG_ADDRESS:
		return same_text(*(char *const *)a, *(char *const *)b);
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		return *(const int64_t *)a == *(const int64_t *)b;
	case CONFIG_BOOL:
	case CONFIG_REQUIRE:
		return *(const bool *)a == *(const bool *)b;
	case CONFIG_INT:
	case CONFIG_MODE:
	case CONFIG_LEVEL:
		return *(const int *)a == *(const int *)b;
	case CONFIG_WORDS:
		break;
	}
	return true;
}

static size_t value_size(const struct config_key *k)
{
	switch (k->type) {
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		return sizeof(int64_t);
	case CONFIG_BOOL:
	case CONFIG_REQUIRE:
		return sizeof(bool);
	case CONFIG_INT:
	case CONFIG_MODE:
	case CONFIG_LEVEL:
		return sizeof(int);
	default:
		return sizeof(void *);
	}
}

static void exchange_values(const struct config_key *k, void *a, void *b)
{
	char kept[sizeof(int64_t)];

	memcpy(kept, a, value_size(k));
	memcpy(a, b, value_size(k));
	memcpy(b, kept, value_size(k));
}

const char *config_next_start(struct config *running, struct config *fresh, size_t *i)
{
	while (*i < sizeof(keys) / sizeof(*keys)) {
		const struct config_key *k = &keys[(*i)++];
		void *a = (char *)running + k->offset, *b = (char *)fresh + k->offset;

		if (!k->at_start || same_value(k, a, b))
			continue;
		exchange_values(k, a, b);
		return k->name;
	}
	return NULL;
}
