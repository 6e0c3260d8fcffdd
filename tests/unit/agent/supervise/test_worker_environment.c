/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/private.h"
#include "agent/supervise/tfconfig.h"
#include "agent/supervise/worker_environment.h"
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"

#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* An agent that has chosen ports and made workers, but has started none. */

enum { ROLES_MAX = 4 };

static struct supervisor agent;
static struct spec *spec;
static int replicas[ROLES_MAX];

static void start(const char *doc)
{
	struct error err = { 0 };

	spec = parse(doc);
	ck_assert_uint_le(spec->n_roles, ROLES_MAX);
	for (size_t i = 0; i < spec->n_roles; i++)
		replicas[i] = spec->roles[i].replicas;
	if (!spec->name)
		spec->name = strdup("job");
	agent = (struct supervisor){ .spec = spec, .replicas = replicas, .master.port = 12345 };
	agent.opt.run = "job_abc";
	ck_assert_int_eq(worker_list_make(&agent, &err), 0);
	ck_assert_int_eq(tfconfig_begin(&agent, &err), 0);
}

static void stop(void)
{
	tfconfig_free(&agent);
	worker_list_free(&agent);
	worker_list_free_roster(&agent);
	spec = spec_free(spec);
}

/* Adds a worker beyond the specification. */
static struct worker *add(size_t role, int index)
{
	struct error err = { 0 };
	struct worker *w;

	ck_assert_int_eq(worker_list_add(&agent, &spec->roles[role], index, &w), 0);
	ck_assert_int_eq(tfconfig_worker_starting(&agent, w, &err), 0);
	return w;
}

/* The variable in the environment of a worker; valid until the next call. */
static const char *var(int worker, const char *name)
{
	static char value[4096];
	_cleanup_(env_fini) struct env e = { 0 };
	const char *found;

	ck_assert_int_eq(environment_make(&agent, &agent.workers[worker], &e), 0);
	found = env_get(&e, name);
	if (!found)
		return NULL;
	snprintf(value, sizeof(value), "%s", found);
	return value;
}

static json_t *config(int worker)
{
	const char *text = var(worker, "TF_CONFIG");
	json_t *value;

	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_null(strchr(text, '\n'));
	value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	ck_assert_msg(value != NULL, "%s", text);
	return value;
}

/* Checks that each address of a role is 127.0.0.1 and a port that no other address has. */
static size_t addresses(const json_t *whole, const char *role)
{
	const json_t *list = json_object_get(json_object_get(whole, "cluster"), role);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		ck_assert_int_eq(strncmp(text, "127.0.0.1:", 10), 0);
		ck_assert_int_ge(atoi(text + 10), 20000);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(text, json_string_value(json_array_get(list, k)));
	}
	return json_array_size(list);
}

static void has_task(const json_t *whole, const char *type, int index)
{
	const json_t *task = json_object_get(whole, "task");

	ck_assert_str_eq(json_string_value(json_object_get(task, "type")), type);
	ck_assert_int_eq(json_integer_value(json_object_get(task, "index")), index);
	ck_assert_uint_eq(json_object_size(task), 2);
}

#define ROLE(name, n) "{'name':'" name "','replicas':" n ",'command':['x']}"
#define CLUSTER \
	ROLE("chief", "1") "," ROLE("worker", "3") "," ROLE("ps", "2") "," ROLE("evaluator", "1")

START_TEST(every_worker_finds_itself_in_one_cluster)
{
	static const char *const types[] = { "chief", "worker", "worker", "worker", "ps", "ps",
		"evaluator" };
	static const int indexes[] = { 0, 0, 1, 2, 0, 1, 0 };
	_cleanup_json_ json_t *first = NULL;

	start("{'roles':[" CLUSTER "]}");
	first = config(0);
	for (int i = 0; i < agent.n_workers; i++) {
		_cleanup_json_ json_t *whole = config(i);

		has_task(whole, types[i], indexes[i]);
		ck_assert(json_equal(
			json_object_get(whole, "cluster"), json_object_get(first, "cluster")));
		ck_assert_uint_eq(json_object_size(whole), 2);
	}
	ck_assert_uint_eq(json_object_size(json_object_get(first, "cluster")), 3);
	ck_assert_uint_eq(addresses(first, "chief"), 1);
	ck_assert_uint_eq(addresses(first, "worker"), 3);
	ck_assert_uint_eq(addresses(first, "ps"), 2);
	stop();
}
END_TEST

START_TEST(tf_config_is_not_there_unless_it_is_asked_for)
{
	start("{'roles':[" ROLE("a", "2") "]}");
	ck_assert_ptr_null(var(0, "TF_CONFIG"));
	ck_assert_ptr_null(agent.tfconfig);
	stop();
	start("{'roles':[" CLUSTER "],'compat':{'tf_config':false}}");
	ck_assert_ptr_null(var(0, "TF_CONFIG"));
	stop();
	start("{'roles':[" ROLE("a", "2") "],'compat':{'tf_config':true}}");
	ck_assert_ptr_nonnull(var(1, "TF_CONFIG"));
	stop();
}
END_TEST

START_TEST(the_layer_and_the_host_are_as_the_specification_says)
{
	_cleanup_json_ json_t *whole = NULL;
	const char *address;

	start("{'roles':[" ROLE("a", "1") "],'compat':{'tf_config':true,'rpc_layer':'grpc\\u0022'},"
					  "'rendezvous':{'master_addr':'::1'}}");
	whole = config(0);
	ck_assert_str_eq(json_string_value(json_object_get(whole, "rpc_layer")), "grpc\"");
	address = json_string_value(
		json_array_get(json_object_get(json_object_get(whole, "cluster"), "a"), 0));
	ck_assert_int_eq(strncmp(address, "[::1]:", 6), 0);
	stop();
}
END_TEST

START_TEST(a_new_attempt_has_other_ports_and_a_worker_alone_keeps_its_own)
{
	start("{'roles':[" CLUSTER "]}");
	for (int i = 0; i < 20; i++) {
		_cleanup_json_ json_t *before = config(1), *same = config(1), *after = NULL;
		const json_t *old, *new;
		struct error err = { 0 };

		ck_assert(json_equal(before, same));
		ck_assert_int_eq(tfconfig_begin(&agent, &err), 0);
		after = config(1);
		old = json_object_get(json_object_get(before, "cluster"), "worker");
		new = json_object_get(json_object_get(after, "cluster"), "worker");
		for (size_t k = 0; k < 9; k++)
			ck_assert_str_ne(json_string_value(json_array_get(old, k / 3)),
				json_string_value(json_array_get(new, k % 3)));
	}
	stop();
}
END_TEST

START_TEST(a_worker_that_is_added_finds_itself_and_the_others_keep_their_cluster)
{
	_cleanup_json_ json_t *before = NULL, *after = NULL, *late = NULL, *eye = NULL;

	start("{'roles':[" CLUSTER "]}");
	before = config(1);
	add(1, 4); /* worker:3 does not exist yet, but its port is held */
	add(3, 1);
	after = config(1);
	late = config(7);
	eye = config(8);
	ck_assert(json_equal(before, after));
	has_task(late, "worker", 4);
	ck_assert_uint_eq(addresses(late, "worker"), 5);
	ck_assert_uint_eq(addresses(late, "ps"), 2);
	has_task(eye, "evaluator", 1);
	ck_assert_ptr_null(json_object_get(json_object_get(eye, "cluster"), "evaluator"));
	for (size_t i = 0; i < 3; i++)
		ck_assert_str_eq(
			json_string_value(json_array_get(
				json_object_get(json_object_get(late, "cluster"), "worker"), i)),
			json_string_value(json_array_get(
				json_object_get(json_object_get(before, "cluster"), "worker"), i)));
	stop();
}
END_TEST

static void has(int worker, const char *name, const char *value)
{
	const char *got = var(worker, name);

	ck_assert_msg(got && !strcmp(got, value), "worker %d: %s is %s, not %s", worker, name,
		got ? got : "not there", value);
}

START_TEST(ranks_run_through_the_roles_and_role_ranks_within_each)
{
	static const char *const digits[] = { "0", "1", "2", "3", "4", "5", "6" };
	static const int role_ranks[] = { 0, 0, 1, 2, 0, 1, 0 };
	static const int role_worlds[] = { 1, 3, 3, 3, 2, 2, 1 };
	static const char *const names[] = { "chief", "worker", "worker", "worker", "ps", "ps",
		"evaluator" };

	start("{'roles':[" CLUSTER "]}");
	for (int i = 0; i < 7; i++) {
		has(i, "RANK", digits[i]);
		has(i, "LOCAL_RANK", digits[i]);
		has(i, "ROLE_RANK", digits[role_ranks[i]]);
		has(i, "ROLE_WORLD_SIZE", digits[role_worlds[i]]);
		has(i, "ROLE_NAME", names[i]);
		has(i, "WORLD_SIZE", "7");
		has(i, "LOCAL_WORLD_SIZE", "7");
		has(i, "GROUP_RANK", "0");
		has(i, "GROUP_WORLD_SIZE", "1");
		has(i, "MASTER_PORT", "12345");
		has(i, "ELASTICD_ROLE", names[i]);
		has(i, "ELASTICD_INDEX", digits[role_ranks[i]]);
		has(i, "ELASTICD_RUN", "job_abc");
	}
	stop();
}
END_TEST

START_TEST(a_worker_that_is_added_counts_itself)
{
	start("{'roles':[" CLUSTER "]}");
	add(1, 3);
	has(7, "RANK", "7");
	has(7, "WORLD_SIZE", "8");
	has(7, "ROLE_RANK", "3");
	has(7, "ROLE_WORLD_SIZE", "4");
	has(1, "WORLD_SIZE", "7");
	has(1, "ROLE_WORLD_SIZE", "3");
	stop();
}
END_TEST

START_TEST(a_roles_restart_rules_show)
{
	start("{'roles':[" ROLE("a", "1") ",{'name':'b','command':['x'],'restart':{'max':7}}],"
					  "'restart':{'max':3}}");
	agent.budget.used = 2;
	agent.workers[1].restarts = 3;
	has(0, "TORCHELASTIC_MAX_RESTARTS", "3");
	has(0, "TORCHELASTIC_RESTART_COUNT", "2");
	has(1, "TORCHELASTIC_MAX_RESTARTS", "7");
	has(1, "TORCHELASTIC_RESTART_COUNT", "5");
	stop();
}
END_TEST

#define DEVICES(ids, assign) \
	"'resources':{'devices':{'ids':" ids ",'env':'SEEN','assign':'" assign "'}}"

START_TEST(devices_are_shared_among_workers_that_want_some)
{
	start("{'roles':[{'name':'ps','command':['x'],'env':{'SEEN':''}}," ROLE(
		"worker", "2") "]," DEVICES("[0,1,2,3]", "stride") "}");
	has(0, "SEEN", "");
	has(1, "SEEN", "0,2");
	has(2, "SEEN", "1,3");
	ck_assert_ptr_null(var(1, "CUDA_VISIBLE_DEVICES"));
	add(1, 2);
	has(1, "SEEN", "0,2");
	has(2, "SEEN", "1,3");
	has(3, "SEEN", "");
	stop();
}
END_TEST

START_TEST(late_workers_get_the_devices_that_are_left)
{
	start("{'roles':[" ROLE("a", "1") "," ROLE("b", "1") "]," DEVICES("[0,1,2]", "one") "}");
	add(0, 1);
	add(0, 2);
	has(0, "SEEN", "0");
	has(1, "SEEN", "1");
	has(2, "SEEN", "2");
	has(3, "SEEN", "");
	stop();
}
END_TEST

START_TEST(a_virtual_local_rank_goes_with_one_device_each)
{
	start("{'roles':[" ROLE("a", "2") "]," DEVICES(
		"[4,5]", "one") ",'compat':{'virtual_local_rank':true}}");
	has(0, "LOCAL_RANK", "0");
	has(1, "LOCAL_RANK", "0");
	has(0, "SEEN", "4");
	has(1, "SEEN", "5");
	ck_assert_ptr_null(var(1, "CUDA_VISIBLE_DEVICES"));
	stop();
}
END_TEST

START_TEST(too_few_devices_after_scale_are_an_error)
{
	_cleanup_(env_fini) struct env e = { 0 };
	struct error err = { 0 };

	start("{'roles':[" ROLE("a", "2") "]," DEVICES("[0,1]", "stride") "}");
	replicas[0] = 3;
	ck_assert_int_eq(worker_list_make(&agent, &err), 0);
	ck_assert_int_eq(environment_make(&agent, &agent.workers[0], &e), -ERANGE);
	stop();
}
END_TEST

START_TEST(variables_of_the_specification_replace_others)
{
	start("{'roles':[{'name':'a','command':['x'],'env':{'RANK':'9','TF_CONFIG':'mine'}}],"
	      "'compat':{'tf_config':true}}");
	has(0, "RANK", "9");
	has(0, "TF_CONFIG", "mine");
	stop();
}
END_TEST

START_TEST(identity_of_an_outer_worker_is_not_inherited)
{
	static const char *const names[] = { "ELASTICD_WORKER_SOCKET", "ELASTICD_BOARD",
		"ELASTICD_SLOT", "ELASTICD_TOKEN", "ELASTICD_START", "ELASTICD_LOG_FILE" };

	start("{'roles':[{'name':'a','command':['x']}],'inherit_env':true}");
	setenv("TF_CONFIG", "{}", 1);
	has(0, "TF_CONFIG", "{}");
	setenv("ELASTICD_JOB", "outer", 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		setenv(names[i], "1", 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ck_assert_msg(!var(0, names[i]), "%s", names[i]);
	ck_assert_ptr_null(var(0, "TF_CONFIG"));
	has(0, "ELASTICD_JOB", "job");
	stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("environ");
	TCase *t = tcase_create("environ");

	tcase_add_test(t, every_worker_finds_itself_in_one_cluster);
	tcase_add_test(t, tf_config_is_not_there_unless_it_is_asked_for);
	tcase_add_test(t, the_layer_and_the_host_are_as_the_specification_says);
	tcase_add_test(t, a_new_attempt_has_other_ports_and_a_worker_alone_keeps_its_own);
	tcase_add_test(t, a_worker_that_is_added_finds_itself_and_the_others_keep_their_cluster);
	tcase_add_test(t, ranks_run_through_the_roles_and_role_ranks_within_each);
	tcase_add_test(t, a_worker_that_is_added_counts_itself);
	tcase_add_test(t, a_roles_restart_rules_show);
	tcase_add_test(t, devices_are_shared_among_workers_that_want_some);
	tcase_add_test(t, late_workers_get_the_devices_that_are_left);
	tcase_add_test(t, a_virtual_local_rank_goes_with_one_device_each);
	tcase_add_test(t, too_few_devices_after_scale_are_an_error);
	tcase_add_test(t, variables_of_the_specification_replace_others);
	tcase_add_test(t, identity_of_an_outer_worker_is_not_inherited);
	suite_add_tcase(s, t);
	return suite_run(s);
}
