/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/filter.h"

#include "agent/files/file_system.h"
#include "agent/logs/line_splitter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES (64 * 1024)

struct log_filter {
	int refs;
	int fd; /* -1 after a failure */
	char *path;
	char *const *texts;
	log_filter_fn fn;
	void *arg;
	char *data;
	size_t len, room;
};

int log_filter_new(
	const char *path, char *const *texts, log_filter_fn fn, void *arg, struct log_filter **ret)
{
	struct log_filter *f = calloc(1, sizeof(*f));
	int r = -ENOMEM;

	if (!f)
		return -ENOMEM;
	*f = (struct log_filter){ .refs = 1, .fd = -1, .texts = texts, .fn = fn, .arg = arg };
	f->path = strdup(path);
	if (f->path) {
		f->fd = log_fs_open(path, O_WRONLY | O_APPEND | O_CREAT, 0640);
		r = f->fd < 0 ? f->fd : 0;
	}
	if (r < 0) {
		log_filter_unref(f);
		return r;
	}
	*ret = f;
	return 0;
}

struct log_filter *log_filter_ref(struct log_filter *f)
{
	if (f)
		f->refs++;
	return f;
}

struct log_filter *log_filter_unref(struct log_filter *f)
{
	if (!f || --f->refs > 0)
		return NULL;
	log_filter_flush(f);
	log_fs_close(f->fd);
	free(f->path);
	free(f->data);
	free(f);
	return NULL;
}

void log_filter_flush(struct log_filter *f)
{
	size_t at = 0;

	while (f->fd >= 0 && at < f->len) {
		ssize_t n = log_fs_write(f->fd, f->data + at, f->len - at);

		if (n < 0) {
			f->fd = log_fs_close(f->fd);
			f->fn(f->arg, f->path, -n);
			break;
		}
		at += n;
	}
	f->len = 0;
	if (f->room > 4096) {
		free(f->data);
		f->data = NULL;
		f->room = 0;
	}
}

static bool has_text(const struct log_filter *f, const char *data, size_t len)
{
	for (char *const *t = f->texts; *t; t++)
		if (memmem(data, len, *t, strlen(*t)))
			return true;
	return false;
}

static bool filter_add(struct log_filter *f, const char *data, size_t len)
{
	if (f->len + len > f->room) {
		size_t room = f->room ? f->room : 4096;
		char *p;

		while (room < f->len + len)
			room *= 2;
		p = realloc(f->data, room);
		if (!p)
			return false;
		f->data = p;
		f->room = room;
	}
	if (len > 0)
		memcpy(f->data + f->len, data, len);
	f->len += len;
	return true;
}

void log_filter_put(struct log_filter *f, struct log_filter_line *line, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags)
{
	bool begins;

	if (f->fd < 0)
		return;
	if (flags & LINE_START)
		line->chosen = false;
	begins = !line->chosen && has_text(f, data, len);
	line->chosen |= begins;
	if (!line->chosen)
		return;
	/* Each piece of a long line becomes a line: pieces of two ranks' lines would mix here. */
	if (!filter_add(f, prefix, prefix_len) || !filter_add(f, data, len) ||
		!filter_add(f, "\n", 1))
		f->len = 0;
	if (f->len >= FLUSH_BYTES)
		log_filter_flush(f);
}
