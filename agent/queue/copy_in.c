/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deputy's copy of the journal of the agent that leads: the bytes of its file, as they come.
 * They become this host's queue.journal when they are whole, so that there is always one file that
 * a next head can go on from.
 */
#include "agent/queue/private.h"
#include "common/base/file.h"
#include "common/base/safe_open.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COPY_FILE "queue.copy"
#define JOURNAL_FILE "queue.journal"
#define EDITION_FILE "queue.edition"

enum { EDITION_BYTES = 512 };

/* --- editions --- */

static int edition_path(const struct supervisor *sv, char **ret)
{
	if (asprintf(ret, "%s/" EDITION_FILE, supervisor_dir(sv)) >= 0)
		return 0;
	*ret = NULL;
	return -ENOMEM;
}

int dispatch_edition_save(const struct supervisor *sv, const char *name, const char *before)
{
	_cleanup_free_ char *path = NULL;
	char text[EDITION_BYTES];
	int len =
		snprintf(text, sizeof(text), "{\"name\":\"%s\",\"before\":\"%s\"}\n", name, before);
	int r = edition_path(sv, &path);

	return r < 0 ? r : file_write_atomic(path, text, (size_t)len, 0640, false);
}

bool dispatch_has_records(const struct supervisor *sv, const json_t *edition)
{
	const char *noted = json_get_string(edition, "name", "");
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_json_ json_t *own = NULL;
	json_error_t at;

	if (!dispatch_of(sv) || !dispatch_of(sv)->durable || !*noted ||
		edition_path(sv, &path) < 0 || file_read(path, EDITION_BYTES, &text, NULL) < 0)
		return false;
	own = json_loads(text, JSON_REJECT_DUPLICATES, &at);
	return !strcmp(json_get_string(own, "name", ""), noted) ||
	       !strcmp(json_get_string(own, "before", ""), noted);
}

/* --- records --- */

static int run_dir(const struct dispatch *d)
{
	return open(supervisor_dir(d->sv), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A copy begins; the file that it will replace stays until then. */
static int copy_open(struct dispatch *d, const json_t *p)
{
	struct dispatch_copy *c = &d->copy_in;
	int dir = run_dir(d);

	if (dir < 0)
		return -errno;
	close_fd(c->fd);
	unlinkat(dir, COPY_FILE, 0);
	c->fd = safe_open(dir, COPY_FILE, O_WRONLY | O_CREAT | O_EXCL, 0640);
	close(dir);
	c->size = 0;
	snprintf(c->edition, sizeof(c->edition), "%s", json_get_string(p, "edition", ""));
	snprintf(c->before, sizeof(c->before), "%s", json_get_string(p, "before", ""));
	return c->fd < 0 ? c->fd : 0;
}

static int copy_is_whole(struct dispatch *d)
{
	struct dispatch_copy *c = &d->copy_in;
	int dir = run_dir(d), r = 0;

	if (dir < 0)
		return -errno;
	if (renameat(dir, COPY_FILE, dir, JOURNAL_FILE) < 0)
		r = -errno;
	close(dir);
	return r < 0 ? r : dispatch_edition_save(d->sv, c->edition, c->before);
}

static int copy_write(struct dispatch *d, const json_t *p)
{
	struct dispatch_copy *c = &d->copy_in;
	const char *text = json_get_string(p, "base64", "");
	_cleanup_free_ void *data = NULL;
	int64_t offset = json_get_int(p, "offset", 0);
	size_t len;
	int r = base64_decode(text, strlen(text), &data, &len);

	if (r == 0 && !offset)
		r = copy_open(d, p);
	if (r < 0)
		return r;
	if (c->fd < 0 || (uint64_t)offset != c->size)
		return -EPROTO;
	r = file_write_all(c->fd, data, len);
	if (r < 0)
		return r;
	c->size += len;
	return json_get_bool(p, "whole", false) ? copy_is_whole(d) : 0;
}

json_t *dispatch_hear_records(struct supervisor *sv, const json_t *p)
{
	struct dispatch *d = dispatch_of(sv);
	json_int_t number = (json_int_t)json_get_int(p, "number", 1);
	int r = !d || !d->durable || d->commons ? -EOPNOTSUPP : copy_write(d, p);

	if (r == 0)
		return json_pack(
			"{s:I, s:I}", "number", number, "bytes", (json_int_t)d->copy_in.size);
	if (d)
		close_fd(TAKE_FD(d->copy_in.fd));
	return json_pack(
		"{s:I, s:I, s:s}", "number", number, "bytes", (json_int_t)0, "why", strerror(-r));
}

void dispatch_copy_in_end(struct dispatch *d, bool keep)
{
	int dir = run_dir(d);

	close_fd(d->copy_in.fd);
	d->copy_in.fd = -1;
	if (dir < 0)
		return;
	unlinkat(dir, COPY_FILE, 0);
	if (!keep) {
		unlinkat(dir, EDITION_FILE, 0);
		unlinkat(dir, JOURNAL_FILE, 0);
	}
	close(dir);
}
