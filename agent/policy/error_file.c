/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/error_file.h"

#include "agent/files/file_system.h"
#include "common/base/file.h"
#include "common/text/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { ERROR_FILE_MAX = 16 << 20 };

static bool error_file_inside_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The beginning of a text that is too long. Whole characters: what JSON gives is UTF-8. */
static char *error_file_head(const char *text, size_t max)
{
	size_t len = strlen(text);
	char *cut;

	if (len <= max)
		return strdup(text);
	for (len = max; len && error_file_inside_character(text[len]); len--)
		;
	return asprintf(&cut, "%.*s [...]", (int)len, text) < 0 ? NULL : cut;
}

/* The end of a text that is too long: the last lines of a traceback matter most. */
static char *error_file_tail(const char *text, size_t max)
{
	size_t len = strlen(text);
	char *cut;

	if (len <= max)
		return strdup(text);
	for (text += len - max; error_file_inside_character(*text); text++)
		;
	return asprintf(&cut, "[...] %s", text) < 0 ? NULL : cut;
}

/* The time in t, a number or a string that holds one, in microseconds; -1 for anything else. */
static int64_t error_file_timestamp(const json_t *t, bool *ret_whole)
{
	double seconds;
	char *end;

	*ret_whole = false;
	if (json_is_integer(t)) {
		*ret_whole = true;
		seconds = (double)json_integer_value(t);
	} else if (json_is_real(t)) {
		seconds = json_real_value(t);
	} else if (json_is_string(t) && json_string_length(t) > 0) {
		const char *s = json_string_value(t);

		seconds = strtod(s, &end);
		if (*end)
			return -1;
		*ret_whole = !strpbrk(s, ".eE");
	} else {
		return -1;
	}
	if (!isfinite(seconds) || seconds <= 0 || seconds > 1e11)
		return -1;
	return (int64_t)(seconds * 1e6);
}

static int error_file_fill(struct error_file *e, const char **ret_problem)
{
	const json_t *message = json_object_get(e->doc, "message");
	const json_t *stamp = json_object_get(e->doc, "timestamp");
	const char *text = json_string_value(message);

	if (json_is_object(message)) {
		const json_t *extra = json_object_get(message, "extraInfo");
		const char *stack = json_string_value(json_object_get(extra, "py_callstack"));

		text = json_string_value(json_object_get(message, "message"));
		stamp = json_object_get(extra, "timestamp");
		if (!text) {
			*ret_problem = "message.message is missing or not a string";
			return -EBADMSG;
		}
		if (stack)
			e->traceback = error_file_tail(stack, ERROR_FILE_TRACEBACK_MAX);
	} else if (!text) {
		*ret_problem = "message is missing, expected a string or an object";
		return -EBADMSG;
	}
	e->timestamp_us = error_file_timestamp(stamp, &e->whole_seconds);
	e->message = error_file_head(text, ERROR_FILE_MESSAGE_MAX);
	if (!e->message)
		*ret_problem = "out of memory";
	return e->message ? 0 : -ENOMEM;
}

int error_file_parse(const char *text, size_t len, struct error_file *ret, const char **ret_problem)
{
	struct error_file e = { .timestamp_us = -1 };
	json_error_t jerr;
	int r;

	*ret_problem = NULL;
	e.doc = json_loadb(text, len, 0, &jerr);
	if (!e.doc)
		*ret_problem = len ? "not valid JSON" : "the file is empty";
	else if (!json_is_object(e.doc))
		*ret_problem = "not a JSON object";
	r = *ret_problem ? -EBADMSG : error_file_fill(&e, ret_problem);
	if (r < 0) {
		error_file_fini(&e);
		return r;
	}
	*ret = e;
	return 0;
}

static const char *error_file_problem(int r)
{
	switch (r) {
	case -ELOOP:
		return "it is a symbolic link";
	case -ENOTSUP:
	case -EISDIR:
		return "not a regular file";
	case -EFBIG:
		return "larger than 16 MiB";
	case -ETIMEDOUT:
		return safe_open_text(r);
	default:
		return "cannot be read";
	}
}

int error_file_read(
	const char *path, struct error_file *ret, int64_t *ret_mtime_us, const char **ret_problem)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t len;
	int r = log_fs_read_stat(path, ERROR_FILE_MAX, &text, &len, &st);

	*ret_problem = NULL;
	if (r < 0) {
		*ret_problem = r == -ENOENT ? NULL : error_file_problem(r);
		return r == -ENOTSUP || r == -EISDIR ? -EBADMSG : r;
	}
	*ret_mtime_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
	return error_file_parse(text, len, ret, ret_problem);
}

void error_file_fini(struct error_file *e)
{
	json_decref(e->doc);
	free(e->message);
	free(e->traceback);
	*e = (struct error_file){ .timestamp_us = -1 };
}

int error_file_copy(const struct error_file *e, const char *path, int exit_code)
{
	_cleanup_json_ json_t *doc = json_deep_copy(e->doc);
	_cleanup_free_ char *text = NULL;

	if (!doc)
		return -ENOMEM;
	if (json_is_object(json_object_get(doc, "message")))
		json_put_int(json_object_get(doc, "message"), "errorCode", exit_code);
	text = json_dumps(doc, JSON_COMPACT);
	if (!text)
		return -ENOMEM;
	return file_write_atomic(path, text, strlen(text), 0644, false);
}
