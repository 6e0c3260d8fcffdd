/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"

#include <stdlib.h>
#include <sys/stat.h>

#define N(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* roles, and what else a document has. */
#define DOC(roles, more) "{'roles':[" roles "]" more "}"
#define A "'name':'a','command':['x']"
#define B "'name':'b','command':['x']"

/* Checks between fields: text is "" where none fails. */
static const struct {
	const char *doc;
	const char *text;
} cases[] = {
	{ DOC("{" A ",'leader':true},{" B "}", ""), "" },
	{ DOC("{" A ",'leader':true},{" B "}", ",'leader':{'grace':0}"), "" },
	{ DOC("{" A "},{" B "}", ",'leader':{'grace':'3s'}"),
		"leader.grace: needs a role with `leader`, whose end begins it" },
	{ DOC("{" A ",'leader':false}", ",'leader':{'on_exit':'ignore','grace':0}"),
		"leader.grace: needs a role with `leader`, whose end begins it" },
	{ DOC("{" A ",'leader':true},{" B ",'leader':true}", ""),
		"roles[1].leader: expected one leader at most, and roles[0] (\"a\") is one" },
	{ DOC("{" A ",'leader':true,'replicas':2}", ""),
		"roles[0].leader: a role that leads has 1 as its `replicas`" },
	{ DOC("{" A ",'leader':true,'replicas':'auto'}", ""),
		"roles[0].leader: a role that leads has 1 as its `replicas`" },
	{ DOC("{" A ",'leader':true,'recoverable':true}", ""),
		"roles[0].leader: a role cannot both lead, so that its end is that of the group, and be "
		"`recoverable`" },
	{ DOC("{" A ",'recoverable':true,'evaluator':true}", ""), "" },
	{ DOC("{" A ",'start_delay_max':'1s'}", ""),
		"roles[0].start_delay_max: needs `start_delay`, of which it is the longest" },
	{ DOC("{" A ",'start_delay':'2s','start_delay_max':'1s'}", ""),
		"roles[0].start_delay_max: is less than `start_delay`" },
	{ DOC("{" A "}", ",'restart':{'scope':'worker','policy':'never'}"),
		"restart.scope: \"worker\" starts a worker again by itself, which `restart.policy` \"never\" "
		"forbids" },
	{ DOC("{" A "},{" B ",'restart':{'scope':'worker','policy':'never'}}", ""),
		"roles[1].restart.scope: \"worker\" starts a worker again by itself, which `restart.policy` "
		"\"never\" forbids" },
	{ DOC("{" A ",'restart':{'policy':'never'}}", ",'restart':{'scope':'worker'}"), "" },
	{ DOC("{" A ",'restart':{'scope':'worker'}}", ",'restart':{'policy':'never'}"),
		"roles[0].restart.scope: \"worker\" starts a worker again by itself, which `restart.policy` "
		"\"never\" forbids" },
	{ DOC("{" A ",'restart':{'backoff':'2m'}}", ",'restart':{'backoff_max':'1m'}"),
		"roles[0].restart.backoff_max: is less than `restart.backoff`" },
	{ DOC("{" A "}", ",'restart':{'max_by_cause':{'signal':1}}"),
		"restart.max_by_cause: needs a `max` of more than 0, or `window`" },
	{ DOC("{" A ",'restart':{'max':3}}", ",'restart':{'max':1,'max_by_cause':{'signal':1}}"),
		"" },
	{ DOC("{" A "},{" B ",'restart':{'window':'1h'}}", ""),
		"roles[1].restart.window: needs `window_max`, the number of restarts in it" },
	{ DOC("{" A "}", ",'heartbeat':{'timeout':'1s'}"),
		"heartbeat.timeout: needs `period`, how often beats are looked for" },
	{ DOC("{" A "}", ",'heartbeat':{'failures':3}"),
		"heartbeat.failures: needs `period`, how often beats are looked for" },
	{ DOC("{" A "}", ",'heartbeat':{'start_timeout':'1s'}"),
		"heartbeat.start_timeout: needs `period`, how often beats are looked for" },
	{ DOC("{" A "}", ",'heartbeat':{'log_pattern':'x'}"),
		"heartbeat.log_pattern: needs `log_pattern_timeout`, the longest time without such a line" },
	{ DOC("{" A "}", ",'heartbeat':{'log_pattern_timeout':'1s'}"),
		"heartbeat.log_pattern_timeout: needs `log_pattern`, which lines are meant" },
	{ DOC("{" A "}", ",'heartbeat':{'progress_file':'x'}"),
		"heartbeat.progress_file: needs `progress_file_timeout`, the longest time without a "
		"change" },
	{ DOC("{" A "}", ",'heartbeat':{'progress_file_timeout':'1s'}"),
		"heartbeat.progress_file_timeout: needs `progress_file`, which file is meant" },
	{ DOC("{" A "}", ",'heartbeat':{'period':'1s','progress_start_timeout':'1s'}"),
		"heartbeat.progress_start_timeout: needs a time limit that it stands in for: "
		"`progress_timeout`, `log_timeout`, `log_pattern_timeout` or `progress_file_timeout`" },
	{ DOC("{" A "}", ",'heartbeat':{'log_pattern':'(','log_pattern_timeout':'1s'}"),
		"heartbeat.log_pattern: expected an extended regular expression, got \"(\": Unmatched ( or "
		"\\(" },
	{ DOC("{" A "}", ",'heartbeat':{'log_pattern':'(a)\\\\1','log_pattern_timeout':'1s'}"),
		"heartbeat.log_pattern: expected no back-references, got \"(a)\\\\1\"" },
	{ DOC("{" A "}",
		  ",'heartbeat':{'log_pattern':'((a{99}){99}){99}','log_pattern_timeout':'1s'}"),
		"heartbeat.log_pattern: repeats too much: \"((a{99}){99}){99}\"" },
	{ DOC("{" A "}", ",'compat':{'rpc_layer':'grpc'}"),
		"compat.rpc_layer: needs `compat.tf_config`: it is a part of TF_CONFIG" },
	{ DOC("{" A "},{" B "}", ",'compat':{'rpc_layer':'grpc'}"), "" },
	{ DOC("{" A "},{" B "}", ",'compat':{'rpc_layer':'grpc','tf_config':false}"),
		"compat.rpc_layer: needs `compat.tf_config`: it is a part of TF_CONFIG" },
	{ DOC("{" A ",'replicas':4000},{" B "}",
		  ",'rendezvous':{'master_addr':'a-host-with-a-long.example'}"),
		"compat.tf_config: the addresses of 4001 workers are 140035 bytes of TF_CONFIG, "
		"expected at most 126976: needs fewer workers, or a shorter `rendezvous.master_addr`" },
	{ DOC("{" A ",'replicas':4000},{" B "}",
		  ",'rendezvous':{'master_addr':'a-host-with-a-long.example'},'compat':{'tf_config':"
		  "false}"),
		"" },
	{ DOC("{" A ",'replicas':4000,'evaluator':true},{" B "}",
		  ",'rendezvous':{'master_addr':'a-host-with-a-long.example'}"),
		"" },
	{ DOC("{" A ",'replicas':4000},{" B "}", ""), "" },
	{ DOC("{" A ",'replicas':3},{" B "}", ",'resources':{'devices':{'ids':[0,1,2]}}"),
		"resources.devices.ids: expected a device for each of 4 workers, got 3; a role that needs "
		"none sets CUDA_VISIBLE_DEVICES in its `env`" },
	{ DOC("{" A ",'replicas':3},{" B "}", ",'resources':{'devices':{'ids':[0,1,2,3]}}"), "" },
	{ DOC("{" A ",'replicas':3},{" B ",'env':{'CUDA_VISIBLE_DEVICES':''}}",
		  ",'resources':{'devices':{'ids':[0,1,2]}}"),
		"" },
	{ DOC("{" A ",'replicas':2,'env_per_replica':[{'X':''},{}]}",
		  ",'resources':{'devices':{'ids':[0],'env':'X'}}"),
		"" },
	{ DOC("{" A ",'replicas':9}", ",'resources':{'devices':{'ids':[0],'assign':'all'}}"), "" },
	{ DOC("{" A "}", ",'resources':{'devices':{'ids':[0,'1',0]}}"),
		"resources.devices.ids[2]: expected a device of its own, got \"0\" as ids[0] is: "
		"workers share one only with \"one\" as `assign`" },
	{ DOC("{" A ",'replicas':2}",
		  ",'resources':{'devices':{'ids':['GPU-1','GPU-1'],'assign':'all'}}"),
		"resources.devices.ids[1]: expected a device of its own, got \"GPU-1\" as ids[0] is: "
		"workers share one only with \"one\" as `assign`" },
	{ DOC("{" A ",'replicas':4}", ",'resources':{'devices':{'ids':[0,0,1,1],'assign':'one'}}"),
		"" },
	{ DOC("{" A ",'replicas':'cpu'}", ",'resources':{'devices':{'ids':[0]}}"), "" },
	{ DOC("{" A "}",
		  ",'resources':{'devices':{'ids':[0]}},'compat':{'virtual_local_rank':true}"),
		"compat.virtual_local_rank: lets each worker see one device: needs \"one\" as "
		"`resources.devices.assign`" },
	{ DOC("{" A "}",
		  ",'resources':{'devices':{'ids':[0],'assign':'one'}},'compat':{'virtual_local_rank':"
		  "true}"),
		"" },
};

START_TEST(contradictions_are_refused_by_path)
{
	_cleanup_json_ json_t *doc = J(cases[_i].doc);
	_cleanup_(spec_freep) struct spec *s = NULL;
	struct error err = { 0 };
	int r = spec_parse(doc, &s, &err);

	ck_assert_str_eq(err.text, cases[_i].text);
	ck_assert_int_eq(r, *cases[_i].text ? -EINVAL : 0);
}
END_TEST

START_TEST(a_roles_restart_rules_are_the_jobs_but_for_what_it_says)
{
	_cleanup_(spec_freep) struct spec *s = parse(DOC(
		"{" A ",'restart':{'scope':'worker','max':7}},{" B "},"
		"{'name':'c','command':['x'],'restart':{}}",
		",'restart':{'policy':'always','max':3,'window':'1m','window_max':4,"
		"'backoff':'1s','backoff_max':'2s','healthy_after':'3s','codes':{'7':'free'}}"));
	const struct spec_restart *a = spec_restart_of(s, &s->roles[0]);

	ck_assert_ptr_eq(spec_restart_of(s, &s->roles[1]), &s->restart);
	ck_assert_ptr_eq(spec_restart_of(s, NULL), &s->restart);
	ck_assert_ptr_ne(a, &s->restart);
	ck_assert_int_eq(a->scope, SPEC_SCOPE_WORKER);
	ck_assert_int_eq(a->max, 7);
	ck_assert_int_eq(a->policy, SPEC_RESTART_ALWAYS);
	ck_assert_int_eq(a->window_ms, 60000);
	ck_assert_int_eq(a->window_max, 4);
	ck_assert_int_eq(a->backoff_ms, 1000);
	ck_assert_int_eq(a->backoff_max_ms, 2000);
	ck_assert_int_eq(a->healthy_after_ms, 3000);
	ck_assert_uint_eq(a->n_codes, 2);
	ck_assert_int_eq(a->codes[0].value, 7);
	ck_assert_ptr_ne(a->codes, s->restart.codes);
	ck_assert_int_eq(s->restart.scope, SPEC_SCOPE_GROUP);
	ck_assert_int_eq(s->roles[2].restart->scope, SPEC_SCOPE_GROUP);
	ck_assert_int_eq(s->roles[2].restart->max, 3);
}
END_TEST

START_TEST(a_roles_exit_codes_replace_those_of_the_job)
{
	_cleanup_(spec_freep) struct spec *s =
		parse(DOC("{" A ",'restart':{'codes':{'SEGV':'fatal'}}}",
			",'restart':{'codes':{'7':'free','8':'free'}}"));
	const struct spec_restart *a = spec_restart_of(s, &s->roles[0]);

	ck_assert_uint_eq(a->n_codes, 2);
	ck_assert_int_eq(a->codes[0].value, 42);
	ck_assert(a->codes[1].is_signal);
	ck_assert_uint_eq(s->restart.n_codes, 3);
}
END_TEST

START_TEST(a_role_that_counts_over_a_window_alone_has_no_other_limit)
{
	_cleanup_(spec_freep) struct spec *s = parse(
		DOC("{" A ",'restart':{'window':'1h','window_max':2}},{" B ",'restart':{'max':1}}",
			",'restart':{'max':5}"));

	ck_assert_int_eq(s->roles[0].restart->max, SPEC_UNSET);
	ck_assert_int_eq(s->roles[1].restart->max, 1);
}
END_TEST

START_TEST(a_role_that_is_never_restarted_takes_no_scope_from_the_job)
{
	_cleanup_(spec_freep) struct spec *s =
		parse(DOC("{" A ",'restart':{'policy':'never'}}", ",'restart':{'scope':'worker'}"));

	ck_assert_int_eq(s->roles[0].restart->scope, SPEC_SCOPE_GROUP);
	ck_assert_int_eq(s->restart.scope, SPEC_SCOPE_WORKER);
}
END_TEST

/* Whole documents, the defaults of which depend on each other. */
static const char *const documents[] = {
	DOC("{" A "}", ""),
	DOC("{" A ",'restart':{'window':'1h','window_max':2}}", ""),
	DOC("{" A ",'restart':{'max':1}}", ",'restart':{'window':'1h','window_max':2}"),
	DOC("{" A ",'restart':{}}", ",'restart':{'window':'1h','window_max':2}"),
	DOC("{" A ",'restart':{'window':'2h'}}",
		",'restart':{'max':1,'window':'1h','window_max':2,'backoff_max':'1s','healthy_after':0}"),
	DOC("{" A ",'restart':{'policy':'never'}}", ",'restart':{'scope':'worker'}"),
	DOC("{'name':'evaluator','command':['x']},{" A ",'evaluator':true}", ""),
	DOC("{'name':'evaluator','command':['x'],'evaluator':false}", ""),
	DOC("{" A "}", ",'heartbeat':{'period':'1s'}"),
	DOC("{" A ",'leader':true,'start_delay':'1s','start_delay_max':'2s'}",
		",'heartbeat':{'period':'1s','timeout':'2s','failures':4,'start_timeout':'1m',"
		"'progress_timeout':'1h','log_timeout':'2h','log_pattern':'x|y','log_pattern_timeout':"
		"'3h','progress_file':'${rank}','progress_file_timeout':'4h','progress_start_timeout':"
		"'5h','on_failure':'report','dump_timeout':0},'leader':{'on_exit':'ignore','grace':0},"
		"'resources':{'devices':{'ids':[1,'x'],'env':'Y','assign':'block'}},"
		"'compat':{'tf_config':true,'rpc_layer':'grpc'}"),
	DOC("{" A "}", ",'resources':{'devices':{'ids':'auto'}}"),
};

START_TEST(a_document_with_its_defaults_reads_back_as_the_same)
{
	_cleanup_(spec_freep) struct spec *s = parse(documents[_i]);
	_cleanup_json_ json_t *full = spec_to_json(s), *again = NULL;
	_cleanup_(spec_freep) struct spec *back = NULL;
	_cleanup_free_ char *one = NULL, *two = NULL;
	struct error err = { 0 };

	if (spec_parse(full, &back, &err) < 0)
		ck_abort_msg("%s", err.text);
	again = spec_to_json(back);
	one = json_dumps(full, JSON_INDENT(1));
	two = json_dumps(again, JSON_INDENT(1));
	ck_assert_str_eq(one, two);
}
END_TEST

START_TEST(a_leaders_grace_is_three_seconds_where_it_is_left_out)
{
	_cleanup_(spec_freep) struct spec *s = parse(DOC("{" A ",'leader':true}", ""));

	ck_assert_int_eq(s->leader.grace_ms, 3000);
}
END_TEST

START_TEST(missing_keys_of_roles_and_sections_have_their_defaults)
{
	_cleanup_(spec_freep) struct spec *s = parse(documents[0]);
	const struct spec_role *role = &s->roles[0];
	const struct spec_heartbeat *h = &s->heartbeat;

	ck_assert(!role->leader && !role->recoverable && !role->evaluator && !role->restart);
	ck_assert_int_eq(role->start_delay_ms, 0);
	ck_assert_int_eq(role->start_delay_max_ms, SPEC_UNSET);
	ck_assert_int_eq(s->leader.on_exit, SPEC_LEADER_STOP);
	ck_assert_int_eq(s->leader.grace_ms, SPEC_UNSET);
	ck_assert_int_eq(s->restart.scope, SPEC_SCOPE_GROUP);
	ck_assert(h->period_ms == SPEC_UNSET && h->timeout_ms == SPEC_UNSET);
	ck_assert(h->start_timeout_ms == SPEC_UNSET && h->progress_timeout_ms == SPEC_UNSET);
	ck_assert(h->log_timeout_ms == SPEC_UNSET && h->log_pattern_timeout_ms == SPEC_UNSET);
	ck_assert(h->progress_file_timeout_ms == SPEC_UNSET && !h->log_pattern);
	ck_assert(h->progress_start_timeout_ms == SPEC_UNSET && !h->progress_file);
	ck_assert_int_eq(h->on_failure, SPEC_HEARTBEAT_RESTART);
	ck_assert_int_eq(h->dump_timeout_ms, 10000);
	ck_assert_ptr_null(s->resources.devices.ids);
	ck_assert_str_eq(s->resources.devices.env, "CUDA_VISIBLE_DEVICES");
	ck_assert_int_eq(s->resources.devices.assign, SPEC_DEVICES_STRIDE);
	ck_assert_int_eq(s->compat_tf_config, SPEC_UNSET);
	ck_assert_ptr_null(s->rpc_layer);
}
END_TEST

START_TEST(with_a_heartbeat_period_three_misses_are_the_default)
{
	_cleanup_(spec_freep) struct spec *s =
		parse(DOC("{" A "}", ",'heartbeat':{'period':'1s'}"));

	ck_assert_int_eq(s->heartbeat.failures, 3);
}
END_TEST

START_TEST(values_of_heartbeat_leader_and_devices_reach_their_fields)
{
	_cleanup_(spec_freep) struct spec *s = parse(documents[9]);
	const struct spec_heartbeat *h = &s->heartbeat;

	ck_assert_int_eq(s->roles[0].start_delay_ms, 1000);
	ck_assert_int_eq(s->roles[0].start_delay_max_ms, 2000);
	ck_assert_int_eq(h->period_ms, 1000);
	ck_assert_int_eq(h->timeout_ms, 2000);
	ck_assert_int_eq(h->failures, 4);
	ck_assert_int_eq(h->start_timeout_ms, 60000);
	ck_assert_int_eq(h->progress_timeout_ms, 3600000);
	ck_assert_int_eq(h->log_timeout_ms, 7200000);
	ck_assert_str_eq(h->log_pattern, "x|y");
	ck_assert_int_eq(h->log_pattern_timeout_ms, 10800000);
	ck_assert_str_eq(h->progress_file, "${rank}");
	ck_assert_int_eq(h->progress_file_timeout_ms, 14400000);
	ck_assert_int_eq(h->progress_start_timeout_ms, 18000000);
	ck_assert_int_eq(h->on_failure, SPEC_HEARTBEAT_REPORT);
	ck_assert_int_eq(h->dump_timeout_ms, 0);
	ck_assert_int_eq(s->leader.on_exit, SPEC_LEADER_IGNORE);
	ck_assert_int_eq(s->leader.grace_ms, 0);
	ck_assert_str_eq(s->resources.devices.ids[0], "1");
	ck_assert_str_eq(s->resources.devices.ids[1], "x");
	ck_assert_ptr_null(s->resources.devices.ids[2]);
	ck_assert_str_eq(s->resources.devices.env, "Y");
	ck_assert_int_eq(s->resources.devices.assign, SPEC_DEVICES_BLOCK);
	ck_assert_int_eq(s->compat_tf_config, 1);
	ck_assert_str_eq(s->rpc_layer, "grpc");
}
END_TEST

START_TEST(a_role_named_evaluator_is_one_unless_it_is_said)
{
	_cleanup_(spec_freep) struct spec *s = parse(documents[6]);
	_cleanup_(spec_freep) struct spec *t = parse(documents[7]);

	ck_assert(s->roles[0].evaluator && s->roles[1].evaluator);
	ck_assert(!t->roles[0].evaluator);
}
END_TEST

START_TEST(tf_config_is_there_where_it_is_asked_for_or_there_are_several_roles)
{
	static const struct {
		const char *doc;
		bool wanted;
	} docs[] = {
		{ DOC("{" A "}", ""), false },
		{ DOC("{" A "},{" B "}", ""), true },
		{ DOC("{" A "},{" B "}", ",'compat':{'tf_config':false}"), false },
		{ DOC("{" A "}", ",'compat':{'tf_config':true}"), true },
	};

	for (int i = 0; i < N(docs); i++) {
		_cleanup_(spec_freep) struct spec *s = parse(docs[i].doc);

		ck_assert_int_eq(spec_tf_config(s), docs[i].wanted);
	}
}
END_TEST

static char root[] = "/tmp/elasticd-test-XXXXXX";

START_TEST(auto_devices_are_those_of_the_variable_or_the_host)
{
	_cleanup_free_ char *dev = NULL, *gpu = NULL;
	struct error err = { 0 };

	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_gt(asprintf(&dev, "%s/dev", root), 0);
	for (int i = 0; i < 3; i++) {
		_cleanup_(spec_freep) struct spec *s = parse(
			DOC("{" A "}", ",'resources':{'devices':{'ids':'auto','env':'SEEN'}}"));

		unsetenv("SEEN");
		if (i == 0) {
			ck_assert_int_eq(spec_find_devices(s, root, &err), -EINVAL);
			ck_assert_str_eq(err.text,
				"resources.devices.ids: \"auto\" was asked for, but neither SEEN nor the "
				"host shows a device");
			setenv("SEEN", "", 1);
			ck_assert_int_eq(spec_find_devices(s, root, &err), -EINVAL);
			ck_assert_str_eq(err.text, "resources.devices.ids: \"auto\" was asked for, "
						   "but SEEN names no device");
			continue;
		}
		if (i == 1) {
			setenv("SEEN", "3,GPU-7,-1,5", 1);
			ck_assert_int_eq(spec_find_devices(s, root, &err), 0);
			ck_assert_str_eq(s->resources.devices.ids[0], "3");
			ck_assert_str_eq(s->resources.devices.ids[1], "GPU-7");
			ck_assert_ptr_null(s->resources.devices.ids[2]);
			/* Known devices are not counted again. */
			setenv("SEEN", "", 1);
			ck_assert_int_eq(spec_find_devices(s, root, &err), 0);
			continue;
		}
		ck_assert_int_eq(mkdir(dev, 0700), 0);
		for (int k = 0; k < 2; k++) {
			ck_assert_int_gt(asprintf(&gpu, "%s/nvidia%d", dev, k), 0);
			ck_assert_int_eq(mkdir(gpu, 0700), 0);
			free(gpu);
		}
		gpu = NULL;
		ck_assert_int_eq(spec_find_devices(s, root, &err), 0);
		ck_assert_str_eq(s->resources.devices.ids[0], "0");
		ck_assert_str_eq(s->resources.devices.ids[1], "1");
		ck_assert_ptr_null(s->resources.devices.ids[2]);
	}
	{
		_cleanup_free_ char *command = NULL;

		ck_assert_int_gt(asprintf(&command, "rm -rf %s", root), 0);
		ck_assert_int_eq(system(command), 0);
	}
}
END_TEST

START_TEST(found_devices_are_counted_against_the_workers)
{
	_cleanup_(spec_freep) struct spec *s = parse(DOC(
		"{" A ",'replicas':3}", ",'resources':{'devices':{'ids':'auto','env':'SEEN'}}"));
	struct error err = { 0 };

	setenv("SEEN", "0,1", 1);
	ck_assert_int_eq(spec_resolve(s, &err), -EINVAL);
	ck_assert_str_eq(err.text,
		"resources.devices.ids: expected a device for each of 3 workers, got 2; a role that "
		"needs none sets SEEN in its `env`");
	unsetenv("SEEN");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec_roles");
	TCase *t = tcase_create("spec_roles");

	tcase_add_loop_test(t, contradictions_are_refused_by_path, 0, N(cases));
	tcase_add_test(t, a_roles_restart_rules_are_the_jobs_but_for_what_it_says);
	tcase_add_test(t, a_roles_exit_codes_replace_those_of_the_job);
	tcase_add_test(t, a_role_that_counts_over_a_window_alone_has_no_other_limit);
	tcase_add_test(t, a_role_that_is_never_restarted_takes_no_scope_from_the_job);
	tcase_add_loop_test(
		t, a_document_with_its_defaults_reads_back_as_the_same, 0, N(documents));
	tcase_add_test(t, a_leaders_grace_is_three_seconds_where_it_is_left_out);
	tcase_add_test(t, missing_keys_of_roles_and_sections_have_their_defaults);
	tcase_add_test(t, with_a_heartbeat_period_three_misses_are_the_default);
	tcase_add_test(t, values_of_heartbeat_leader_and_devices_reach_their_fields);
	tcase_add_test(t, a_role_named_evaluator_is_one_unless_it_is_said);
	tcase_add_test(t, tf_config_is_there_where_it_is_asked_for_or_there_are_several_roles);
	tcase_add_test(t, auto_devices_are_those_of_the_variable_or_the_host);
	tcase_add_test(t, found_devices_are_counted_against_the_workers);
	suite_add_tcase(s, t);
	return suite_run(s);
}
