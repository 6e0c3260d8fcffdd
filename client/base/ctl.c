/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/ctl.h"

#include "client/base/verb.h"
#include "client/output/screen.h"
#include "common/base/clock.h"
#include "common/base/paths.h"
#include "common/base/printable.h"
#include "common/base/scan.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

/* Sets a UTF-8 locale, to measure widths, whatever the user's is; messages stay English. Returns
 * whether the user's is UTF-8. */
static bool init_locale(void)
{
	bool utf8;

	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (!utf8)
		setlocale(LC_CTYPE, "C.UTF-8");
	return utf8;
}

static int terminal_columns(void)
{
	const char *env = getenv("COLUMNS");
	struct winsize ws;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (env && atoi(env) > 0)
		return atoi(env);
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
}

static int init_trusted(struct ctl *ctl, const struct args *args)
{
	const char *text = args_get(args, "trust-uid");
	uint64_t uid;

	ctl->trusted = (uid_t)-1;
	if (!text)
		return 0;
	if (!args_has(args, "socket"))
		return ctl_usage(ctl, "--trust-uid is for the elasticd that --socket names");
	if (scan_whole(text, UINT32_MAX - 1, &uid) < 0)
		return ctl_usage(
			ctl, "--trust-uid: expected the number of a user, got \"%s\"", text);
	ctl->trusted = (uid_t)uid;
	return 0;
}

/* Takes the host from --host or ELASTICD_HOST. A socket that --socket names without --host is on
 * this host. */
static int init_remote(struct ctl *ctl, const struct args *args)
{
	const char *named = args_get(args, "host"), *host = named;
	int flags = ctl->verb ? ctl->verb->flags : 0;
	struct error err = { 0 };

	if (!host && !args_has(args, "socket"))
		host = getenv("ELASTICD_HOST");
	if (!host || !*host)
		return 0;
	if (flags & VERB_HERE) {
		/* ELASTICD_HOST does not concern verbs that need no elasticd, nor the hidden ones.
		 */
		if (!named && (!(flags & VERB_DAEMON) || flags & VERB_HIDDEN))
			return 0;
		return ctl_usage(ctl, "%s is for this host alone: it does not go with %s",
			ctl->verb->path, named ? "--host" : "ELASTICD_HOST");
	}
	if (remote_init(&ctl->remote, host, args_get(args, "socket"), args_get(args, "trust-uid"),
		    &err) < 0)
		return ctl_usage(ctl, "%s: %s", named ? "--host" : "ELASTICD_HOST", err.text);
	return 0;
}

int ctl_init(struct ctl *ctl, const struct args *args)
{
	const char *when = args_get(args, "color");
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	enum color_mode mode = COLOR_AUTO;
	struct error err = { 0 };
	int r;

	ctl->utf8 = init_locale();
	ctl->json = args_has(args, "json");
	if (ctl->json)
		screen_exact(stdout);
	ctl->quiet = args_has(args, "quiet");
	ctl->legend = !args_has(args, "no-legend");
	ctl->columns = terminal_columns();
	if (when && color_mode_parse(when, &mode) < 0)
		return ctl_usage(ctl, "--color: expected auto, always or never, got \"%s\"", when);
	ctl->color_out = color_wanted(mode, isatty(STDOUT_FILENO), no_color, term);
	ctl->color_err = color_wanted(mode, isatty(STDERR_FILENO), no_color, term);
	ctl->timeout_ms = -1;
	ctl->deadline_ms = -1;
	if (args_duration(args, "timeout", &ctl->timeout_ms, &err) < 0)
		return ctl_usage(ctl, "%s", err.text);
	if (ctl->timeout_ms >= 0)
		ctl->deadline_ms = (int64_t)monotonic_ms() + ctl->timeout_ms;
	if (args_has(args, "socket") && !*args_get(args, "socket"))
		return ctl_usage(ctl, "--socket: expected a path, got \"\"");
	r = init_trusted(ctl, args);
	if (r != 0)
		return r;
	r = init_remote(ctl, args);
	if (r != 0)
		return r;
	free(ctl->socket);
	ctl->socket = ctl->remote.host ? strdup(ctl->remote.host)
				       : paths_client_socket(args_get(args, "socket"), &ctl->found);
	return ctl->socket ? 0 : ctl_error(ctl, CTL_FAILED, "out of memory");
}

void ctl_fini(struct ctl *ctl)
{
	ctl->link = varlink_sync_free(ctl->link);
	json_decref(ctl->refusal);
	ctl->refusal = NULL;
	remote_fini(&ctl->remote);
	free(ctl->socket);
	ctl->socket = NULL;
}

/* Writes a message line by line, without colours and control characters that came with its text. */
static void write_message(const char *text)
{
	for (;;) {
		size_t n = strcspn(text, "\n");

		printable_write(stderr, text, n);
		fputc('\n', stderr);
		if (!text[n] || !text[n + 1])
			return;
		text += n + 1;
		fputs("  ", stderr);
	}
}

static void write_error(const struct ctl *ctl, const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	fflush(stdout);
	fprintf(stderr, "%selasticctl:%s ", ctl->color_err ? color_code(COLOR_RED) : "",
		ctl->color_err ? COLOR_OFF : "");
	write_message(text ? text : "out of memory");
}

int ctl_error(const struct ctl *ctl, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_error(ctl, fmt, ap);
	va_end(ap);
	return status;
}

int ctl_usage(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_error(ctl, fmt, ap);
	va_end(ap);
	if (ctl->verb)
		fprintf(stderr,
			"usage: elasticctl %s%s%s%s\nTry 'elasticctl help %s' for what it takes.\n",
			ctl->verb->path, verb_takes_options(ctl->verb),
			*ctl->verb->synopsis ? " " : "", ctl->verb->synopsis, ctl->verb->path);
	else
		fputs("usage: elasticctl [OPTION...] VERB [ARGUMENT...]\n"
		      "Try 'elasticctl help' for the verbs.\n",
			stderr);
	return ctl->verdict_status ? CTL_FAILED : CTL_USAGE;
}

int ctl_job_file(const struct ctl *ctl, char *const *problems)
{
	for (; *problems; problems++)
		ctl_error(ctl, CTL_USAGE, "%s", *problems);
	return CTL_USAGE;
}

void ctl_say(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	if (ctl->quiet || ctl->json)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void ctl_print_json(const json_t *j, bool lines)
{
	json_dumpf(j, stdout,
		(lines ? JSON_COMPACT : JSON_INDENT(2)) | JSON_ENCODE_ANY |
			JSON_REAL_PRECISION(15));
	putchar('\n');
}

int ctl_flush(struct ctl *ctl, int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	/* A reader that has seen enough (head) is no error. */
	if (errno == EPIPE)
		return status;
	return ctl_error(ctl, ctl->verdict_status ? CTL_FAILED : CTL_REFUSED,
		"cannot write to standard output: %s", strerror(errno));
}

struct table_style ctl_table_style(const struct ctl *ctl)
{
	return (struct table_style){ .legend = ctl->legend,
		.color = ctl->color_out,
		.columns = ctl->columns,
		.utf8 = ctl->utf8 };
}

const char *ctl_color(const struct ctl *ctl, enum color c)
{
	return ctl->color_out ? color_code(c) : "";
}

int64_t ctl_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t ctl_left_ms(const struct ctl *ctl)
{
	int64_t left;

	if (ctl->deadline_ms < 0)
		return -1;
	left = ctl->deadline_ms - (int64_t)monotonic_ms();
	return left > 0 ? left : 0;
}

json_t *ctl_job(const char *job)
{
	return ctl_with(json_object(), "job", json_string(job));
}

json_t *ctl_with(json_t *j, const char *key, json_t *value)
{
	if (j && value && json_object_set_new(j, key, value) == 0)
		return j;
	if (!j)
		json_decref(value);
	json_decref(j);
	return NULL;
}

const char *get_text(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

int64_t get_int(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

bool has_value(const json_t *j, const char *key)
{
	const json_t *v = json_object_get(j, key);

	return v && !json_is_null(v);
}
