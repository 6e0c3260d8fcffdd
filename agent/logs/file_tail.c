/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/file_tail.h"

#include "agent/files/file_system.h"
#include "agent/logs/line_splitter.h"
#include "agent/logs/timestamp.h"
#include "common/base/printable.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The last bytes of the file, at most max. Returns how many, or a negative errno. */
static ssize_t read_end(int fd, size_t max, char **ret, bool *ret_whole)
{
	_cleanup_free_ char *buf = NULL;
	struct stat st;
	size_t want, got = 0;
	int r = log_fs_fstat(fd, &st);

	if (r < 0)
		return r;
	want = st.st_size < (off_t)max ? (size_t)st.st_size : max;
	buf = malloc(want + 1);
	if (!buf)
		return -ENOMEM;
	while (got < want) {
		ssize_t n = log_fs_pread(fd, buf + got, want - got, st.st_size - want + got);

		if (n <= 0)
			break;
		got += n;
	}
	*ret_whole = st.st_size <= (off_t)want;
	*ret = TAKE_PTR(buf);
	return got;
}

struct collect {
	json_t *lines;
	size_t max_line;
};

static void on_line(void *arg, const char *data, size_t len, unsigned flags)
{
	struct collect *c = arg;
	json_t *line;

	if (!(flags & LINE_START) || (flags & LINE_UPDATE))
		return;
	if (len > c->max_line)
		len = printable_cut(data, c->max_line);
	line = json_string_lossy(data, len);
	/* Each invalid byte has become three. */
	if (json_string_length(line) > c->max_line)
		json_string_setn(line, json_string_value(line),
			printable_cut(json_string_value(line), c->max_line));
	json_array_append_new(c->lines, line);
}

/* All lines. A first line without its start is left out, unless it is the only one. */
static json_t *all_lines(const char *buf, size_t n, bool whole, bool stamped, size_t max_line)
{
	struct lines_config config = {
		.max_piece = 65536,
		.quiet_ms = UINT64_MAX,
		.update_ms = UINT64_MAX,
		.strip = stamped ? LOG_STAMP_LEN : 0,
	};
	struct collect c = { .lines = json_array(), .max_line = max_line };
	struct lines l;

	if (!c.lines)
		return NULL;
	if (!whole && n > 0) {
		const char *nl = memchr(buf, '\n', n);

		if (nl && nl + 1 < buf + n) {
			n -= nl + 1 - buf;
			buf = nl + 1;
		} else {
			config.strip = 0;
		}
	}
	lines_init(&l, &config, on_line, &c);
	/* Keep only the last state of a progress bar. */
	l.ever_shown = true;
	lines_feed(&l, buf, n, 0);
	lines_finish(&l);
	lines_fini(&l);
	return c.lines;
}

json_t *log_tail_of(const char *buf, size_t len, bool whole, bool stamped, int n, size_t max_line)
{
	_cleanup_json_ json_t *all = all_lines(buf, len, whole, stamped, max_line);
	json_t *lines = all ? json_array() : NULL;
	size_t size = json_array_size(all), want = n > 0 ? n : 0;

	for (size_t i = size > want ? size - want : 0; lines && i < size; i++)
		json_array_append(lines, json_array_get(all, i));
	return lines;
}

json_t *log_tail_lines(int fd, bool stamped, int n, size_t max_line, size_t max_bytes)
{
	_cleanup_free_ char *buf = NULL;
	bool whole = true;
	ssize_t got = read_end(fd, max_bytes, &buf, &whole);

	return log_tail_of(buf, got > 0 ? got : 0, whole, stamped, n, max_line);
}

char *log_tail_last(int fd, bool stamped, size_t max)
{
	_cleanup_json_ json_t *lines = log_tail_lines(fd, stamped, 64, 4 * max, 8192);

	for (size_t i = lines ? json_array_size(lines) : 0; i-- > 0;) {
		const char *s = json_string_value(json_array_get(lines, i));
		char *text;

		if (!s || s[strspn(s, " \t")] == '\0')
			continue;
		text = printable_dup(s);
		if (text && strlen(text) > max)
			text[printable_cut(text, max)] = '\0';
		return text;
	}
	return NULL;
}
