/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/run.h"
#include "tests/unit/spec_doc.h"

#include <errno.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof(*(a))))

/* A document of one role with the section. Returns owned. */
static char *document_text(const char *section)
{
	char *text;

	ck_assert_int_gt(
		asprintf(&text, "{'roles':[{'command':['a']}],'rendezvous':%s}", section), 0);
	return text;
}

static struct spec *parse_section(const char *section)
{
	_cleanup_free_ char *text = document_text(section);

	return parse(text);
}

START_TEST(one_host_alone_is_the_default)
{
	_cleanup_(spec_freep) struct spec *s = parse_section("{}");
	const struct spec_rendezvous *r = &s->rendezvous;

	ck_assert_int_eq(r->backend, SPEC_RENDEZVOUS_LOCAL);
	ck_assert_int_eq(r->nodes_min, 1);
	ck_assert_int_eq(r->nodes_max, 1);
	ck_assert_int_eq(r->node_rank, SPEC_UNSET);
	ck_assert_int_eq(r->join_timeout_ms, 600000);
	ck_assert_int_eq(r->last_call_ms, 30000);
	ck_assert_int_eq(r->prepare_timeout_ms, 60000);
	ck_assert_int_eq(r->lease_ms, 10000);
	ck_assert_int_eq(r->join_delay_ms, 3000);
	ck_assert_int_eq(r->on_join, SPEC_ON_JOIN_RESTART);
	ck_assert_int_eq(r->segment, 1);
	ck_assert_int_eq(r->quarantine_max, 3);
	ck_assert_int_eq(r->quarantine_ms, 3600000);
	ck_assert(!r->never_leads);
	ck_assert_ptr_null(r->endpoints);
	ck_assert_ptr_null(r->master_addr);
	ck_assert_int_eq(r->master_ports.first, 0);
	ck_assert_ptr_null(r->address);
	ck_assert_ptr_null(r->token_file);
	ck_assert_ptr_null(r->tls_cert);
}
END_TEST

START_TEST(every_key_reaches_its_field)
{
	_cleanup_(spec_freep) struct spec *s = parse_section(
		"{'nodes':'2:16384','endpoints':'h:1','backend':'direct','node_rank':16383,"
		"'id':'i','master_port':7,'address':'10.0.0.0/8','join_timeout':'1s',"
		"'last_call':'2s','prepare_timeout':'3s','lease':'100ms','join_delay':0,"
		"'on_join':'wait','lead':'never','tls':{'cert':'/c','key':'/k','ca':'/a'}}");
	_cleanup_(spec_freep) struct spec *t =
		parse_section("{'token_file':'/t','master_ports':'29500-29510'}");
	const struct spec_rendezvous *r = &s->rendezvous;

	ck_assert_int_eq(r->backend, SPEC_RENDEZVOUS_DIRECT);
	ck_assert_int_eq(r->nodes_min, 2);
	ck_assert_int_eq(r->nodes_max, 16384);
	ck_assert_str_eq(r->endpoints, "h:1");
	ck_assert_int_eq(r->node_rank, 16383);
	ck_assert_str_eq(r->id, "i");
	ck_assert_ptr_null(r->master_addr);
	ck_assert_int_eq(r->master_port, 7);
	ck_assert_str_eq(r->address, "10.0.0.0/8");
	ck_assert_int_eq(r->join_timeout_ms, 1000);
	ck_assert_int_eq(r->last_call_ms, 2000);
	ck_assert_int_eq(r->prepare_timeout_ms, 3000);
	ck_assert_int_eq(r->lease_ms, 100);
	ck_assert_int_eq(r->join_delay_ms, 0);
	ck_assert_int_eq(r->on_join, SPEC_ON_JOIN_WAIT);
	ck_assert(r->never_leads);
	ck_assert_str_eq(r->tls_cert, "/c");
	ck_assert_str_eq(r->tls_key, "/k");
	ck_assert_str_eq(r->tls_ca, "/a");
	ck_assert_str_eq(t->rendezvous.token_file, "/t");
	ck_assert_int_eq(t->rendezvous.master_ports.first, 29500);
	ck_assert_int_eq(t->rendezvous.master_ports.last, 29510);
}
END_TEST

static const struct {
	const char *section, *master_addr;
	enum spec_rendezvous_backend backend;
	int master_port;
} backends[] = {
	/* one host */
	{ "{'nodes':1}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'backend':'local'}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'backend':'static'}", NULL, SPEC_RENDEZVOUS_STATIC, 0 },
	{ "{'backend':'static','master_addr':'m','master_port':5}", "m", SPEC_RENDEZVOUS_STATIC,
		5 },
	{ "{'master_addr':'m'}", "m", SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'node_rank':0}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'backend':'direct','endpoints':'h:1'}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'backend':'c10d'}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	{ "{'endpoints':'h:1'}", NULL, SPEC_RENDEZVOUS_LOCAL, 0 },
	/* several */
	{ "{'nodes':2,'endpoints':'h:1'}", NULL, SPEC_RENDEZVOUS_DIRECT, 0 },
	{ "{'nodes':'4:8','endpoints':'h','segment':4,'topology':'p/r'}", NULL,
		SPEC_RENDEZVOUS_DIRECT, 0 },
	{ "{'nodes':'1:4','endpoints':'h'}", NULL, SPEC_RENDEZVOUS_DIRECT, 0 },
	{ "{'nodes':2,'endpoints':'h','backend':'c10d'}", NULL, SPEC_RENDEZVOUS_DIRECT, 0 },
	{ "{'nodes':'1:2','endpoints':'h','backend':'direct','node_rank':1}", NULL,
		SPEC_RENDEZVOUS_DIRECT, 0 },
	{ "{'nodes':2,'node_rank':1,'master_addr':'m'}", "m", SPEC_RENDEZVOUS_STATIC, 0 },
	{ "{'nodes':2,'node_rank':0,'master_addr':'m','master_port':5}", "m",
		SPEC_RENDEZVOUS_STATIC, 5 },
	{ "{'nodes':2,'node_rank':1,'endpoints':'h:6'}", "h", SPEC_RENDEZVOUS_STATIC, 6 },
	{ "{'nodes':2,'node_rank':1,'endpoints':'[::1]:6','master_port':5}", "::1",
		SPEC_RENDEZVOUS_STATIC, 5 },
	{ "{'nodes':2,'node_rank':1,'endpoints':'h'}", "h", SPEC_RENDEZVOUS_STATIC, 0 },
	{ "{'nodes':2,'node_rank':1,'endpoints':'h:6','master_addr':'m'}", "m",
		SPEC_RENDEZVOUS_STATIC, 0 },
	{ "{'nodes':'2:2','backend':'static','node_rank':1,'endpoints':'h:6'}", "h",
		SPEC_RENDEZVOUS_STATIC, 6 },
};

START_TEST(the_backend_follows_from_what_is_given)
{
	_cleanup_(spec_freep) struct spec *s = parse_section(backends[_i].section);
	_cleanup_json_ json_t *full = spec_to_json(s), *again = NULL;
	_cleanup_(spec_freep) struct spec *t = NULL;
	const struct spec_rendezvous *r = &s->rendezvous;

	ck_assert_int_eq(r->backend, backends[_i].backend);
	if (backends[_i].master_addr)
		ck_assert_str_eq(r->master_addr, backends[_i].master_addr);
	else
		ck_assert_ptr_null(r->master_addr);
	ck_assert_int_eq(r->master_port, backends[_i].master_port);
	ck_assert_int_eq(spec_resolve(s, NULL), 0);
	ck_assert_int_eq(spec_parse(full, &t, NULL), 0);
	again = spec_to_json(t);
	ck_assert(json_equal(full, again));
}
END_TEST

static const struct {
	const char *section, *text;
} refused[] = {
	{ "{'nodes':'6:8','endpoints':'h','segment':4}",
		"rendezvous.segment: expected a number that divides MIN and MAX of `nodes`, which "
		"are 6 and 8, got 4" },
	{ "{'nodes':'4:6','endpoints':'h','segment':4}",
		"rendezvous.segment: expected a number that divides MIN and MAX of `nodes`, which "
		"are 4 and 6, got 4" },
	{ "{'nodes':4,'node_rank':0,'master_addr':'m','segment':2}",
		"rendezvous.segment: expected it or `node_rank`, got both: hosts get their ranks "
		"in blocks" },
	{ "{'nodes':2}",
		"rendezvous.nodes: 2 hosts need something to meet at: `endpoints`, or `node_rank` "
		"and `master_addr`" },
	{ "{'nodes':'1:2','backend':'local','endpoints':'h'}",
		"rendezvous.backend: expected \"direct\", \"etcd\" or \"static\" for 2 hosts, got "
		"\"local\"" },
	{ "{'nodes':2,'backend':'direct'}",
		"rendezvous.endpoints: expected HOST or HOST:PORT, which the backend \"direct\" "
		"needs" },
	{ "{'nodes':2,'backend':'direct','endpoints':'h','master_addr':'m'}",
		"rendezvous.master_addr: needs the backend \"static\"; with \"direct\" it is an "
		"address of the host of rank 0, and `address` says which" },
	{ "{'nodes':'1:2','node_rank':0,'master_addr':'m'}",
		"rendezvous.nodes: expected one number of hosts with the backend \"static\", got "
		"\"1:2\"" },
	{ "{'nodes':4,'master_addr':'m'}",
		"rendezvous.node_rank: expected this host's rank from 0 to 3, which the backend "
		"\"static\" needs" },
	{ "{'nodes':2,'backend':'static','endpoints':'h'}",
		"rendezvous.node_rank: expected this host's rank from 0 to 1, which the backend "
		"\"static\" needs" },
	{ "{'nodes':2,'node_rank':1}",
		"rendezvous.master_addr: expected the address of the host of node rank 0, which "
		"the backend \"static\" needs, or `endpoints`" },
	{ "{'nodes':2,'node_rank':2,'master_addr':'m'}",
		"rendezvous.node_rank: expected a rank below the number of hosts, which is 2, got "
		"2" },
	{ "{'node_rank':1}",
		"rendezvous.node_rank: expected a rank below the number of hosts, which is 1, got "
		"1" },
	{ "{'nodes':2,'node_rank':0,'master_addr':'m','lead':'never'}",
		"rendezvous.lead: expected \"auto\" at node rank 0, which leads with the backend "
		"\"static\"" },
	{ "{'nodes':'2:1'}",
		"rendezvous.nodes: expected \"N\" or \"MIN:MAX\" with 1 <= MIN <= MAX <= 16384, "
		"got \"2:1\"" },
	{ "{'nodes':16385}",
		"rendezvous.nodes: expected \"N\" or \"MIN:MAX\" with 1 <= MIN <= MAX <= 16384, "
		"got 16385" },
	{ "{'lease':'99ms'}",
		"rendezvous.lease: expected a duration of at least 100ms, got \"99ms\"" },
	{ "{'master_ports':'29510-29500'}",
		"rendezvous.master_ports: expected \"FIRST-LAST\" with 1 <= FIRST <= LAST <= "
		"65535, got \"29510-29500\"" },
	{ "{'master_ports':'1-9','master_port':5}",
		"rendezvous.master_ports: expected it or `master_port`, got both" },
	{ "{'nodes':2,'node_rank':1,'endpoints':'h:6','master_ports':'1-9'}",
		"rendezvous.master_ports: expected it or a port in `endpoints`, which is the "
		"master's with the backend \"static\", got both" },
	{ "{'backend':'zookeeper'}",
		"rendezvous.backend: expected \"local\", \"static\", \"direct\" (or \"c10d\") or "
		"\"etcd\", got \"zookeeper\"" },
	{ "{'nodes':2,'backend':'etcd','id':'x'}",
		"rendezvous.endpoints: expected the addresses of etcd, which the backend \"etcd\" "
		"needs" },
	{ "{'nodes':2,'backend':'etcd-v2','endpoints':'h'}",
		"rendezvous.id: expected the name of the group, which the backend \"etcd\" needs" },
	{ "{'nodes':2,'backend':'etcd','endpoints':'h','id':'a/b'}",
		"rendezvous.id: expected a name without a slash with the backend \"etcd\"" },
	{ "{'nodes':2,'backend':'etcd','endpoints':'h','id':'x','lease':'1s'}",
		"rendezvous.lease: expected at least 2s with the backend \"etcd\", got 1000ms" },
	{ "{'nodes':2,'backend':'etcd','endpoints':'h','id':'x','user':'u'}",
		"rendezvous.password_file: expected it: `user` and `password_file` go together" },
	{ "{'nodes':2,'backend':'etcd','endpoints':'h','id':'x','tls':{'cert':'/c'}}",
		"rendezvous.tls.key: expected a file: `cert` and `key` go together" },
	{ "{'nodes':2,'endpoints':'h,i'}",
		"rendezvous.endpoints: expected HOST or HOST:PORT, got \"h,i\"" },
	{ "{'endpoints':'h,'}", "rendezvous.endpoints: expected HOST or HOST:PORT, got \"\"" },
	{ "{'endpoints':'h:0'}", "rendezvous.endpoints: expected HOST or HOST:PORT, got \"h:0\"" },
	{ "{'address':'10.0.0.0/33'}",
		"rendezvous.address: expected an address, a network such as \"10.1.0.0/16\", or an "
		"interface, got \"10.0.0.0/33\"" },
	{ "{'tls':{'cert':'/c','ca':'/a'}}",
		"rendezvous.tls.key: expected a file: `cert`, `key` and `ca` go together" },
	{ "{'tls':{'cert':'/c','key':'/k','ca':'/a'},'token_file':'/t'}",
		"rendezvous.tls: expected `token_file` or certificates, got both" },
};

START_TEST(a_missing_key_of_several_hosts_is_one_error_that_names_it)
{
	_cleanup_free_ char *text = document_text(refused[_i].section);
	_cleanup_json_ json_t *doc = J(text);
	struct spec_problems all = { 0 };
	struct error err = { 0 };
	struct spec *s;

	ck_assert_int_eq(spec_parse(doc, &s, &err), -EINVAL);
	ck_assert_str_eq(err.text, refused[_i].text);
	ck_assert_int_eq(spec_parse_all(doc, &s, &all, &err), -EINVAL);
	ck_assert_str_eq(all.items[0].text, refused[_i].text);
	spec_problems_fini(&all);
}
END_TEST

START_TEST(numbers_of_hosts_are_read_whole)
{
	static const char *const wrong[] = { "", "0", "1:0", "2:1", "-1", "+1", "1:", ":1", "1:2:3",
		"1x", " 1", "1 :2", "16385", "99999999999999999999", "1:99999999999999999999" };
	int min = 0, max = 0;

	ck_assert_int_eq(spec_nodes_parse("3", &min, &max), 0);
	ck_assert(min == 3 && max == 3);
	ck_assert_int_eq(spec_nodes_parse("1:16384", &min, &max), 0);
	ck_assert(min == 1 && max == 16384);
	for (int i = 0; i < N(wrong); i++)
		ck_assert_msg(spec_nodes_parse(wrong[i], &min, &max) == -EINVAL, "%s", wrong[i]);
	ck_assert(min == 1 && max == 16384);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spec_rendezvous");
	TCase *t = tcase_create("rendezvous");

	tcase_add_test(t, one_host_alone_is_the_default);
	tcase_add_test(t, every_key_reaches_its_field);
	tcase_add_loop_test(t, the_backend_follows_from_what_is_given, 0, N(backends));
	tcase_add_loop_test(
		t, a_missing_key_of_several_hosts_is_one_error_that_names_it, 0, N(refused));
	tcase_add_test(t, numbers_of_hosts_are_read_whole);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
