/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "common/text/json.h"
#include "daemon/jobs/mirror.h"
#include "daemon/jobs/record.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define RUN "job_abcd1234"
#define RECORD                                                                                \
	"{\"name\":\"job\",\"run\":\"" RUN "\",\"uid\":0,\"user\":\"root\",\"created_us\":5," \
	"\"ended_us\":0,\"log_dir\":\"/l\",\"agent\":{\"pid\":7,\"start_ticks\":8},"          \
	"\"agent_losses\":2,\"seq\":9,"                                                       \
	"\"wishes\":{\"notices\":1,\"poll_ms\":2,\"stop_ms\":3,\"resume\":true}}"

static char dir[64];
static struct record_store store, living;
static struct job_record rec;
static struct error err;

static int n_synced;

/* In place of the C library's. */
int fsync(int fd)
{
	n_synced++;
	return 0;
}

static void setup(void)
{
	strcpy(dir, "/tmp/test-record-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(record_store_open(&store, dir, &err), 0);
	ck_assert_int_eq(record_store_open_living(&living, dir, &err), 0);
	rec = (struct job_record){ .name = strdup("job"),
		.run = strdup(RUN),
		.user = strdup("me"),
		.uid = geteuid(),
		.created_us = 1234567,
		.log_dir = strdup("/logs") };
}

static void teardown(void)
{
	job_record_fini(&rec);
	record_store_close(&store);
	record_store_close(&living);
	ck_assert_int_eq(file_rm_rf(dir), 0);
}

static void create(void)
{
	_cleanup_json_ json_t *spec = json_pack("{s:i}", "x", 1);

	ck_assert_int_eq(job_record_create(&store, &rec, spec, &err), 0);
}

static void path_of(char path[128], const char *file)
{
	snprintf(path, 128, "%s/jobs/" RUN "/%s", dir, file);
}

static void put(const char *file, const char *text)
{
	char path[128];

	path_of(path, file);
	ck_assert_int_eq(file_write_atomic(path, text, strlen(text), 0644, false), 0);
}

static int load(void)
{
	struct job_record r = { 0 };
	int code = job_record_load(&store, RUN, &r, NULL, &err);

	job_record_fini(&r);
	return code;
}

START_TEST(a_record_comes_back_as_it_was_written)
{
	struct job_record r = { 0 };
	_cleanup_(job_last_fini) struct job_last last = { 0 };
	_cleanup_json_ json_t *spec = NULL;

	rec.notices = 5;
	rec.poll_ms = 6;
	rec.stop_ms = 7;
	rec.seq = 8;
	rec.resume = true;
	create();
	ck_assert_int_eq(job_record_load(&store, RUN, &r, &last, &err), 0);
	ck_assert_uint_eq(r.notices, 5);
	ck_assert_int_eq(r.poll_ms, 6);
	ck_assert_int_eq(r.stop_ms, 7);
	ck_assert_int_eq(r.seq, 8);
	ck_assert(r.resume);
	ck_assert_str_eq(r.name, "job");
	ck_assert_str_eq(r.user, "me");
	ck_assert_uint_eq(r.uid, geteuid());
	ck_assert_int_eq(r.created_us, 1234567);
	ck_assert_str_eq(r.log_dir, "/logs");
	ck_assert_int_eq(r.agent_pid, 0);
	ck_assert_ptr_null(r.cgroup);
	ck_assert_ptr_null(last.ended);
	ck_assert_ptr_null(last.brief);
	job_record_fini(&r);
	ck_assert_int_eq(job_record_spec(&store, RUN, &spec, &err), 0);
	ck_assert_int_eq(json_get_int(spec, "x", 0), 1);
}
END_TEST

START_TEST(its_directory_is_the_users_alone)
{
	char path[128];
	struct stat st;

	create();
	path_of(path, "");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0700);
	path_of(path, "record.json");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(records_of_the_living_belong_to_elasticd_for_every_user)
{
	_cleanup_json_ json_t *spec = json_pack("{s:i}", "x", 1);
	struct job_record r = { 0 };
	char path[128];
	struct stat st;

	rec.uid = geteuid() + 1;
	ck_assert_int_eq(job_record_create(&living, &rec, spec, &err), 0);
	rec.agent_pid = 77;
	ck_assert_int_eq(job_record_update(&living, &rec, NULL, &err), 0);
	ck_assert_int_eq(job_record_load(&living, RUN, &r, NULL, &err), 0);
	ck_assert_uint_eq(r.uid, geteuid() + 1);
	ck_assert_int_eq(r.agent_pid, 77);
	job_record_fini(&r);
	snprintf(path, sizeof(path), "%s/living/" RUN, dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_uid, geteuid());
	ck_assert_int_eq(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/living", dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0700);
}
END_TEST

START_TEST(a_missing_directory_is_made_with_its_parent)
{
	_cleanup_json_ json_t *spec = json_pack("{s:i}", "x", 1);
	_cleanup_json_ json_t *found = NULL;

	ck_assert_int_eq(job_record_create(&living, &rec, spec, &err), 0);
	ck_assert_int_eq(job_record_remake(&store, &rec, &living, &err), 0);
	ck_assert_int_eq(job_record_spec(&store, RUN, &found, &err), 0);
	ck_assert(json_equal(found, spec));
}
END_TEST

START_TEST(an_update_keeps_the_specification_and_what_is_known)
{
	_cleanup_json_ json_t *verdict = json_pack(
		"{s:s, s:i, s:s}", "result", "agent_lost", "exit_status", 125, "message", "m");
	_cleanup_json_ json_t *brief = json_pack("{s:s}", "state", "failed");
	_cleanup_(job_last_fini) struct job_last last = { 0 };
	_cleanup_json_ json_t *spec = NULL;
	struct job_record r = { 0 };

	create();
	rec.agent_pid = 77;
	rec.agent_ticks = 88;
	rec.agent_losses = 3;
	rec.grace_ms = 3600000;
	rec.cgroup = strdup("/sys/fs/cgroup/x");
	ck_assert_int_eq(
		job_record_update(&store, &rec, &(struct job_last){ .ended = verdict }, &err), 0);
	ck_assert_int_eq(
		job_record_update(&store, &rec, &(struct job_last){ .brief = brief }, &err), 0);
	ck_assert_int_eq(job_record_update(&store, &rec, NULL, &err), 0);
	ck_assert_int_eq(job_record_load(&store, RUN, &r, &last, &err), 0);
	ck_assert_int_eq(r.agent_pid, 77);
	ck_assert_uint_eq(r.agent_ticks, 88);
	ck_assert_int_eq(r.agent_losses, 3);
	ck_assert_int_eq(r.grace_ms, 3600000);
	ck_assert_str_eq(r.cgroup, "/sys/fs/cgroup/x");
	job_record_fini(&r);
	ck_assert(json_equal(last.ended, verdict));
	ck_assert(json_equal(last.brief, brief));
	ck_assert_int_eq(job_record_spec(&store, RUN, &spec, &err), 0);
	ck_assert_int_eq(json_get_int(spec, "x", 0), 1);
}
END_TEST

START_TEST(a_second_record_of_the_same_run_is_refused)
{
	_cleanup_json_ json_t *spec = json_object();

	create();
	ck_assert_int_eq(job_record_create(&store, &rec, spec, &err), -EEXIST);
	ck_assert_int_eq(load(), 0);
}
END_TEST

START_TEST(a_sound_record_parses)
{
	_cleanup_json_ json_t *doc = json_loads(RECORD, 0, NULL);
	struct job_record r = { 0 };

	ck_assert_int_eq(job_record_parse(doc, RUN, &r, &err), 0);
	ck_assert_int_eq(r.agent_pid, 7);
	ck_assert_int_eq(r.agent_losses, 2);
	ck_assert_int_eq(r.grace_ms, 0);
	job_record_fini(&r);
}
END_TEST

START_TEST(a_run_of_one_of_several_hosts_has_the_name_of_its_job)
{
	static const struct {
		const char *name, *run;
		bool good;
	} rows[] = {
		{ "job", "job.node-7_abcd1234", true },
		{ "a.b", "a.b.node7_abcd1234", true },
		{ "a.b", "a.b_abcd1234", true },
		{ "job", "job._abcd1234", false },
		{ "job", "job.a.b_abcd1234", false },
		{ "job", "job.a/b_abcd1234", false },
		{ "job", "job_node_abcd1234", false },
		{ "job", "jobs.node_abcd1234", false },
		{ "job.node_abcd1234", "job.node_abcd1234", false },
		{ "job", "job.node", false },
		{ "", "a", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_json_ json_t *doc = json_loads(RECORD, 0, NULL);
		struct job_record r = { 0 };

		json_object_set_new(doc, "name", json_string(rows[i].name));
		json_object_set_new(doc, "run", json_string(rows[i].run));
		ck_assert_msg(job_record_parse(doc, rows[i].run, &r, &err) ==
				      (rows[i].good ? 0 : -EBADMSG),
			"%s", rows[i].run);
		job_record_fini(&r);
	}
}
END_TEST

/* A member that is missing or replaced, and what is said of it. */
static const struct {
	const char *member, *value, *says;
} wrong[] = {
	{ "name", NULL, "name: expected a string" },
	{ "name", "\"other\"", "name: \"other\" is not the name of run " RUN },
	{ "name", "\"jo/\"", "name: \"jo/\" is not the name of run " RUN },
	{ "run", "\"x_abcd1234\"", "run: expected \"" RUN "\", found \"x_abcd1234\"" },
	{ "uid", "-1", "uid: expected an integer from 0 to 4294967294" },
	{ "uid", "4294967295", "uid: expected an integer from 0 to 4294967294" },
	{ "uid", "\"root\"", "uid: expected an integer from 0 to 4294967294" },
	{ "user", "null", "user: expected a string" },
	{ "created_us", "1.5", "created_us: expected an integer" },
	{ "log_dir", "\"l\"", "log_dir: expected an absolute path" },
	{ "agent", NULL, "agent: expected an object" },
	{ "agent", "{\"pid\":-4,\"start_ticks\":0}", "agent: pid: expected an integer" },
	{ "agent", "{\"pid\":1,\"start_ticks\":0,\"cgroup\":1}",
		"agent: cgroup: expected a string" },
	{ "agent_losses", "4294967296", "agent_losses: expected an integer" },
	{ "grace_ms", "-1", "grace_ms: expected an integer" },
	{ "seq", "-1", "seq: expected an integer" },
	{ "wishes", "[]", "wishes: expected an object" },
	{ "wishes", "{\"notices\":1,\"poll_ms\":2}", "wishes: stop_ms: expected an integer" },
};

START_TEST(a_wrong_member_is_named)
{
	_cleanup_json_ json_t *doc = json_loads(RECORD, 0, NULL);
	struct job_record r = { 0 };

	json_object_del(doc, wrong[_i].member);
	if (wrong[_i].value)
		json_object_set_new(
			doc, wrong[_i].member, json_loads(wrong[_i].value, JSON_DECODE_ANY, NULL));
	ck_assert_int_eq(job_record_parse(doc, RUN, &r, &err), -EBADMSG);
	ck_assert_msg(strstr(err.text, wrong[_i].says) == err.text, "said: %s", err.text);
	ck_assert_ptr_null(r.name);
}
END_TEST

START_TEST(a_half_written_record_is_reported_with_its_place)
{
	create();
	put("record.json", "{\"name\":\"job\",\"ru");
	ck_assert_int_eq(load(), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.text, "/jobs/" RUN ": record.json: line 1"));
	put("record.json", "");
	ck_assert_int_eq(load(), -EBADMSG);
}
END_TEST

/* The next elasticd would read that of each run before it serves a caller. */
START_TEST(a_record_is_short_however_long_the_specification_is)
{
	_cleanup_json_ json_t *spec = json_object();
	char path[128], *text = malloc(3 << 20);
	struct stat st;

	memset(text, 'x', (3 << 20) - 1);
	text[(3 << 20) - 1] = '\0';
	json_object_set_new(spec, "x", json_string(text));
	free(text);
	ck_assert_int_eq(job_record_create(&store, &rec, spec, &err), 0);
	path_of(path, "record.json");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_lt(st.st_size, 1000);
	path_of(path, "spec.json");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(truncate(path, 5 << 20), 0);
	json_decref(spec);
	spec = NULL;
	ck_assert_int_eq(job_record_spec(&store, RUN, &spec, &err), -EFBIG);
}
END_TEST

/* Others would wait meanwhile. */
START_TEST(only_a_sync_waits_for_the_disk)
{
	_cleanup_json_ json_t *verdict = json_pack(
		"{s:s, s:i, s:s}", "result", "agent_lost", "exit_status", 125, "message", "m");
	char path[128];

	n_synced = 0;
	create();
	ck_assert_int_eq(
		job_record_update(&store, &rec, &(struct job_last){ .ended = verdict }, &err), 0);
	ck_assert_int_eq(n_synced, 0);
	path_of(path, "");
	ck_assert_int_eq(job_record_sync(path), 0);
	/* Two files and two directories. */
	ck_assert_int_eq(n_synced, 4);
	ck_assert_int_eq(job_record_remove(&store, RUN, &err), 0);
	ck_assert_int_eq(job_record_sync(path), -ENOENT);
}
END_TEST

START_TEST(a_record_is_not_read_through_a_link)
{
	char path[128];

	create();
	path_of(path, "record.json");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	ck_assert_int_eq(load(), -ELOOP);
	ck_assert_ptr_nonnull(strstr(err.text, "is a symbolic link"));
}
END_TEST

START_TEST(a_pipe_in_a_files_place_does_not_block)
{
	_cleanup_json_ json_t *verdict = NULL;
	char path[128];

	create();
	path_of(path, "verdict.json");
	ck_assert_int_eq(mkfifo(path, 0666), 0);
	ck_assert_int_eq(job_record_verdict(&store, &rec, &verdict, &err), -EBADMSG);
	ck_assert_str_eq(err.text, "verdict.json: expected a regular file");
}
END_TEST

START_TEST(a_file_that_grew_beyond_reason_is_not_read)
{
	_cleanup_json_ json_t *job = NULL;
	char path[128];
	int64_t seq;

	create();
	put("state.json", "{}");
	path_of(path, "state.json");
	ck_assert_int_eq(truncate(path, 1LL << 40), 0);
	ck_assert_int_eq(job_record_state(&store, &rec, &job, &seq, &err), -EFBIG);
}
END_TEST

START_TEST(a_record_of_another_user_is_refused)
{
	char path[128];

	if (geteuid() != 0)
		return;
	create();
	path_of(path, "record.json");
	ck_assert_int_eq(chown(path, 12345, -1), 0);
	ck_assert_int_eq(load(), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "belongs to user 12345"));
}
END_TEST

START_TEST(the_users_own_files_are_read_but_no_third_ones)
{
	_cleanup_json_ json_t *verdict = NULL;
	char path[128];

	if (geteuid() != 0)
		return;
	rec.uid = 12345;
	create();
	put("verdict.json", "{\"result\":\"failed\",\"exit_status\":3,\"message\":\"m\"}");
	path_of(path, "verdict.json");
	ck_assert_int_eq(chown(path, 12345, -1), 0);
	ck_assert_int_eq(job_record_verdict(&store, &rec, &verdict, &err), 0);
	ck_assert_int_eq(chown(path, 12346, -1), 0);
	json_decref(verdict);
	verdict = NULL;
	ck_assert_int_eq(job_record_verdict(&store, &rec, &verdict, &err), -EPERM);
}
END_TEST

static const char *const bad_verdicts[] = { "{}", "[]", "{\"result\":\"odd\"}",
	"{\"result\":\"failed\",\"exit_status\":\"1\",\"message\":\"m\"}",
	"{\"result\":\"failed\",\"exit_status\":256,\"message\":\"m\"}",
	"{\"result\":\"failed\",\"exit_status\":-1,\"message\":\"m\"}",
	"{\"result\":\"failed\",\"exit_status\":1}", "nonsense", "" };

START_TEST(a_verdict_that_is_none_is_refused)
{
	_cleanup_json_ json_t *verdict = NULL;

	create();
	put("verdict.json", bad_verdicts[_i]);
	ck_assert_int_eq(job_record_verdict(&store, &rec, &verdict, &err), -EBADMSG);
	ck_assert_ptr_null(verdict);
}
END_TEST

START_TEST(a_missing_process_is_reported_missing)
{
	_cleanup_json_ json_t *doc = NULL;
	int64_t seq;

	ck_assert_int_eq(load(), -ENOENT);
	create();
	ck_assert_int_eq(job_record_verdict(&store, &rec, &doc, &err), -ENOENT);
	ck_assert_int_eq(job_record_state(&store, &rec, &doc, &seq, &err), -ENOENT);
}
END_TEST

START_TEST(a_record_put_aside_never_covers_an_earlier_one)
{
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *second = NULL;
	char **names = NULL;

	create();
	ck_assert_int_eq(job_record_set_aside(&store, RUN, &first, &err), 0);
	ck_assert_str_eq(first, RUN ".corrupt-1");
	create();
	ck_assert_int_eq(job_record_set_aside(&store, RUN, &second, &err), 0);
	ck_assert_str_eq(second, RUN ".corrupt-2");
	create();
	ck_assert_int_eq(job_record_list(&store, &names, &err), 0);
	ck_assert_str_eq(names[0], RUN);
	ck_assert_ptr_null(names[1]);
	strings_free(names);
}
END_TEST

START_TEST(removing_takes_the_whole_directory_and_nothing_behind_links)
{
	char path[128];
	char target[128];
	struct stat st;

	create();
	snprintf(target, sizeof(target), "%s/outside", dir);
	ck_assert_int_eq(mkdir(target, 0755), 0);
	path_of(path, "link");
	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert_int_eq(job_record_remove(&store, RUN, &err), 0);
	ck_assert_int_eq(load(), -ENOENT);
	ck_assert_int_eq(stat(target, &st), 0);
}
END_TEST

static const struct {
	const char *name;
	bool is;
} runs[] = { { RUN, true }, { "a_b_00000000", true }, { "_abcd1234", false },
	{ "a_abcd123", false }, { "a_ABCD1234", false }, { ".a_abcd1234", false },
	{ "a-abcd1234", false }, { "", false }, { RUN ".corrupt-1", false } };

START_TEST(a_run_is_known_by_its_name)
{
	ck_assert_msg(job_record_is_run(runs[_i].name) == runs[_i].is, "%s", runs[_i].name);
}
END_TEST

static json_t *sound_job(void)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:[{s:s, s:i, s:i, s:i, s:s}]}", "name",
		"forged", "state", "running", "attempt", 1, "restarts", 1, "max_restarts", 3,
		"command", "c", "workers", "role", "worker", "index", 0, "rank", 0, "local_rank", 0,
		"state", "running");
}

START_TEST(the_mirror_puts_in_the_jobs_identity)
{
	struct mirror m = { 0 };
	_cleanup_json_ json_t *job = sound_job();
	_cleanup_json_ json_t *back = NULL;

	ck_assert_int_eq(mirror_set(&m, &rec, job, &err), 0);
	back = mirror_job(&m);
	ck_assert_str_eq(json_get_string(back, "name", ""), "job");
	ck_assert_str_eq(json_get_string(back, "run", ""), RUN);
	ck_assert_int_eq(json_get_int(back, "uid", -1), geteuid());
	ck_assert_int_eq(m.state, MIRROR_RUNNING);
	ck_assert_ptr_null(strstr(m.brief, "local_rank"));
	mirror_fini(&m);
}
END_TEST

static const char *const bad_members[][2] = { { "state", "\"asleep\"" }, { "state", "1" },
	{ "workers", "null" }, { "workers", "[1]" }, { "workers", "[{\"role\":1}]" },
	{ "command", "null" }, { "verdict", "\"good\"" }, { "attempt", "\"1\"" } };

START_TEST(the_mirror_refuses_a_wrong_job_and_stays_as_it_was)
{
	struct mirror m = { 0 };
	_cleanup_json_ json_t *job = sound_job();

	ck_assert_int_eq(mirror_set(&m, &rec, job, &err), 0);
	json_object_set_new(
		job, bad_members[_i][0], json_loads(bad_members[_i][1], JSON_DECODE_ANY, NULL));
	ck_assert_int_eq(mirror_set(&m, &rec, job, &err), -EBADMSG);
	ck_assert_int_eq(m.state, MIRROR_RUNNING);
	ck_assert_ptr_nonnull(m.text);
	mirror_fini(&m);
}
END_TEST

START_TEST(a_verdict_of_elasticds_own_ends_tasks_that_were_alive)
{
	struct mirror m = { 0 };
	_cleanup_json_ json_t *job = sound_job();
	_cleanup_json_ json_t *back = NULL;
	_cleanup_json_ json_t *verdict = json_pack(
		"{s:s, s:i, s:s}", "result", "agent_lost", "exit_status", 125, "message", "m");
	json_t *task;

	ck_assert_int_eq(mirror_set(&m, &rec, job, &err), 0);
	ck_assert_int_eq(mirror_finish(&m, &rec, verdict, 99, &err), 0);
	ck_assert(m.has_verdict);
	ck_assert_int_eq(m.state, MIRROR_FAILED);
	back = mirror_job(&m);
	ck_assert_int_eq(json_get_int(back, "ended_us", 0), 99);
	task = json_array_get(json_get_array(back, "workers"), 0);
	ck_assert_str_eq(json_get_string(task, "state", ""), "failed");
	ck_assert_str_eq(json_get_string(task, "reason", ""), "agent-lost");
	mirror_fini(&m);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

int main(void)
{
	Suite *s = suite_create("record");
	TCase *t = tcase_create("record");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_record_comes_back_as_it_was_written);
	tcase_add_test(t, its_directory_is_the_users_alone);
	tcase_add_test(t, records_of_the_living_belong_to_elasticd_for_every_user);
	tcase_add_test(t, a_missing_directory_is_made_with_its_parent);
	tcase_add_test(t, an_update_keeps_the_specification_and_what_is_known);
	tcase_add_test(t, a_second_record_of_the_same_run_is_refused);
	tcase_add_test(t, a_sound_record_parses);
	tcase_add_test(t, a_run_of_one_of_several_hosts_has_the_name_of_its_job);
	tcase_add_loop_test(t, a_wrong_member_is_named, 0, COUNT(wrong));
	tcase_add_test(t, a_half_written_record_is_reported_with_its_place);
	tcase_add_test(t, a_record_is_short_however_long_the_specification_is);
	tcase_add_test(t, only_a_sync_waits_for_the_disk);
	tcase_add_test(t, a_record_is_not_read_through_a_link);
	tcase_add_test(t, a_pipe_in_a_files_place_does_not_block);
	tcase_add_test(t, a_file_that_grew_beyond_reason_is_not_read);
	tcase_add_test(t, a_record_of_another_user_is_refused);
	tcase_add_test(t, the_users_own_files_are_read_but_no_third_ones);
	tcase_add_loop_test(t, a_verdict_that_is_none_is_refused, 0, COUNT(bad_verdicts));
	tcase_add_test(t, a_missing_process_is_reported_missing);
	tcase_add_test(t, a_record_put_aside_never_covers_an_earlier_one);
	tcase_add_test(t, removing_takes_the_whole_directory_and_nothing_behind_links);
	tcase_add_loop_test(t, a_run_is_known_by_its_name, 0, COUNT(runs));
	tcase_add_test(t, the_mirror_puts_in_the_jobs_identity);
	tcase_add_loop_test(
		t, the_mirror_refuses_a_wrong_job_and_stays_as_it_was, 0, COUNT(bad_members));
	tcase_add_test(t, a_verdict_of_elasticds_own_ends_tasks_that_were_alive);
	suite_add_tcase(s, t);
	return suite_run(s);
}
