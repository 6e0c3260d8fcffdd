/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue/payload.h"

#include "client/base/ctl.h"
#include "common/base/printable.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Parses one value. Keeps numbers as text of any length, so refuses only what is not a number. */
static json_t *parse_json(const char *text, size_t len, size_t flags, json_error_t *ret_error)
{
	/* The parser would take a NUL for the end. */
	if (memchr(text, '\0', len)) {
		strcpy(ret_error->text, "unexpected NUL");
		return NULL;
	}
	return json_loadb(text, len,
		JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | flags, ret_error);
}

int payload_check_json(const char **data, size_t *len, struct error *err)
{
	_cleanup_json_ json_t *value = NULL;
	json_error_t je;

	/* Some editors begin each file with a byte order mark. */
	if (*len >= 3 && !memcmp(*data, "\xef\xbb\xbf", 3)) {
		*data += 3;
		*len -= 3;
	}
	while (*len && is_space(**data)) {
		(*data)++;
		(*len)--;
	}
	while (*len && is_space((*data)[*len - 1]))
		(*len)--;
	if (*len == 0)
		return error_set(err, -ENODATA, "expected one JSON value, got nothing");
	value = parse_json(*data, *len, JSON_REJECT_DUPLICATES, &je);
	if (!value)
		return error_set(err, -EINVAL, "expected one JSON value: %s", je.text);
	return 0;
}

/* Whether a JSON string can hold data as text. */
static bool is_text(const char *data, size_t len)
{
	size_t n;
	unsigned c;

	for (size_t i = 0; i < len; i += n) {
		n = printable_utf8(data + i, len - i, &c);
		if (n == 0 || c == 0)
			return false;
	}
	return true;
}

static json_t *base64_json(const void *data, size_t len)
{
	size_t n = base64_length(len);
	char *text = malloc(n + 1);
	json_t *j;

	if (!text)
		return NULL;
	base64_encode(data, len, text);
	j = json_stringn_nocheck(text, n);
	free(text);
	return j;
}

json_t *payload_put(json_t *p, const char *key, const void *data, size_t len, const char *format)
{
	if (is_text(data, len))
		p = ctl_with(p, key, json_stringn_nocheck(data, len));
	else
		p = ctl_with(p, "base64", base64_json(data, len));
	return format && *format ? ctl_with(p, "format", json_string(format)) : p;
}

int payload_get(const json_t *from, const char *key, char **ret, size_t *ret_len)
{
	const json_t *text = json_object_get(from, key), *b64 = json_object_get(from, "base64");
	size_t len = json_string_length(text);
	void *data;
	int r;

	*ret = NULL;
	*ret_len = 0;
	if (json_is_string(b64)) {
		r = base64_decode(json_string_value(b64), json_string_length(b64), &data, ret_len);
		if (r == 0)
			*ret = data;
		return r;
	}
	if (!json_is_string(text))
		return 0;
	*ret = malloc(len + 1);
	if (!*ret)
		return -ENOMEM;
	memcpy(*ret, json_string_value(text), len + 1);
	*ret_len = len;
	return 0;
}

static int read_all(int fd, char *data, size_t room, size_t *ret_len)
{
	*ret_len = 0;
	while (*ret_len < room) {
		ssize_t n = read(fd, data + *ret_len, room - *ret_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		*ret_len += (size_t)n;
	}
	return -EFBIG;
}

int payload_read(const char *path, size_t max, char **ret, size_t *ret_len, struct error *err)
{
	_cleanup_free_ char *data = malloc(max + 1);
	_cleanup_close_ int opened = -1;
	int r, fd = STDIN_FILENO;

	if (!data)
		return error_set(err, -ENOMEM, "out of memory");
	if (strcmp(path, "-") != 0) {
		opened = fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return error_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	}
	r = read_all(fd, data, max + 1, ret_len);
	if (r == -EFBIG)
		return error_set(err, r, "%s: expected at most %zu bytes", path, max);
	if (r < 0)
		return error_set(err, r, "cannot read %s: %s", path, strerror(-r));
	*ret = TAKE_PTR(data);
	return 0;
}

/* A JSON text without white space between its tokens. Returns owned. */
static char *minify_json(const char *text, size_t len)
{
	char *ret = malloc(len + 1), *out = ret;
	bool inside = false;

	if (!ret)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (inside && text[i] == '\\')
			*out++ = text[i++];
		else if (text[i] == '"')
			inside = !inside;
		else if (!inside && is_space(text[i]))
			continue;
		*out++ = text[i];
	}
	*out = '\0';
	return ret;
}

/* The value of a result for programs: the text itself if it is JSON, since its numbers may be too
 * large for any type here; else a string. Returns owned. */
static char *value_text(const json_t *value, const char *format)
{
	const char *data = json_string_value(value);
	size_t len = json_string_length(value);
	_cleanup_json_ json_t *j = NULL;
	json_error_t je;

	if (data && format && !strcmp(format, "json"))
		j = parse_json(data, len, 0, &je);
	return j ? minify_json(data, len) : json_dump_text(value, NULL);
}

/* Adds a member to the text of an unfinished object. */
static int write_member(FILE *f, const char *key, const json_t *value, const char *format)
{
	_cleanup_free_ char *text =
		strcmp(key, "value") ? json_dump_text(value, NULL) : value_text(value, format);

	/* Keys of the protocol need no escaping. */
	if (!text || fprintf(f, "%s\"%s\":%s", ftell(f) > 0 ? "," : "{", key, text) < 0)
		return -ENOMEM;
	return 0;
}

char *payload_result(const json_t *outcome, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	const char *key;
	json_t *v;
	int r = f ? 0 : -ENOMEM;

	if (!f)
		return NULL;
	json_object_foreach ((json_t *)outcome, key, v)
		if (r == 0 && !json_is_null(v))
			r = write_member(f, key, v, get_text(outcome, "format"));
	if (r == 0 && fputs(ftell(f) > 0 ? "}" : "{}", f) < 0)
		r = -ENOMEM;
	if (fclose(f) != 0 || r < 0)
		return NULL;
	if (ret_len)
		*ret_len = len;
	return TAKE_PTR(text);
}

char *payload_error(const json_t *error)
{
	const char *code = json_get_string(error, "code", ""),
		   *message = get_text(error, "message");
	const char *worker = get_text(error, "worker");
	char *text = NULL;

	if (asprintf(&text, "%s%s%s%s%s", code, message && *message ? ": " : "",
		    message ? message : "", worker ? ", on " : "", worker ? worker : "") < 0)
		return NULL;
	return text;
}
