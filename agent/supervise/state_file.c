/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/state_file.h"

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/safe_open.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state_file {
	char *path;
	char *spare_path[STATE_FILE_SPARES];
	int spare_fd[STATE_FILE_SPARES]; /* -1: none */
	int64_t version;
	bool spare_used; /* the newest state is in a spare */
};

static const char *const state_file_spares[STATE_FILE_SPARES] = { "state.spare0", "state.spare1" };

/* Always writes the whole spare, so that later writes need no more room. */
static int state_file_fill(int fd, const char *text, size_t len)
{
	_cleanup_free_ char *buffer = NULL;

	if (len > STATE_FILE_SPARE_BYTES)
		return -EFBIG;
	buffer = malloc(STATE_FILE_SPARE_BYTES);
	if (!buffer)
		return -ENOMEM;
	memset(buffer, '\n', STATE_FILE_SPARE_BYTES);
	memcpy(buffer, text, len);
	errno = 0;
	if (pwrite(fd, buffer, STATE_FILE_SPARE_BYTES, 0) != STATE_FILE_SPARE_BYTES)
		return errno ? -errno : -ENOSPC;
	return 0;
}

static void state_file_make_spare(struct state_file *s, int i)
{
	/* A spare of an earlier agent may hold its last state. */
	s->spare_fd[i] = safe_open(AT_FDCWD, s->spare_path[i], O_RDWR, 0);
	if (s->spare_fd[i] >= 0)
		return;
	s->spare_fd[i] = safe_open(AT_FDCWD, s->spare_path[i], O_RDWR | O_CREAT, 0640);
	if (s->spare_fd[i] >= 0 && state_file_fill(s->spare_fd[i], "", 0) < 0) {
		close_fd(s->spare_fd[i]);
		s->spare_fd[i] = -1;
		(void)!unlink(s->spare_path[i]);
	}
}

/* The version of a state; -1: doc is no state, or only a part of one. */
static int64_t state_file_version(const json_t *doc, bool spare)
{
	int64_t version = json_get_int(doc, "version", 0);

	return spare && json_get_int(doc, "complete", -1) != version ? -1 : version;
}

struct state_file *state_file_new(const char *dir)
{
	struct state_file *s = calloc(1, sizeof(*s));
	_cleanup_json_ json_t *last = NULL;

	if (!s)
		return NULL;
	s->path = paths_join(dir, "state.json");
	for (int i = 0; i < STATE_FILE_SPARES; i++) {
		s->spare_fd[i] = -1;
		s->spare_path[i] = paths_join(dir, state_file_spares[i]);
		if (!s->path || !s->spare_path[i])
			return state_file_free(s);
	}
	if (!state_file_read(dir, &last, NULL))
		s->version = json_get_int(last, "version", 0);
	for (int i = 0; i < STATE_FILE_SPARES; i++)
		state_file_make_spare(s, i);
	return s;
}

struct state_file *state_file_free(struct state_file *s)
{
	if (!s)
		return NULL;
	for (int i = 0; i < STATE_FILE_SPARES; i++) {
		/* If a path is missing, no spare was opened. */
		if (s->spare_path[i])
			close_fd(s->spare_fd[i]);
		free(s->spare_path[i]);
	}
	free(s->path);
	free(s);
	return NULL;
}

const char *state_file_name(const struct state_file *s)
{
	return s->path;
}

/* Leaves out the long lists if doc is too long, never the counts. */
static void state_file_use_spare(struct state_file *s, const json_t *doc)
{
	_cleanup_json_ json_t *copy = json_deep_copy(doc);
	int i = (int)(s->version % STATE_FILE_SPARES), r = -EFBIG;

	for (int step = 0; r == -EFBIG && step < 3; step++) {
		_cleanup_free_ char *text = NULL;
		size_t len;

		if (step == 1)
			json_put(json_get_object(copy, "job"), "workers", json_array());
		if (step == 2)
			json_object_del(json_get_object(copy, "job"), "verdict");
		text = json_dump_text(copy, &len);
		r = text ? state_file_fill(s->spare_fd[i], text, len) : -ENOMEM;
	}
	if (r < 0)
		log_warning("%s: %s", s->spare_path[i], strerror(-r));
}

int state_file_write(struct state_file *s, json_t *doc)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	s->version++;
	json_put_int(doc, "version", s->version);
	json_put_int(
		doc, "complete", s->version); /* last: the spares are not replaced in one step */
	text = json_dump_text(doc, &len);
	r = text ? file_write_atomic(s->path, text, len, 0640, false) : -ENOMEM;
	s->spare_used = r == -ENOSPC || r == -EDQUOT;
	if (s->spare_used)
		state_file_use_spare(s, doc);
	return r;
}

void state_file_done(struct state_file *s)
{
	for (int i = 0; i < STATE_FILE_SPARES && !s->spare_used; i++)
		(void)!unlink(s->spare_path[i]);
}

static int state_file_read_one(const char *dir, const char *name, json_t **ret, struct error *err)
{
	_cleanup_free_ char *path = paths_join(dir, name);

	return path ? json_read_file(path, STATE_FILE_MAX, ret, err)
		    : error_set(err, -ENOMEM, "out of memory");
}

int state_file_read(const char *dir, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *best = NULL;
	int r = state_file_read_one(dir, "state.json", &best, err);

	for (int i = 0; i < STATE_FILE_SPARES; i++) {
		json_t *spare = NULL;

		if (state_file_read_one(dir, state_file_spares[i], &spare, NULL) < 0)
			continue;
		if (state_file_version(spare, true) >
			(best ? state_file_version(best, false) : -1)) {
			json_decref(best);
			best = json_incref(spare);
			r = 0;
		}
		json_decref(spare);
	}
	if (!r)
		*ret = TAKE_PTR(best);
	return r;
}
