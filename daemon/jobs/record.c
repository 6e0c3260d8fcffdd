/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/record.h"

#include "common/base/paths.h"
#include "common/base/random.h"
#include "common/base/safe_open.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "daemon/jobs/safe_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_FILE "record.json"
#define SPEC_FILE "spec.json"
#define RESERVE_FILE ".reserve"
#define UNFINISHED ".new" /* ends the name of a directory that is being made */

enum {
	RECORD_MAX = 512 << 10, /* bytes of record.json */
	SPEC_MAX = 4 << 20,	/* bytes of spec.json: more is refused */
	SPARE_MAX = 64 << 10,	/* bytes of what the agent writes where the disk is full */
	STATE_MAX = 4 << 20,	/* bytes of the agent's files */
	LAST_ERROR_MAX = 4096,
	RUN_RANDOM = 8,
	SET_ASIDE_TRIES = 1000,
	RESERVE_BYTES = 32768, /* a record with its verdict */
};

static int store_open(
	struct record_store *s, const char *dir, const char *name, mode_t mode, struct error *err)
{
	_cleanup_free_ char *path = paths_join(dir, name);
	int fd;
	int r;

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	r = files_make_dirs(path, mode, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	s->fd = fd;
	s->path = TAKE_PTR(path);
	return 0;
}

int record_store_open(struct record_store *s, const char *state_dir, struct error *err)
{
	/* Users may enter their own runs' directories, but not list the others. */
	return store_open(s, state_dir, "jobs", 0711, err);
}

int record_store_open_living(struct record_store *s, const char *runtime_dir, struct error *err)
{
	s->of_living = true;
	return store_open(s, runtime_dir, "living", 0700, err);
}

void record_store_close(struct record_store *s)
{
	s->fd = close_fd(s->fd);
	free(s->path);
	s->path = NULL;
}

void job_record_fini(struct job_record *r)
{
	free(r->name);
	free(r->run);
	free(r->user);
	free(r->log_dir);
	free(r->cgroup);
	free(r->follows);
	memset(r, 0, sizeof(*r));
}

bool job_record_is_run(const char *name)
{
	size_t len = strlen(name);
	const char *random = name + len - RUN_RANDOM;

	if (len < RUN_RANDOM + 2 || name[0] == '.' || random[-1] != '_')
		return false;
	return strspn(random, RANDOM_LETTERS) == RUN_RANDOM;
}

/* Whether run_id_new() could have made the run's name from that job's. */
static bool is_name_of(const char *name, const char *run)
{
	size_t len = strlen(name), end = strlen(run) - RUN_RANDOM - 1;
	const char *host = run + len;

	if (!job_record_is_run(run) || len > end || strncmp(name, run, len) || strchr(name, '/'))
		return false;
	/* The host stands between the two where the job may have several. */
	return len == end ||
	       (*host == '.' && len + 1 < end && strcspn(host + 1, "./_") == end - len - 1);
}

static json_t *agent_to_json(const struct job_record *r)
{
	return json_pack("{s:i, s:I, s:s*}", "pid", (int)r->agent_pid, "start_ticks",
		(json_int_t)r->agent_ticks, "cgroup", r->cgroup);
}

void job_last_fini(struct job_last *l)
{
	json_decref(l->ended);
	json_decref(l->brief);
	*l = (struct job_last){ 0 };
}

static json_t *wishes_to_json(const struct job_record *r)
{
	return json_pack("{s:I, s:I, s:I, s:b}", "notices", (json_int_t)r->notices, "poll_ms",
		(json_int_t)r->poll_ms, "stop_ms", (json_int_t)r->stop_ms, "resume", r->resume);
}

static json_t *record_to_json(const struct job_record *r, const struct job_last *last)
{
	return json_pack(
		"{s:s, s:s, s:I, s:s, s:I, s:I, s:s, s:o, s:i, s:I, s:s*, s:o*, s:o, s:I, s:O*, s:O*}",
		"name", r->name, "run", r->run, "uid", (json_int_t)r->uid, "user", r->user,
		"created_us", (json_int_t)r->created_us, "ended_us", (json_int_t)r->ended_us,
		"log_dir", r->log_dir, "agent", agent_to_json(r), "agent_losses", r->agent_losses,
		"grace_ms", (json_int_t)r->grace_ms, "follows", r->follows, "followed",
		r->followed ? json_true() : NULL, "wishes", wishes_to_json(r), "seq",
		(json_int_t)r->seq, "ended", last->ended, "brief", last->brief);
}

/* Reserves disk space that is released when the disk is full and a verdict has to be written. */
static int reserve_room(int dirfd, struct error *err)
{
	static const char zeros[RESERVE_BYTES];

	return files_write(dirfd, RESERVE_FILE, geteuid(), zeros, sizeof(zeros), 0600, err);
}

static int record_write(
	int dirfd, const struct job_record *r, const struct job_last *last, struct error *err)
{
	_cleanup_json_ json_t *doc = record_to_json(r, last);
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int code;

	text = doc ? json_dump_text(doc, &len) : NULL;
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	code = files_write(dirfd, RECORD_FILE, geteuid(), text, len, 0600, err);
	if ((code == -ENOSPC || code == -EDQUOT) && last->ended &&
		!unlinkat(dirfd, RESERVE_FILE, 0))
		code = files_write(dirfd, RECORD_FILE, geteuid(), text, len, 0600, err);
	return code;
}

static int spec_write(int dirfd, const json_t *spec, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;

	text = json_dump_text(spec, &len);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	if (len > SPEC_MAX)
		return error_set(err, -EFBIG, SPEC_FILE ": has %zu bytes, expected at most %d", len,
			SPEC_MAX);
	return files_write(dirfd, SPEC_FILE, geteuid(), text, len, 0600, err);
}

static int spec_copy(const struct record_store *from, const char *run, int dirfd, struct error *err)
{
	_cleanup_close_ int fd = files_open_dir(from->fd, run, err);
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int code = fd;

	if (fd >= 0)
		code = files_read(fd, SPEC_FILE, SPEC_MAX, geteuid(), &text, &len, err);
	if (code >= 0)
		code = files_write(dirfd, SPEC_FILE, geteuid(), text, len, 0600, err);
	return code;
}

/* Fills the directory name, which is still a temporary name. Takes the specification from another
 * store where spec is NULL. */
static int make_dir(const struct record_store *s, const char *name, const struct job_record *r,
	const json_t *spec, const struct record_store *from, struct error *err)
{
	const struct job_last none = { 0 };
	_cleanup_close_ int fd = -1;
	int code;

	if (mkdirat(s->fd, name, 0700) < 0)
		return error_set(err, -errno, "%s", strerror(errno));
	fd = files_open_dir(s->fd, name, err);
	code = fd < 0 ? fd : spec ? spec_write(fd, spec, err) : spec_copy(from, r->run, fd, err);
	if (!code)
		code = record_write(fd, r, &none, err);
	if (code < 0 || s->of_living)
		return code;
	code = reserve_room(fd, err);
	/* Last, so that the user cannot write there before. */
	if (!code && geteuid() != r->uid && fchown(fd, r->uid, -1) < 0)
		code = error_set(err, -errno, "%s", strerror(errno));
	return code;
}

/*
 * Renames the directory to the run's name only when it is complete: a crash before leaves nothing
 * that looks like a run, and no caller knows of one.
 */
static int create_run_dir(const struct record_store *s, const struct job_record *r,
	const json_t *spec, const struct record_store *from, struct error *err)
{
	_cleanup_free_ char *name = NULL;
	struct error ignored;
	int code;

	if (asprintf(&name, ".%s" UNFINISHED, r->run) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	code = make_dir(s, name, r, spec, from, err);
	if (!code && renameat2(s->fd, name, s->fd, r->run, RENAME_NOREPLACE) < 0)
		code = error_set(err, -errno, "%s", strerror(errno));
	if (code < 0) {
		error_prefix(err, "%s/%s", s->path, r->run);
		/* Report the first error only. */
		(void)!job_record_remove(s, name, &ignored);
	}
	return code;
}

int job_record_create(const struct record_store *s, const struct job_record *r, const json_t *spec,
	struct error *err)
{
	return create_run_dir(s, r, spec, NULL, err);
}

static bool is_unfinished(const char *name)
{
	size_t n = strlen(name);
	size_t tail = strlen(UNFINISHED);

	return name[0] == '.' && n > tail && !strcmp(name + n - tail, UNFINISHED);
}

static int write_verdict(int dirfd, uid_t owner, const json_t *verdict, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;

	text = json_dump_text(verdict, &len);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	return files_write(dirfd, "verdict.json", owner, text, len, 0640, err);
}

/* Moves it to the first free name. */
static int move_away(int dirfd, const char *name)
{
	for (int n = 1; n <= SET_ASIDE_TRIES; n++) {
		char to[64];

		snprintf(to, sizeof(to), "%s.corrupt-%d", name, n);
		if (!renameat2(dirfd, name, dirfd, to, RENAME_NOREPLACE) || errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

int job_record_remake(const struct record_store *s, const struct job_record *r,
	const struct record_store *from, struct error *err)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, r->run, err);
	const struct job_last none = { 0 };
	struct stat st;
	int code = fd < 0 ? fd : 0;

	if (code == -ENOENT)
		return create_run_dir(s, r, NULL, from, err);
	if (!code && fstat(fd, &st) < 0)
		code = error_set(err, -errno, "%s", strerror(errno));
	if (!code && st.st_uid != r->uid)
		code = error_set(err, -EPERM, "it belongs to user %u, expected user %u",
			(unsigned)st.st_uid, (unsigned)r->uid);
	if (!code && (code = move_away(fd, RECORD_FILE)) < 0)
		error_set(err, code, RECORD_FILE ": %s", strerror(-code));
	if (!code)
		code = spec_copy(from, r->run, fd, err);
	if (!code)
		code = record_write(fd, r, &none, err);
	if (code < 0)
		error_prefix(err, "%s/%s", s->path, r->run);
	return code;
}

int job_record_update(const struct record_store *s, const struct job_record *r,
	const struct job_last *last, struct error *err)
{
	const struct job_last now = last ? *last : (struct job_last){ 0 };
	_cleanup_close_ int fd = files_open_dir(s->fd, r->run, err);
	_cleanup_json_ json_t *doc = NULL;
	struct job_last all;
	int code = fd;

	if (fd >= 0)
		code = files_read_json(fd, RECORD_FILE, RECORD_MAX, geteuid(), &doc, err);
	if (!code) {
		all.ended = now.ended ? now.ended : json_object_get(doc, "ended");
		all.brief = now.brief ? now.brief : json_object_get(doc, "brief");
		code = record_write(fd, r, &all, err);
	}
	if (!code && now.ended)
		code = write_verdict(fd, r->uid, now.ended, err);
	if (code < 0)
		error_prefix(err, "%s/%s", s->path, r->run);
	return code;
}

/* Takes fd, or a negative errno in its place. */
static int sync_fd(int fd)
{
	int r = fd < 0 ? fd : fsync(fd) < 0 ? -errno : 0;

	close_fd(fd);
	return r;
}

int job_record_sync(const char *path)
{
	_cleanup_close_ int dir = files_open_dir(AT_FDCWD, path, NULL);
	int r = dir < 0 ? dir : sync_fd(safe_open(dir, SPEC_FILE, O_RDONLY, 0));

	if (!r)
		r = sync_fd(safe_open(dir, RECORD_FILE, O_RDONLY, 0));
	if (!r)
		r = sync_fd(files_open_dir(dir, ".", NULL));
	if (!r)
		r = sync_fd(files_open_dir(dir, "..", NULL));
	return r;
}

static int take_string(const json_t *doc, const char *key, char **ret, struct error *err)
{
	const char *value = json_string_value(json_object_get(doc, key));

	if (!value)
		return error_set(err, -EBADMSG, "%s: expected a string", key);
	*ret = strdup(value);
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int take_int(
	const json_t *doc, const char *key, int64_t max, int64_t *ret, struct error *err)
{
	const json_t *value = json_object_get(doc, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > max)
		return error_set(err, -EBADMSG, "%s: expected an integer from 0 to %lld", key,
			(long long)max);
	*ret = json_integer_value(value);
	return 0;
}

static int parse_agent(const json_t *agent, struct job_record *r, struct error *err)
{
	int64_t pid;
	int64_t ticks;
	int code;

	if (!json_is_object(agent))
		return error_set(err, -EBADMSG, "agent: expected an object");
	code = take_int(agent, "pid", INT32_MAX, &pid, err);
	if (!code)
		code = take_int(agent, "start_ticks", INT64_MAX, &ticks, err);
	if (!code && json_object_get(agent, "cgroup"))
		code = take_string(agent, "cgroup", &r->cgroup, err);
	if (code < 0)
		return error_prefix(err, "agent");
	r->agent_pid = pid;
	r->agent_ticks = ticks;
	return 0;
}

static int parse_wishes(const json_t *wishes, struct job_record *r, struct error *err)
{
	int64_t notices;
	int code;

	if (!json_is_object(wishes))
		return error_set(err, -EBADMSG, "wishes: expected an object");
	if ((code = take_int(wishes, "notices", UINT32_MAX, &notices, err)) < 0 ||
		(code = take_int(wishes, "poll_ms", INT64_MAX, &r->poll_ms, err)) < 0 ||
		(code = take_int(wishes, "stop_ms", INT64_MAX, &r->stop_ms, err)) < 0)
		return error_prefix(err, "wishes");
	r->notices = (unsigned)notices;
	r->resume = json_is_true(json_object_get(wishes, "resume"));
	return 0;
}

static int parse_fields(const json_t *doc, struct job_record *r, struct error *err)
{
	int64_t uid;
	int64_t losses;
	int code;

	if ((code = take_string(doc, "name", &r->name, err)) < 0 ||
		(code = take_string(doc, "run", &r->run, err)) < 0 ||
		(code = take_string(doc, "user", &r->user, err)) < 0 ||
		(code = take_string(doc, "log_dir", &r->log_dir, err)) < 0 ||
		(code = take_int(doc, "uid", UINT32_MAX - 1, &uid, err)) < 0 ||
		(code = take_int(doc, "created_us", INT64_MAX, &r->created_us, err)) < 0 ||
		(code = take_int(doc, "ended_us", INT64_MAX, &r->ended_us, err)) < 0 ||
		(code = take_int(doc, "agent_losses", INT32_MAX, &losses, err)) < 0 ||
		(code = take_int(doc, "seq", INT64_MAX, &r->seq, err)) < 0 ||
		(code = parse_agent(json_object_get(doc, "agent"), r, err)) < 0 ||
		(code = parse_wishes(json_object_get(doc, "wishes"), r, err)) < 0)
		return code;
	r->uid = uid;
	r->agent_losses = losses;
	r->followed = json_is_true(json_object_get(doc, "followed"));
	if (json_object_get(doc, "grace_ms"))
		code = take_int(doc, "grace_ms", INT64_MAX, &r->grace_ms, err);
	if (!code && json_object_get(doc, "follows"))
		code = take_string(doc, "follows", &r->follows, err);
	return code;
}

int job_record_parse(const json_t *doc, const char *run, struct job_record *ret, struct error *err)
{
	struct job_record r = { 0 };
	int code = parse_fields(doc, &r, err);

	if (!code && strcmp(r.run, run))
		code = error_set(
			err, -EBADMSG, "run: expected \"%s\", found \"%.80s\"", run, r.run);
	if (!code && !is_name_of(r.name, run))
		code = error_set(
			err, -EBADMSG, "name: \"%.80s\" is not the name of run %s", r.name, run);
	if (!code && r.log_dir[0] != '/')
		code = error_set(err, -EBADMSG, "log_dir: expected an absolute path");
	if (code < 0) {
		job_record_fini(&r);
		return code;
	}
	*ret = r;
	return 0;
}

/* Opens run's directory and reads a file that only this daemon may have written. */
static int load_doc(const struct record_store *s, const char *run, const char *name, size_t max,
	json_t **ret, struct error *err)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, run, err);
	int r = fd;

	if (fd >= 0)
		r = files_read_json(fd, name, max, geteuid(), ret, err);
	if (r < 0)
		error_prefix(err, "%s/%s", s->path, run);
	return r;
}

/* Whether a Verdict can be handed on: the members that the interface promises have the right types.
 */
static bool verdict_is_sound(const json_t *v)
{
	static const char *const results[] = { "succeeded", "failed", "stopped", "preempted",
		"timeout", "agent_lost" };
	const char *result = json_string_value(json_object_get(v, "result"));
	const json_t *status = json_object_get(v, "exit_status");

	if (!result || !json_is_integer(status) || json_integer_value(status) < 0 ||
		json_integer_value(status) > 255 || !json_is_string(json_object_get(v, "message")))
		return false;
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
		if (!strcmp(result, results[i]))
			return true;
	return false;
}

int job_record_load(const struct record_store *s, const char *run, struct job_record *ret,
	struct job_last *ret_last, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	json_t *ended;
	int r = load_doc(s, run, RECORD_FILE, RECORD_MAX, &doc, err);

	if (r < 0)
		return r;
	ended = json_object_get(doc, "ended");
	if (ended && !verdict_is_sound(ended))
		return error_set(err, -EBADMSG, "%s/%s/%s: ended: expected a verdict", s->path, run,
			RECORD_FILE);
	r = job_record_parse(doc, run, ret, err);
	if (r < 0) {
		error_prefix(err, "%s/%s/%s", s->path, run, RECORD_FILE);
		return r;
	}
	if (ret_last)
		*ret_last = (struct job_last){ .ended = json_incref(ended),
			.brief = json_incref(json_get_object(doc, "brief")) };
	return 0;
}

int job_record_spec(const struct record_store *s, const char *run, json_t **ret, struct error *err)
{
	return load_doc(s, run, SPEC_FILE, SPEC_MAX, ret, err);
}

/* While the disk was full, the agent wrote to two other files: see agent/supervise/state_file.h. */
static int read_state(int dirfd, uid_t uid, json_t **ret, struct error *err)
{
	static const char *const spares[] = { "state.spare0", "state.spare1" };
	int code = files_read_json(dirfd, "state.json", STATE_MAX, uid, ret, err);
	int64_t version = code < 0 ? -1 : json_get_int(*ret, "version", 0);

	for (size_t i = 0; i < sizeof(spares) / sizeof(*spares); i++) {
		json_t *spare = NULL;

		if (files_read_json(dirfd, spares[i], SPARE_MAX, uid, &spare, NULL) < 0)
			continue;
		if (json_get_int(spare, "version", -1) > version &&
			json_get_int(spare, "complete", -1) == json_get_int(spare, "version", 0)) {
			if (!code)
				json_decref(*ret);
			*ret = json_incref(spare);
			version = json_get_int(spare, "version", 0);
			code = 0;
		}
		json_decref(spare);
	}
	return code;
}

int job_record_state(const struct record_store *s, const struct job_record *r, json_t **ret_job,
	int64_t *ret_seq, struct error *err)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, r->run, err);
	_cleanup_json_ json_t *doc = NULL;
	json_t *job;
	int code = fd;

	if (fd >= 0)
		code = read_state(fd, r->uid, &doc, err);
	if (code < 0)
		return code;
	job = json_object_get(doc, "job");
	if (!json_is_object(job))
		return error_set(err, -EBADMSG, "state.json: job: expected an object");
	*ret_job = json_incref(job);
	*ret_seq = json_integer_value(json_object_get(doc, "seq"));
	return 0;
}

int job_record_verdict(
	const struct record_store *s, const struct job_record *r, json_t **ret, struct error *err)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, r->run, err);
	_cleanup_json_ json_t *doc = NULL;
	int code = fd;

	if (fd >= 0)
		code = files_read_json(fd, "verdict.json", STATE_MAX, r->uid, &doc, err);
	if (code < 0)
		return code;
	if (!verdict_is_sound(doc))
		return error_set(err, -EBADMSG, "verdict.json: expected a verdict");
	*ret = TAKE_PTR(doc);
	return 0;
}

int job_record_last_error(const struct record_store *s, const struct job_record *r, char **ret)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, r->run, NULL);
	size_t len;
	int code = fd;

	if (fd >= 0)
		code = files_read(fd, "last_error", LAST_ERROR_MAX, r->uid, ret, &len, NULL);
	if (code < 0)
		return code;
	(*ret)[strcspn(*ret, "\n")] = '\0';
	return 0;
}

void job_record_release(const struct record_store *s, const char *run)
{
	_cleanup_close_ int fd = files_open_dir(s->fd, run, NULL);

	if (fd >= 0)
		unlinkat(fd, RESERVE_FILE, 0);
}

int job_record_remove(const struct record_store *s, const char *run, struct error *err)
{
	_cleanup_free_ char *path = paths_join(s->path, run);
	int r = path ? files_remove_tree(path) : -ENOMEM;

	if (r < 0)
		return error_set(err, r, "%s/%s: %s", s->path, run, strerror(-r));
	return 0;
}

int job_record_set_aside(
	const struct record_store *s, const char *run, char **ret_name, struct error *err)
{
	for (int n = 1; n <= SET_ASIDE_TRIES; n++) {
		_cleanup_free_ char *name = NULL;

		if (asprintf(&name, "%s.corrupt-%d", run, n) < 0)
			return error_set(err, -ENOMEM, "out of memory");
		if (!renameat2(s->fd, run, s->fd, name, RENAME_NOREPLACE)) {
			*ret_name = TAKE_PTR(name);
			return 0;
		}
		if (errno != EEXIST)
			return error_set(err, -errno, "%s/%s: %s", s->path, run, strerror(errno));
	}
	return error_set(err, -EEXIST, "%s/%s.corrupt-*: too many", s->path, run);
}

int job_record_list(const struct record_store *s, char ***ret, struct error *err)
{
	_cleanup_dir_ DIR *dir = NULL;
	_cleanup_strings_ char **names = strings_copy(NULL);
	size_t n = 0;
	struct dirent *e;
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		int code = error_set(err, -errno, "%s: %s", s->path, strerror(errno));

		close_fd(fd);
		return code;
	}
	if (!names)
		return error_set(err, -ENOMEM, "out of memory");
	while ((e = readdir(dir))) {
		if (is_unfinished(e->d_name) || !strncmp(e->d_name, FILES_GONE, strlen(FILES_GONE)))
			(void)!job_record_remove(s, e->d_name, NULL);
		if (!job_record_is_run(e->d_name))
			continue;
		if (strings_add(&names, &n, e->d_name) < 0)
			return error_set(err, -ENOMEM, "out of memory");
	}
	*ret = TAKE_PTR(names);
	return 0;
}
