/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config.h"

#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/scan.h"
#include "common/text/duration.h"
#include "common/text/endpoint.h"
#include "common/text/keep.h"
#include "common/text/size.h"
#include "common/text/topology.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <ini.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

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
	int64_t min, max;
} keys[] = {
#define KEY(s, n, t, ...)                                         \
	{                                                         \
		s, #n, t, offsetof(struct config, n), __VA_ARGS__ \
	}
	KEY("elasticd", socket_mode, CONFIG_MODE, 0, 0),
	KEY("elasticd", admin_group, CONFIG_STRING, 0, 0),
	KEY("elasticd", allow_groups, CONFIG_WORDS, 0, 0),
	KEY("elasticd", allow_users, CONFIG_WORDS, 0, 0),
	KEY("elasticd", log_dir, CONFIG_PATH, 0, 0),
	KEY("elasticd", log_level, CONFIG_LEVEL, 0, 0),
	KEY("elasticd", scopes, CONFIG_BOOL, 0, 0),
	KEY("elasticd", slice, CONFIG_STRING, 0, 0),
	KEY("logs", keep_runs, CONFIG_INT, 0, 1000000),
	KEY("logs", keep_days, CONFIG_INT, 0, 36500),
	KEY("logs", keep_bytes, CONFIG_SIZE, 0, INT64_MAX),
	KEY("limits", message_size, CONFIG_SIZE, 4096, 64 << 20),
	KEY("limits", queued_bytes, CONFIG_SIZE, 65536, 1 << 30),
	KEY("limits", connections, CONFIG_INT, 1, 1000000),
	KEY("limits", connections_per_user, CONFIG_INT, 1, 1000000),
	KEY("limits", buffered_bytes, CONFIG_SIZE, 16 << 20, INT64_C(1) << 40),
	KEY("limits", calls_in_flight, CONFIG_INT, 1, 100000),
	KEY("limits", jobs, CONFIG_INT, 1, 100000),
	KEY("limits", jobs_per_user, CONFIG_INT, 0, 100000),
	KEY("preemption", gce_endpoint, CONFIG_URL, 0, 0),
	KEY("preemption", aws_endpoint, CONFIG_URL, 0, 0),
	KEY("preemption", azure_endpoint, CONFIG_URL, 0, 0),
	KEY("preemption", dmi_dir, CONFIG_PATH, 0, 0),
	KEY("preemption", inhibit_delay, CONFIG_DURATION, 0, 0),
	KEY("host", topology, CONFIG_TOPOLOGY, 0, 0),
	KEY("metrics", listen, CONFIG_ADDRESS, 0, 0),
#undef KEY
	{ "rendezvous", "require", CONFIG_REQUIRE, offsetof(struct config, require_secret), 0, 0 },
};

/* One file that is being read. inih does not tell its handler the line: the reader counts. */
struct config_reader {
	struct config *config;
	const char *name;
	const char *text; /* what is left of it */
	int line;
	struct error *err;
	int code;
};

int config_init(struct config *c)
{
	*c = (struct config){
		.socket_mode = -1,
		.log_level = -1,
		.keep_runs = 10000,
		.keep_days = KEEP_DAYS,
		.keep_bytes = KEEP_BYTES,
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

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

void config_fini(struct config *c)
{
	free(c->admin_group);
	free_words(c->allow_groups);
	free_words(c->allow_users);
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
	char **words = calloc(strlen(value) / 2 + 2, sizeof(*words));
	char *save = NULL;
	size_t n = 0;

	if (!copy || !words) {
		free(words);
		return out_of_memory(err);
	}
	for (char *w = strtok_r(copy, " \t,", &save); w; w = strtok_r(NULL, " \t,", &save)) {
		words[n] = strdup(w);
		if (!words[n++]) {
			free_words(words);
			return out_of_memory(err);
		}
	}
	free_words(*slot);
	*slot = n ? words : NULL;
	if (!n)
		free(words);
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

static int apply(struct config *c, const char *section, const char *name, const char *value,
	struct error *err)
{
	bool known = false;
	int r;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(keys[i].section, section))
			continue;
		known = true;
		if (strcmp(keys[i].name, name))
			continue;
		r = set_key(c, &keys[i], value, err);
		if (r < 0)
			error_prefix(err, "[%s] %s", section, name);
		return r;
	}
	if (!known)
		return error_set(err, -EINVAL,
			"unknown section [%s]; expected [elasticd], [logs], [limits], "
			"[preemption], [rendezvous], [host] or [metrics]",
			section);
	return error_set(err, -EINVAL, "unknown key \"%s\" in section [%s]", name, section);
}

static int on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct config_reader *r = arg;

	if (r->code < 0)
		return 1;
	r->code = apply(r->config, section, name, value, r->err);
	if (r->code < 0)
		error_prefix(r->err, "%s:%d", r->name, r->line);
	return 1;
}

/*
 * fgets() on text. Counts lines and refuses those that inih would cut. Strips indents: inih would
 * take an indented line as part of the value before.
 */
static char *next_line(char *buffer, int size, void *arg)
{
	struct config_reader *r = arg;
	size_t n;

	if (!*r->text || r->code < 0)
		return NULL;
	r->text += strspn(r->text, " \t");
	n = strcspn(r->text, "\n");
	r->line++;
	if (n + 2 > (size_t)size) {
		r->code = error_set(r->err, -EINVAL, "%s:%d: the line is longer than %d bytes",
			r->name, r->line, size - 2);
		return NULL;
	}
	memcpy(buffer, r->text, n);
	memcpy(buffer + n, "\n", 2);
	r->text += n + (r->text[n] == '\n');
	return buffer;
}

int config_parse(struct config *c, const char *name, const char *text, struct error *err)
{
	struct config_reader r = { .config = c, .name = name, .text = text, .err = err };
	int line = ini_parse_stream(next_line, &r, on_key, &r);

	if (r.code < 0)
		return r.code;
	if (line == -2)
		return out_of_memory(err);
	if (line)
		return error_set(err, -EINVAL,
			"%s:%d: expected a [section], \"key = value\" or a comment", name, line);
	return 0;
}

static int read_text(const char *file, char **ret, struct error *err)
{
	_cleanup_file_ FILE *f = fopen(file, "re");
	_cleanup_free_ char *text = NULL;
	size_t size = 0;

	if (!f)
		return error_set(err, -errno, "%s: %s", file, strerror(errno));
	errno = 0;
	if (getdelim(&text, &size, '\0', f) < 0) {
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

static int load_file(struct config *c, const char *file, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	int r = read_text(file, &text, err);

	return r < 0 ? r : config_parse(c, file, text, err);
}

static int is_conf(const struct dirent *e)
{
	return !fnmatch("*.conf", e->d_name, FNM_PERIOD);
}

static int load_dir(struct config *c, const char *dir, struct error *err)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, is_conf, alphasort);
	int r = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : error_set(err, -errno, "%s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *file = paths_join(dir, entries[i]->d_name);

		if (!r)
			r = file ? load_file(c, file, err) : out_of_memory(err);
		free(entries[i]);
	}
	free(entries);
	return r;
}

int config_load(struct config *c, const char *file, bool required, struct error *err)
{
	_cleanup_(config_fini) struct config fresh = { 0 };
	_cleanup_free_ char *dir = NULL;
	int r;

	if (config_init(&fresh) < 0 || asprintf(&dir, "%s.d", file) < 0)
		return out_of_memory(err);
	r = load_file(&fresh, file, err);
	if (r < 0 && (r != -ENOENT || required))
		return r;
	r = load_dir(&fresh, dir, err);
	if (r < 0)
		return r;
	config_fini(c);
	*c = fresh;
	memset(&fresh, 0, sizeof(fresh));
	return 0;
}
