/* SPDX-License-Identifier: Apache-2.0 */
/* All errors of a specification at once, and what an unknown key may have been meant to be. */
#include "common/spec/spec.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *document(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *doc;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	doc = json_loads(copy, JSON_DECODE_ANY, NULL);
	ck_assert_msg(doc != NULL, "%s", text);
	return doc;
}

#define C "'command':['a']"
#define ROLE "'roles':[{" C "}]"

/* A document, and the paths of all that is wrong with it, in order. */
static const struct {
	const char *doc, *paths;
} rows[] = {
	{ "{" ROLE "}", "" },
	{ "{}", "roles" },
	{ "[]", "" /* the document itself */ },
	{ "{'x':1,'roles':[{'comand':['a'],'replicas':0},{'name':'b'}],'stop':{'signal':'X','y':2}}",
		"x roles[0].comand roles[0].replicas roles[1].command stop.y stop.signal" },
	{ "{'roles':[{'command':['a',1,2],'env':{'A':[],'B':'x','C':{}},'limits':{'x':1,'core':-1}}]}",
		"roles[0].command[1] roles[0].command[2] roles[0].env.A roles[0].env.C "
		"roles[0].limits.x roles[0].limits.core" },
	{ "{'roles':[{'command':[1,2],'args':[['a',1],[2]],'env_per_replica':[{'A':[]}]}]}",
		"roles[0].command[0] roles[0].command[1] roles[0].args[0][1] roles[0].args[1][0] "
		"roles[0].env_per_replica[0].A" },
	{ "{" ROLE ",'restart':{'max':-1,'codes':{'x':'free','3':'y','5':'free'},'backoff':'1s',"
	  "'backoff_max':'0s'}}",
		"restart.max restart.codes.x restart.codes.3" },
	{ "{" ROLE ",'stop':{'forward':['TERM','X','KILL']},'preemption':{'notices':['a','b']},"
	  "'logs':{'filter':[-1,0,-2]},'resources':{'devices':{'ids':['','-',0]}}}",
		"logs.filter[0] logs.filter[2] stop.forward[1] stop.forward[2] preemption.notices[0] "
		"preemption.notices[1] resources.devices.ids[0] resources.devices.ids[1]" },
	/* Between fields: each by itself, beside others, and beside errors in other fields. */
	{ "{" ROLE ",'restart':{'window_max':3,'backoff':'2s','backoff_max':'1s'},"
	  "'heartbeat':{'timeout':'1s','failures':2},'leader':{'grace':'1s'},'max_run_time':0,"
	  "'compat':{'rpc_layer':'grpc'}}",
		"max_run_time restart.window_max restart.backoff_max heartbeat.timeout "
		"heartbeat.failures leader.grace compat.rpc_layer" },
	{ "{'roles':[{" C "},{" C ",'leader':true,'replicas':2,'args':[[]]}]}",
		"roles[1].name roles[1].args roles[1].leader" },
	{ "{'roles':[{" C ",'replicas':'x'},{" C ",'umask':1}]}",
		"roles[0].replicas roles[1].umask roles[1].name" },
	/* An error that another one may have caused is left out. */
	{ "{'roles':[{" C ",'name':5},{" C "}]}", "roles[0].name" },
	{ "{" ROLE ",'restart':{'window':'x','window_max':3}}", "restart.window" },
	{ "{'roles':[{" C ",'leader':'yes'}],'leader':{'grace':'1s'}}", "roles[0].leader" },
	{ "{'roles':[{" C ",'replicas':'x','args':[[]]}]}", "roles[0].replicas" },
	{ "{'roles':[{" C ",'restart':{'max':'x'}}],'restart':{'max':1}}", "roles[0].restart.max" },
	{ "{'roles':[{" C ",'on_failure':'fail_queue','restart':{'scope':'worker'}}],"
	  "'queue':{'blame_window':'1s','blame_limit':0}}",
		"roles[0].restart.scope queue.blame_window" },
};

START_TEST(every_error_is_found_at_once_and_none_that_follows_from_another)
{
	_cleanup_(spec_freep) struct spec *s = NULL;
	_cleanup_json_ json_t *doc = document(rows[_i].doc);
	struct spec_problems all = { 0 };
	struct error err = { 0 }, first = { 0 };
	char paths[1024] = "";
	int r = spec_parse_all(doc, &s, &all, &err);

	for (size_t i = 0; i < all.n; i++) {
		ck_assert_int_eq(all.items[i].code, -EINVAL);
		ck_assert(all.items[i].text[0] != '\0');
		strcat(paths, i ? " " : "");
		strcat(paths, all.items[i].field);
	}
	ck_assert_str_eq(paths, rows[_i].paths);
	ck_assert_int_eq(r, all.n ? -EINVAL : 0);
	s = spec_free(s);
	/* The same as of the parser that stops at the first one. */
	ck_assert_int_eq(spec_parse(doc, &s, &first), r);
	if (r < 0)
		ck_assert_str_eq(all.items[0].text, first.text);
	spec_problems_fini(&all);
}
END_TEST

START_TEST(a_document_of_errors_alone_has_so_many_as_are_kept)
{
	_cleanup_json_ json_t *doc = json_object();
	struct spec_problems all = { 0 };
	struct spec *s;

	for (int i = 0; i < 3 * SPEC_PROBLEMS_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "zzzz%d", i);
		ck_assert_int_eq(json_object_set_new(doc, name, json_true()), 0);
	}
	ck_assert_int_eq(spec_parse_all(doc, &s, &all, NULL), -EINVAL);
	ck_assert_uint_eq(all.n, SPEC_PROBLEMS_MAX);
	spec_problems_fini(&all);
}
END_TEST

static const struct {
	const char *doc, *text;
} hints[] = {
	{ "{" ROLE ",'max_size':1}", "max_size: unknown key here; it belongs in `logs`" },
	{ "{" ROLE ",'command':['a']}",
		"command: unknown key here; it belongs in `roles[]`, `preemption` or `resources.health`" },
	{ "{'roles':[{" C ",'max_run_time':1}]}",
		"roles[0].max_run_time: unknown key here; it belongs at the top level" },
	{ "{" ROLE ",'assign':'one'}",
		"assign: unknown key here; it belongs in `resources.devices`" },
	{ "{" ROLE ",'on_failure':1}",
		"on_failure: unknown key here; it belongs in `roles[]` or `heartbeat`" },
	{ "{" ROLE ",'timeout':1}",
		"timeout: unknown key here; it belongs in `stop`, `heartbeat`, `preemption` or "
		"`resources.health`" },
	{ "{" ROLE ",'max_restarts':1}", "max_restarts: unknown key, did you mean `restart.max`?" },
	{ "{" ROLE ",'nproc-per-node':1}",
		"nproc-per-node: unknown key, did you mean `roles[].replicas`?" },
	{ "{" ROLE ",'heartbeat':{'timeuot':1}}",
		"heartbeat.timeuot: unknown key, did you mean `timeout`?" },
	{ "{" ROLE ",'rdzv-endpoint':'h'}",
		"rdzv-endpoint: unknown key, did you mean `rendezvous.endpoints`?" },
	{ "{" ROLE ",'comand':['a']}", "comand: unknown key, did you mean `roles[].command`?" },
	{ "{" ROLE ",'zzz':1}", "zzz: unknown key" },
};

START_TEST(an_unknown_key_gets_a_hint_where_it_belongs)
{
	_cleanup_json_ json_t *doc = document(hints[_i].doc);
	struct error err = { 0 };
	struct spec *s;

	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, hints[_i].text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec_all");
	TCase *t = tcase_create("all");

	tcase_add_loop_test(t, every_error_is_found_at_once_and_none_that_follows_from_another, 0,
		sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, a_document_of_errors_alone_has_so_many_as_are_kept);
	tcase_add_loop_test(t, an_unknown_key_gets_a_hint_where_it_belongs, 0,
		sizeof(hints) / sizeof(hints[0]));
	suite_add_tcase(s, t);
	return suite_run(s);
}
