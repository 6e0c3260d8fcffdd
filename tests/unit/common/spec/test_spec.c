/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"
#include "tests/unit/spec_rows.h"

#include <check.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Values of the wrong type for most keys, and the letter by which a row accepts one. */
static const struct {
	char letter;
	const char *json;
} generic[] = {
	{ 's', "'some-text'" },
	{ 'n', "-5" },
	{ 'f', "1.5" },
	{ 't', "true" },
	{ 'z', "null" },
	{ 'a', "[]" },
	{ 'o', "{}" },
};

/* Keys that others need: members of the object that the key is in. */
static const struct {
	const char *path;
	const char *members;
} beside[] = {
	{ "restart.window", "{'window_max':3}" },
	{ "restart.window_max", "{'window':'1h'}" },
	{ "roles[].start_delay_max", "{'start_delay':'1s'}" },
	{ "heartbeat.timeout", "{'period':'1s'}" },
	{ "heartbeat.failures", "{'period':'1s'}" },
	{ "heartbeat.start_timeout", "{'period':'1s'}" },
	{ "heartbeat.log_pattern", "{'log_pattern_timeout':'1s'}" },
	{ "heartbeat.log_pattern_timeout", "{'log_pattern':'x'}" },
	{ "heartbeat.progress_file", "{'progress_file_timeout':'1s'}" },
	{ "heartbeat.progress_file_timeout", "{'progress_file':'x'}" },
	{ "heartbeat.progress_start_timeout", "{'log_timeout':'1s'}" },
	{ "preemption.command", "{'notices':['command']}" },
	{ "resources.devices.*", "{'ids':[0]}" },
	{ "resources.health.*", "{'command':['a']}" },
	{ "resources.core_dumps.*", "{'size':1}" },
	{ "rendezvous.tls.*", "{'cert':'/c','key':'/k','ca':'/a'}" },
	{ "compat.rpc_layer", "{'tf_config':true}" },
};

/* A document in which path has value (taken), which is else as small as can be. */
static json_t *doc_with(const struct spec_row *row, json_t *value)
{
	json_t *doc = J("{'roles':[{'command':['true']}]}"), *object = doc;
	const char *key = row->path, *dot;

	if (!strncmp(key, "roles[].", 8)) {
		object = json_array_get(json_object_get(doc, "roles"), 0);
		key += 8;
	}
	if (!strncmp(key, "leader.", 7)) /* which one role has to be */
		json_object_set_new(
			json_array_get(json_object_get(doc, "roles"), 0), "leader", json_true());
	for (; (dot = strchr(key, '.')); key = dot + 1) {
		_cleanup_free_ char *section = strndup(key, dot - key);

		json_object_set_new(object, section, json_object());
		object = json_object_get(object, section);
	}
	if (!strncmp(row->path, "restart.max_by_cause", 20))
		json_object_set_new(json_object_get(doc, "restart"), "max", json_integer(3));
	for (int i = 0; i < N(beside); i++) {
		_cleanup_json_ json_t *members = NULL;

		if (fnmatch(beside[i].path, row->path, 0) != 0)
			continue;
		members = J(beside[i].members);
		json_object_update(object, members);
	}
	json_object_set_new(object, key, value);
	return doc;
}

enum { SHOWN_MAX = 128 };

/* "roles[].x" as it stands in errors: "roles[0].x". */
static const char *shown_path(const char *path, char buf[SHOWN_MAX])
{
	if (strncmp(path, "roles[]", 7))
		return path;
	snprintf(buf, SHOWN_MAX, "roles[0]%s", path + 7);
	return buf;
}

static void assert_accepted(const struct spec_row *row, json_t *value)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY);
	_cleanup_json_ json_t *doc = doc_with(row, value), *full = NULL, *again = NULL;
	_cleanup_(spec_freep) struct spec *s = NULL, *back = NULL;
	struct error err = { 0 };

	if (spec_parse(doc, &s, &err) < 0)
		ck_abort_msg("%s refused %s: %s", row->path, text, err.text);
	full = spec_to_json(s);
	ck_assert_ptr_nonnull(full);
	if (spec_parse(full, &back, &err) < 0)
		ck_abort_msg("%s as %s does not read back: %s", row->path, text, err.text);
	again = spec_to_json(back);
	if (!json_equal(full, again))
		ck_abort_msg("%s as %s reads back as another", row->path, text);
}

static void assert_refused(const struct spec_row *row, json_t *value)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY);
	_cleanup_json_ json_t *doc = doc_with(row, value);
	struct spec *s = (void *)1;
	struct error err = { 0 };
	char buf[SHOWN_MAX];
	const char *path = shown_path(row->path, buf);

	if (spec_parse(doc, &s, &err) != -EINVAL)
		ck_abort_msg("%s took %s", row->path, text);
	ck_assert_ptr_eq(s, (void *)1);
	if (strncmp(err.text, path, strlen(path)) || strncmp(err.field, path, strlen(path)))
		ck_abort_msg(
			"%s as %s: the error is at \"%s\": %s", path, text, err.field, err.text);
	if (strncmp(err.text + strlen(err.field), ": ", 2))
		ck_abort_msg(
			"%s as %s: \"%s\" does not begin with its field", path, text, err.text);
}

START_TEST(a_key_accepts_its_values)
{
	_cleanup_json_ json_t *good = J(rows[_i].good);

	for (size_t i = 0; i < json_array_size(good); i++)
		assert_accepted(&rows[_i], json_deep_copy(json_array_get(good, i)));
}
END_TEST

START_TEST(a_key_refuses_wrong_types_and_values_by_path)
{
	_cleanup_json_ json_t *bad = J(rows[_i].bad);

	for (size_t i = 0; i < json_array_size(bad); i++)
		assert_refused(&rows[_i], json_deep_copy(json_array_get(bad, i)));
	for (int i = 0; i < N(generic); i++) {
		if (strchr(rows[_i].also, generic[i].letter))
			assert_accepted(&rows[_i], J(generic[i].json));
		else
			assert_refused(&rows[_i], J(generic[i].json));
	}
}
END_TEST

/* Calls fn for each key below keys with its path as it is documented. */
typedef void (*key_fn)(const char *path, const struct spec_key *key, void *arg);

static void each_key(const struct spec_key *keys, const char *prefix, key_fn fn, void *arg)
{
	for (; keys->name; keys++) {
		char path[96];

		snprintf(path, sizeof(path), "%s%s", prefix, keys->name);
		fn(path, keys, arg);
		if (keys->keys) {
			strcat(path, ".");
			each_key(keys->keys, path, fn, arg);
		} else if (keys->type == &spec_type_roles) {
			each_key(spec_keys_role, "roles[].", fn, arg);
		}
	}
}

static void has_row(const char *path, const struct spec_key *key, void *arg)
{
	for (int i = 0; i < N(rows); i++) {
		if (!strcmp(rows[i].path, path)) {
			(*(int *)arg)++;
			return;
		}
	}
	ck_abort_msg("%s has no row in spec_rows.h", path);
}

START_TEST(every_key_has_a_row_and_every_row_a_key)
{
	int n = 0;

	each_key(spec_keys_top, "", has_row, &n);
	ck_assert_int_eq(n, N(rows));
}
END_TEST

/* The key with one letter more, in its place: refused by path, with the key as the hint. */
static void misspell(const char *path, const struct spec_key *key, void *arg)
{
	char wrong[112], shown[SHOWN_MAX], hint[80];
	struct spec_row row = { .path = wrong };
	_cleanup_json_ json_t *doc = NULL;
	struct error err = { 0 };
	struct spec *s;

	snprintf(wrong, sizeof(wrong), "%sq", path);
	doc = doc_with(&row, json_true());
	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.field, shown_path(wrong, shown));
	snprintf(hint, sizeof(hint), ": unknown key, did you mean `%s`?", key->name);
	ck_assert_str_eq(err.text + strlen(err.field), hint);
}

START_TEST(a_misspelt_key_is_refused_by_path_with_the_nearest_one)
{
	each_key(spec_keys_top, "", misspell, NULL);
}
END_TEST

static const char *const unknown[] = { "zzz", "preemption.zzz", "queue.zzz", "roles[].zzz",
	"roles[].restart.zzz", "logs.zzz", "leader.zzz", "heartbeat.zzz", "restart.zzz", "stop.zzz",
	"resources.devices.zzz", "resources.gpus", "rendezvous.zzz", "rendezvous.tls.zzz",
	"rendezvous.colour", "compat.zzz" };

START_TEST(an_unknown_key_is_refused_by_path)
{
	struct spec_row row = { .path = unknown[_i] };
	_cleanup_json_ json_t *doc = doc_with(&row, json_object());
	struct error err = { 0 };
	struct spec *s;
	char shown[SHOWN_MAX];

	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.field, shown_path(unknown[_i], shown));
	ck_assert_str_eq(err.text + strlen(err.field), ": unknown key");
}
END_TEST

static const struct {
	const char *doc;
	const char *text;
} messages[] = {
	{ "{}", "roles: is required: expected an array of at least one role" },
	{ "{'roles':[{}]}",
		"roles[0].command: is required: expected an array of at least one string" },
	{ "{'roles':[{'command':['a']},{'name':'b','command':['a'],'replicas':'x'}]}",
		"roles[1].replicas: expected an integer from 1 to 4096, \"auto\", \"cpu\", \"gpu\" or \"xpu\", got "
		"\"x\"" },
	{ "{'roles':[{'command':['a']}],'restart':{'max':'x'}}",
		"restart.max: expected an integer >= 0, got \"x\"" },
	{ "{'roles':[{'command':['a']}],'restart':{'max':99999999999}}",
		"restart.max: expected an integer <= 2147483647, got 99999999999" },
	{ "{'roles':[{'command':['a']}],'restart':{'maximum':1}}", "restart.maximum: unknown key" },
	{ "{'roles':[{'command':['a']}],'retsart':{}}",
		"retsart: unknown key, did you mean `restart`?" },
	{ "{'roles':[{'command':['a']}],'stop':{'timeout':30}}",
		"stop.timeout: expected a duration such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or 0, got "
		"30" },
	{ "{'roles':[{'command':['a',7]}]}",
		"roles[0].command[1]: expected a string, got 7: write it in quotes" },
	{ "{'roles':[{'command':['a'],'env':{'A':[]}}]}",
		"roles[0].env.A: expected a string, a number or a boolean, got []" },
	{ "{'roles':[{'command':['a']}],'stop':{'whom':'x'}}",
		"stop.whom: expected \"group\", \"main\" or \"all\", got \"x\"" },
	{ "{'roles':[{'command':['a']}],'restart':{'scope':'all'}}",
		"restart.scope: expected \"group\" or \"worker\", got \"all\"" },
	{ "{'roles':[{'command':['a'],'replicas':3,'args':[[],[]]}]}",
		"roles[0].args: expected one entry per replica (3), got 2" },
	{ "{'roles':[{'command':['a'],'replicas':1,'env_per_replica':[{},{}]}]}",
		"roles[0].env_per_replica: expected one entry per replica (1), got 2" },
	{ "{'roles':[{'command':['a']},{'command':['a']}]}",
		"roles[1].name: expected a name of its own, got \"worker\" as roles[0] has" },
	{ "{'roles':[{'command':['a']}],'restart':{'window':'1h'}}",
		"restart.window: needs `window_max`, the number of restarts in it" },
	{ "{'roles':[{'command':['a']}],'restart':{'window_max':1}}",
		"restart.window_max: needs `window`, the time that it is counted over" },
	{ "{'roles':[{'command':['a']}],'restart':{'backoff':'2s','backoff_max':'1s'}}",
		"restart.backoff_max: is less than `restart.backoff`" },
	{ "{'roles':[{'command':['a'],'replicas':4000},{'name':'b','command':['a'],'replicas':97}]}",
		"roles: expected at most 4096 workers, got 4097" },
	{ "{'roles':[{'command':['a']}],'name':'x.latest'}",
		"name: a job's name does not end in \".latest\", got \"x.latest\"" },
	{ "{'roles':[{'command':['a']}],'a\\nb\\u0007':1}", "a?b?: unknown key" },
	{ "{'roles':[{'command':['a']}],'cwd':'a\\nb\\u0007\\u001b[2J'}",
		"cwd: expected an absolute path, got \"a\\nb\\x07\\x1b[2J\"" },
	{ "[]", "a specification is an object with the key `roles`" },
	{ "'x'", "a specification is an object with the key `roles`" },
};

START_TEST(an_error_says_where_what_was_expected_and_what_was_there)
{
	_cleanup_json_ json_t *doc = J(messages[_i].doc);
	struct error err = { 0 };
	struct spec *s;

	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, messages[_i].text);
	ck_assert_int_eq(err.code, -EINVAL);
}
END_TEST

START_TEST(missing_keys_have_their_defaults)
{
	_cleanup_(spec_freep) struct spec *s = parse("{'roles':[{'command':['a']}]}");
	static const int forward[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, 0 };

	ck_assert_ptr_null(s->name);
	ck_assert_int_eq(s->max_run_time_ms, SPEC_UNSET);
	ck_assert_int_eq(s->umask, SPEC_UNSET);
	ck_assert(!s->inherit_env && s->compat_torch && !s->virtual_local_rank);
	ck_assert_uint_eq(s->n_roles, 1);
	ck_assert_str_eq(s->roles[0].name, "worker");
	ck_assert_int_eq(s->roles[0].replicas, 1);
	ck_assert(std_map_empty(&s->logs.redirects) && std_map_empty(&s->logs.tee));
	ck_assert_int_eq(s->logs.max_size, 0);
	ck_assert_int_eq(s->logs.keep, 5);
	ck_assert(!s->logs.merge && !s->logs.timestamps && !s->logs.filter && !s->logs.prefix);
	ck_assert_int_eq(s->restart.policy, SPEC_RESTART_ON_FAILURE);
	ck_assert_int_eq(s->restart.max, 0);
	ck_assert_int_eq(s->restart.window_ms, SPEC_UNSET);
	ck_assert_int_eq(s->restart.backoff_ms, 0);
	ck_assert_int_eq(s->restart.backoff_max_ms, SPEC_UNSET);
	ck_assert_int_eq(s->restart.healthy_after_ms, SPEC_UNSET);
	ck_assert_uint_eq(s->restart.n_codes, 1);
	ck_assert_int_eq(s->restart.codes[0].value, 42);
	ck_assert_int_eq(s->restart.codes[0].class, SPEC_EXIT_FREE);
	ck_assert_int_eq(s->stop.signal, SIGTERM);
	ck_assert_int_eq(s->stop.whom, SPEC_WHOM_GROUP);
	ck_assert_int_eq(s->stop.timeout_ms, 30000);
	ck_assert_int_eq(s->stop.dump_signal, 0);
	ck_assert_mem_eq(s->stop.forward, forward, sizeof(forward));
	ck_assert_int_eq(s->resources.memory_max, SPEC_UNSET);
	ck_assert_int_eq(s->resources.cpu_weight, SPEC_UNSET);
	ck_assert_int_eq(s->resources.tasks_max, SPEC_UNSET);
	ck_assert_int_eq(s->rendezvous.backend, SPEC_RENDEZVOUS_LOCAL);
	ck_assert_int_eq(s->rendezvous.master_port, 0);
}
END_TEST

START_TEST(a_window_alone_leaves_the_jobs_life_without_a_limit)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'command':['a']}],'restart':{'window':'1h','window_max':3}}");
	_cleanup_(spec_freep) struct spec *both = parse(
		"{'roles':[{'command':['a']}],'restart':{'window':'1h','window_max':3,'max':0}}");
	_cleanup_json_ json_t *full = spec_to_json(s);

	ck_assert_int_eq(s->restart.max, SPEC_UNSET);
	ck_assert_int_eq(both->restart.max, 0);
	ck_assert_ptr_null(json_object_get(json_object_get(full, "restart"), "max"));
}
END_TEST

START_TEST(an_explicit_zero_differs_from_nothing)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'command':['a']}],'restart':{'healthy_after':0,'backoff_max':0},"
		      "'stop':{'timeout':0}}");

	ck_assert_int_eq(s->restart.healthy_after_ms, 0);
	ck_assert_int_eq(s->restart.backoff_max_ms, 0);
	ck_assert_int_eq(s->stop.timeout_ms, 0);
}
END_TEST

static const char whole[] =
	"{'name':'n','max_run_time':'1h','cwd':'/w','umask':'027','user':'u','inherit_env':true,"
	"'roles':[{'name':'a','replicas':2,'command':['c','d'],'args':[['x'],[]],"
	"'env':{'A':1,'B':0.1,'C':true,'D':0.123456789012},'env_per_replica':[{},{'E':'1'}],'cwd':'/r',"
	"'limits':{'nofile':'1K:2K','core':'unlimited'}}],"
	"'logs':{'dir':'/l','redirects':'1:3','tee':2,'filter':[2,0,1],'prefix':'p',"
	"'duplicate_stdout':['o'],'duplicate_stderr':['e'],'merge':true,'timestamps':true,"
	"'max_size':'1M','keep':9},"
	"'restart':{'policy':'always','max':3,'window':'1m','window_max':4,'backoff':'1s',"
	"'backoff_max':'2s','healthy_after':'3s','codes':{'SEGV':'fatal','7':'count'}},"
	"'stop':{'signal':'USR1','whom':'main','timeout':'5s','dump_signal':3,'forward':[]},"
	"'resources':{'memory_max':'1G','cpu_weight':50,'tasks_max':60},"
	"'rendezvous':{'backend':'static','id':'i','master_addr':'m','master_port':1,'nodes':1},"
	"'compat':{'torch':false,'virtual_local_rank':true}}";

START_TEST(values_of_the_job_and_its_roles_reach_their_fields)
{
	_cleanup_(spec_freep) struct spec *s = parse(whole);
	const struct spec_role *r = &s->roles[0];

	ck_assert_str_eq(s->name, "n");
	ck_assert_int_eq(s->max_run_time_ms, 3600000);
	ck_assert_str_eq(s->cwd, "/w");
	ck_assert_int_eq(s->umask, 027);
	ck_assert_str_eq(s->user, "u");
	ck_assert(s->inherit_env && !s->compat_torch && s->virtual_local_rank);
	ck_assert_str_eq(r->name, "a");
	ck_assert_int_eq(r->replicas, 2);
	ck_assert_str_eq(r->command[1], "d");
	ck_assert_ptr_null(r->command[2]);
	ck_assert_uint_eq(r->n_args, 2);
	ck_assert_str_eq(r->args[0][0], "x");
	ck_assert_ptr_null(r->args[1][0]);
	ck_assert_str_eq(r->env[0], "A=1");
	ck_assert_str_eq(r->env[1], "B=0.1");
	ck_assert_str_eq(r->env[2], "C=true");
	ck_assert_str_eq(r->env[3], "D=0.123456789012");
	ck_assert_ptr_null(r->env[4]);
	ck_assert_uint_eq(r->n_env_per_replica, 2);
	ck_assert_ptr_null(r->env_per_replica[0][0]);
	ck_assert_str_eq(r->env_per_replica[1][0], "E=1");
	ck_assert_str_eq(r->cwd, "/r");
	ck_assert_uint_eq(r->n_limits, 2);
	ck_assert_int_eq(r->limits[0].resource, RLIMIT_NOFILE);
	ck_assert_uint_eq(r->limits[0].soft, 1024);
	ck_assert_uint_eq(r->limits[0].hard, 2048);
	ck_assert_uint_eq(r->limits[1].soft, RLIM_INFINITY);
	ck_assert_int_eq(spec_world_size(s), 2);
}
END_TEST

START_TEST(values_of_the_sections_reach_their_fields)
{
	_cleanup_(spec_freep) struct spec *s = parse(whole);

	ck_assert_str_eq(s->logs.dir, "/l");
	ck_assert_int_eq(std_map_get(&s->logs.redirects, 1), STD_BOTH);
	ck_assert_int_eq(std_map_get(&s->logs.tee, 7), STD_ERR);
	ck_assert_str_eq(s->logs.filter, "0-2");
	ck_assert_str_eq(s->logs.prefix, "p");
	ck_assert_str_eq(s->logs.duplicate_stdout[0], "o");
	ck_assert_str_eq(s->logs.duplicate_stderr[0], "e");
	ck_assert(s->logs.merge && s->logs.timestamps);
	ck_assert_int_eq(s->logs.max_size, 1048576);
	ck_assert_int_eq(s->logs.keep, 9);
	ck_assert_int_eq(s->restart.policy, SPEC_RESTART_ALWAYS);
	ck_assert_int_eq(s->restart.max, 3);
	ck_assert_int_eq(s->restart.window_ms, 60000);
	ck_assert_int_eq(s->restart.window_max, 4);
	ck_assert_int_eq(s->restart.backoff_ms, 1000);
	ck_assert_int_eq(s->restart.backoff_max_ms, 2000);
	ck_assert_int_eq(s->restart.healthy_after_ms, 3000);
	ck_assert_uint_eq(s->restart.n_codes, 3);
	ck_assert_int_eq(s->restart.codes[0].value, 7);
	ck_assert_int_eq(s->restart.codes[0].class, SPEC_EXIT_COUNT);
	ck_assert_int_eq(s->restart.codes[1].value, 42);
	ck_assert(s->restart.codes[2].is_signal);
	ck_assert_int_eq(s->restart.codes[2].value, SIGSEGV);
	ck_assert_int_eq(s->restart.codes[2].class, SPEC_EXIT_FATAL);
	ck_assert_int_eq(s->stop.signal, SIGUSR1);
	ck_assert_int_eq(s->stop.whom, SPEC_WHOM_MAIN);
	ck_assert_int_eq(s->stop.timeout_ms, 5000);
	ck_assert_int_eq(s->stop.dump_signal, SIGQUIT);
	ck_assert_int_eq(s->stop.forward[0], 0);
	ck_assert_int_eq(s->resources.memory_max, 1073741824);
	ck_assert_int_eq(s->resources.cpu_weight, 50);
	ck_assert_int_eq(s->resources.tasks_max, 60);
	ck_assert_int_eq(s->rendezvous.backend, SPEC_RENDEZVOUS_STATIC);
	ck_assert_str_eq(s->rendezvous.id, "i");
	ck_assert_str_eq(s->rendezvous.master_addr, "m");
	ck_assert_int_eq(s->rendezvous.master_port, 1);
}
END_TEST

START_TEST(a_string_that_no_program_could_be_given_is_refused)
{
	static const size_t sizes[] = { SPEC_STRING_MAX - 1, SPEC_STRING_MAX };

	for (int i = 0; i < 2; i++) {
		_cleanup_json_ json_t *doc = J("{'roles':[{'command':['a']}]}");
		_cleanup_free_ char *text = malloc(sizes[i] + 1);
		_cleanup_(spec_freep) struct spec *s = NULL;
		struct error err = { 0 };

		memset(text, 'x', sizes[i]);
		text[sizes[i]] = '\0';
		json_array_append_new(
			json_object_get(
				json_array_get(json_object_get(doc, "roles"), 0), "command"),
			json_string(text));
		ck_assert_int_eq(spec_parse(doc, &s, &err), i ? -EINVAL : 0);
		if (i)
			ck_assert_str_eq(err.field, "roles[0].command[1]");
	}
}
END_TEST

START_TEST(many_strings_together_are_refused_before_they_fill_memory)
{
	_cleanup_json_ json_t *doc = J("{'roles':[{'command':['a']}]}");
	json_t *command =
		json_object_get(json_array_get(json_object_get(doc, "roles"), 0), "command");
	_cleanup_free_ char *text = calloc(1, 1025);
	struct error err = { 0 };
	struct spec *s;

	memset(text, 'x', 1024);
	for (int i = 0; i < 1024; i++)
		json_array_append_new(command, json_string(text));
	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "more than 1048576 bytes together"));
}
END_TEST

START_TEST(a_nul_byte_in_a_string_is_refused)
{
	_cleanup_json_ json_t *doc = J("{'roles':[{'command':['a']}]}");
	struct error err = { 0 };
	struct spec *s;

	json_object_set_new(doc, "user", json_stringn("a\0b", 3));
	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "user: expected a string"));
}
END_TEST

START_TEST(sixty_four_roles_are_the_most)
{
	for (int n = 64; n <= 65; n++) {
		_cleanup_json_ json_t *doc = json_object(), *roles = json_array();
		_cleanup_(spec_freep) struct spec *s = NULL;
		struct error err = { 0 };

		for (int i = 0; i < n; i++) {
			char name[16];

			snprintf(name, sizeof(name), "r%d", i);
			json_array_append_new(
				roles, json_pack("{s:s,s:[s]}", "name", name, "command", "a"));
		}
		json_object_set(doc, "roles", roles);
		ck_assert_int_eq(spec_parse(doc, &s, &err), n == 64 ? 0 : -EINVAL);
	}
}
END_TEST

static const struct {
	const char *text;
	const char *why;
} broken[] = {
	{ "", "line 1, column 0: not JSON" },
	{ "{", "not JSON" },
	{ "{\n \"roles\": x}", "line 2, column 11: not JSON" },
	{ "{\"roles\":[],\"roles\":[]}", "duplicate object key" },
	{ "{\"name\":\"\xff\"}", "not JSON" },
	{ "{\"name\":\"a\\u0000b\"}", "not JSON" },
	{ "{} x", "not JSON" },
	{ "null", "a specification is an object" },
};

START_TEST(text_that_is_not_json_is_refused_with_its_place)
{
	struct error err = { 0 };
	struct spec *s;

	ck_assert_int_eq(
		spec_parse_text(broken[_i].text, strlen(broken[_i].text), &s, &err), -EINVAL);
	if (!strstr(err.text, broken[_i].why))
		ck_abort_msg("%s", err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

START_TEST(json_text_is_read_up_to_its_length)
{
	static const char text[] = "{\"roles\":[{\"command\":[\"a\"]}]}garbage";
	_cleanup_(spec_freep) struct spec *s = NULL;

	ck_assert_int_eq(spec_parse_text(text, sizeof(text) - 8, &s, NULL), 0);
}
END_TEST

static const struct {
	const char *command;
	const char *line;
	const char *entrypoint;
} commands[] = {
	{ "['/bin/train','-x']", "/bin/train -x", "/bin/train" },
	{ "['python3','-u','t.py','a']", "python3 -u t.py a", "t.py" },
	{ "['/usr/bin/python3.11','-u','-m','pkg.mod','a']", "/usr/bin/python3.11 -u -m pkg.mod a",
		"pkg.mod" },
	{ "['python','-W','ignore','-X','dev','t.py']", "python -W ignore -X dev t.py", "t.py" },
	{ "['python3','-c','print(1)']", "python3 -c 'print(1)'", "python3" },
	{ "['python3']", "python3", "python3" },
	{ "['python3','-m']", "python3 -m", "python3" },
	{ "['python-config','x']", "python-config x", "python-config" },
	{ "['pypy3','t.py']", "pypy3 t.py", "t.py" },
	{ "['sh','-c','echo \\u0027a b\\u0027','','$x']", "sh -c 'echo '\\''a b'\\''' '' '$x'",
		"sh" },
	{ "['a','b\\nc\\u0001\\u0027']", "a $'b\\nc\\001\\''", "a" },
};

START_TEST(a_command_is_shown_as_a_shell_would_read_it)
{
	_cleanup_json_ json_t *doc = J("{'roles':[{}]}");
	_cleanup_(spec_freep) struct spec *s = NULL;
	_cleanup_free_ char *line = NULL;

	json_object_set_new(json_array_get(json_object_get(doc, "roles"), 0), "command",
		J(commands[_i].command));
	ck_assert_int_eq(spec_parse(doc, &s, NULL), 0);
	line = spec_command_line(s);
	ck_assert_str_eq(line, commands[_i].line);
	ck_assert_str_eq(spec_entrypoint(s), commands[_i].entrypoint);
}
END_TEST

START_TEST(cpu_and_auto_become_numbers_and_lists_are_checked_then)
{
	_cleanup_(spec_freep) struct spec *s =
		parse("{'roles':[{'command':['a'],'replicas':'cpu'}]}");
	_cleanup_(spec_freep) struct spec *t =
		parse("{'roles':[{'command':['a'],'replicas':'auto'}]}");
	struct error err = { 0 };

	ck_assert_int_eq(s->roles[0].replicas, SPEC_REPLICAS_CPU);
	ck_assert_int_eq(spec_resolve(s, NULL), 0);
	ck_assert_int_ge(spec_world_size(s), 1);
	ck_assert_int_eq(spec_resolve(t, NULL), 0);
	ck_assert_int_ge(spec_world_size(t), 1);
	s->roles[0].replicas = SPEC_REPLICAS_CPU;
	s->roles[0].args = calloc(4097, sizeof(char **));
	s->roles[0].n_args = 4097;
	ck_assert_int_eq(spec_resolve(s, &err), -EINVAL);
	ck_assert_str_eq(err.field, "roles[0].args");
}
END_TEST

START_TEST(a_device_of_its_own_for_each_worker_has_to_be_there)
{
	static const struct {
		const char *devices;
		int r;
	} cases[] = { { "4,5", -EINVAL }, { "", -EINVAL }, { "4,5,6", 0 }, { "4,5,6,7", 0 } };

	for (int i = 0; i < N(cases); i++) {
		_cleanup_(spec_freep) struct spec *s =
			parse("{'roles':[{'command':['a'],'replicas':2},"
			      "{'name':'b','command':['a']}],'inherit_env':true,"
			      "'compat':{'virtual_local_rank':true}}");
		struct error err = { 0 };

		setenv("CUDA_VISIBLE_DEVICES", cases[i].devices, 1);
		ck_assert_int_eq(spec_resolve(s, &err), cases[i].r);
		if (cases[i].r < 0)
			ck_assert_ptr_nonnull(strstr(err.text, "CUDA_VISIBLE_DEVICES"));
		unsetenv("CUDA_VISIBLE_DEVICES");
		ck_assert_int_eq(spec_resolve(s, NULL), 0);
	}
}
END_TEST

static char root[] = "/tmp/elasticd-test-XXXXXX";

static void touch(const char *path, const char *text)
{
	_cleanup_free_ char *full = NULL;
	_cleanup_file_ FILE *f = NULL;

	ck_assert_int_gt(asprintf(&full, "%s%s", root, path), 0);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(full, 0755);
		*p = '/';
	}
	f = fopen(full, "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
}

START_TEST(gpus_are_counted_by_their_devices_and_by_what_is_visible)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(spec_count_gpus(root, NULL), 0);
	ck_assert_int_eq(spec_count_gpus(root, "0,1"), 0);
	touch("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
	touch("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711\n");
	touch("/sys/class/kfd/kfd/topology/nodes/2/gpu_id", "4712\n");
	ck_assert_int_eq(spec_count_gpus(root, NULL), 2);
	touch("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
	ck_assert_int_eq(spec_count_gpus(root, NULL), 1);
	touch("/dev/nvidiactl", "");
	touch("/dev/nvidia-uvm", "");
	touch("/dev/nvidia0", "");
	touch("/dev/nvidia1", "");
	touch("/dev/nvidia10", "");
	ck_assert_int_eq(spec_count_gpus(root, NULL), 3);
	ck_assert_int_eq(spec_count_gpus(root, ""), 0);
	ck_assert_int_eq(spec_count_gpus(root, "-1"), 0);
	ck_assert_int_eq(spec_count_gpus(root, "NoDevFiles"), 0);
	ck_assert_int_eq(spec_count_gpus(root, "1"), 1);
	ck_assert_int_eq(spec_count_gpus(root, "0,1"), 2);
	ck_assert_int_eq(spec_count_gpus(root, "0,-1,1"), 1);
	ck_assert_int_eq(spec_count_gpus(root, "GPU-12,GPU-13,"), 2);
	ck_assert_int_eq(spec_count_gpus(root, "0,1,2,3,4"), 3);
	{
		_cleanup_free_ char *command = NULL;

		ck_assert_int_gt(asprintf(&command, "rm -rf %s", root), 0);
		ck_assert_int_eq(system(command), 0);
	}
}
END_TEST

START_TEST(xpus_are_counted_by_their_tiles_and_by_what_is_visible)
{
	_cleanup_free_ char *command = NULL;

	strcpy(root, "/tmp/elasticd-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(spec_count_xpus(root, NULL, true), 0);
	touch("/sys/class/drm/renderD128/device/vendor", "0x10de\n");
	touch("/sys/class/drm/renderD129/device/vendor", "0x8086\n");
	touch("/sys/class/drm/card1/device/vendor", "0x8086\n");
	ck_assert_int_eq(spec_count_xpus(root, NULL, true), 1);
	touch("/sys/class/drm/renderD130/device/vendor", "0x8086\n");
	touch("/sys/class/drm/renderD130/device/tile0/x", "");
	touch("/sys/class/drm/renderD130/device/tile1/x", "");
	ck_assert_int_eq(spec_count_xpus(root, NULL, true), 3);
	ck_assert_int_eq(spec_count_xpus(root, NULL, false), 2);
	ck_assert_int_eq(spec_count_xpus(root, "", true), 3);
	ck_assert_int_eq(spec_count_xpus(root, "0", true), 1);
	ck_assert_int_eq(spec_count_xpus(root, "0,2", true), 2);
	ck_assert_int_eq(spec_count_xpus(root, "0,1,2,3,4", true), 3);
	ck_assert_int_gt(asprintf(&command, "rm -rf %s", root), 0);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* The reference page and the parser know the same keys: each is an ".It Va" or ".It Sy" line there.
 */
static void is_documented(const char *path, const struct spec_key *key, void *arg)
{
	char line[128];

	snprintf(line, sizeof(line), "\n.It Ic %s\n", path);
	if (!strstr(arg, line))
		ck_abort_msg("man/elasticd-job.5 has no line \".It Ic %s\"", path);
	snprintf(line, sizeof(line), "\n.It Li %s Ta Sx ", path);
	if (!strstr(arg, line))
		ck_abort_msg("the index of man/elasticd-job.5 has no line \".It Li %s\"", path);
}

static void count_key(const char *path, const struct spec_key *key, void *arg)
{
	(*(int *)arg)++;
}

START_TEST(the_reference_page_has_every_key_and_no_other)
{
	_cleanup_file_ FILE *f = fopen("man/elasticd-job.5", "re");
	_cleanup_free_ char *text = calloc(1, 1 << 20);
	int keys = 0, items = 0;

	ck_assert_msg(f != NULL, "man/elasticd-job.5 is read from the top of the tree");
	ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, f), 0);
	each_key(spec_keys_top, "", is_documented, text);
	each_key(spec_keys_top, "", count_key, &keys);
	for (char *p = text; (p = strstr(p, "\n.It Ic ")) != NULL; p++)
		items++;
	ck_assert_int_eq(items, keys);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec");
	TCase *t = tcase_create("spec");

	tcase_add_loop_test(t, a_key_accepts_its_values, 0, N(rows));
	tcase_add_loop_test(t, a_key_refuses_wrong_types_and_values_by_path, 0, N(rows));
	tcase_add_test(t, every_key_has_a_row_and_every_row_a_key);
	tcase_add_test(t, a_misspelt_key_is_refused_by_path_with_the_nearest_one);
	tcase_add_loop_test(t, an_unknown_key_is_refused_by_path, 0, N(unknown));
	tcase_add_loop_test(
		t, an_error_says_where_what_was_expected_and_what_was_there, 0, N(messages));
	tcase_add_test(t, missing_keys_have_their_defaults);
	tcase_add_test(t, a_window_alone_leaves_the_jobs_life_without_a_limit);
	tcase_add_test(t, an_explicit_zero_differs_from_nothing);
	tcase_add_test(t, values_of_the_job_and_its_roles_reach_their_fields);
	tcase_add_test(t, values_of_the_sections_reach_their_fields);
	tcase_add_test(t, a_string_that_no_program_could_be_given_is_refused);
	tcase_add_test(t, many_strings_together_are_refused_before_they_fill_memory);
	tcase_add_test(t, a_nul_byte_in_a_string_is_refused);
	tcase_add_test(t, sixty_four_roles_are_the_most);
	tcase_add_loop_test(t, text_that_is_not_json_is_refused_with_its_place, 0, N(broken));
	tcase_add_test(t, json_text_is_read_up_to_its_length);
	tcase_add_loop_test(t, a_command_is_shown_as_a_shell_would_read_it, 0, N(commands));
	tcase_add_test(t, cpu_and_auto_become_numbers_and_lists_are_checked_then);
	tcase_add_test(t, a_device_of_its_own_for_each_worker_has_to_be_there);
	tcase_add_test(t, gpus_are_counted_by_their_devices_and_by_what_is_visible);
	tcase_add_test(t, xpus_are_counted_by_their_tiles_and_by_what_is_visible);
	tcase_add_test(t, the_reference_page_has_every_key_and_no_other);
	suite_add_tcase(s, t);
	return suite_run(s);
}
