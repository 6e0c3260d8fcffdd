/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/launch_line.h"

#include "common/spec/spec.h"
#include "tests/unit/run.h"

#include <errno.h>

/* The section that flags make. */
static const struct {
	const char *line, *section;
} sections[] = {
	/* direct */
	{ "--nnodes=2 --rdzv-endpoint=h:1 p", "{'nodes':'2:2','endpoints':'h:1'}" },
	{ "--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=h --rdzv-id=j p",
		"{'nodes':'1:4','backend':'direct','endpoints':'h','id':'j'}" },
	{ "--nnodes=2 --rdzv-backend=direct --rdzv-endpoint=[::1]:7 --node-rank=1 p",
		"{'nodes':'2:2','backend':'direct','endpoints':'[::1]:7','node_rank':1}" },
	{ "--nnodes=2 --rdzv-endpoint=h --local-addr=10.0.0.0/8 p",
		"{'nodes':'2:2','endpoints':'h','address':'10.0.0.0/8'}" },
	{ "--nnodes=2:16384 --rdzv-endpoint=h --rdzv-id= p",
		"{'nodes':'2:16384','endpoints':'h'}" },
	/* etcd */
	{ "--nnodes=2:3 --rdzv-backend=etcd-v2 --rdzv-endpoint=http://e1:2379,[::1] --rdzv-id=x p",
		"{'nodes':'2:3','backend':'etcd','endpoints':'http://e1:2379,[::1]','id':'x'}" },
	{ "--nnodes=2 --rdzv-backend=etcd --rdzv-endpoint=a,http://b --rdzv-id=x "
	  "--rdzv-conf=protocol=https,ca_cert=/c,ssl_cert=/d,ssl_cert_key=/e,etcd_prefix=/p p",
		"{'nodes':'2:2','backend':'etcd','endpoints':'https://a,http://b','id':'x',"
		"'tls':{'ca':'/c','cert':'/d','key':'/e'},'prefix':'/p'}" },
	/* static */
	{ "--nnodes=2 --node-rank=0 --master-addr=h p",
		"{'nodes':'2:2','node_rank':0,'master_addr':'h'}" },
	{ "--nnodes=2:2 --node-rank=1 --master-addr=h --master-port=29500 p",
		"{'nodes':'2:2','node_rank':1,'master_addr':'h','master_port':29500}" },
	{ "--nnodes=2 --node-rank=1 --rdzv-endpoint=h:5 p",
		"{'nodes':'2:2','node_rank':1,'endpoints':'h:5'}" },
	{ "--nnodes=2 --rdzv-backend=static --node-rank=1 --rdzv-endpoint=h:5 p",
		"{'nodes':'2:2','backend':'static','node_rank':1,'endpoints':'h:5'}" },
	/* --rdzv-conf */
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=join_timeout=5,last_call_timeout=0 p",
		"{'nodes':'2:2','endpoints':'h','join_timeout':'5s','last_call':'0'}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=timeout=1.5,close_timeout=7 p",
		"{'nodes':'2:2','endpoints':'h','join_timeout':'1500ms'}" },
	{ "--nnodes=2 --rdzv-endpoint=h "
	  "--rdzv-conf=keep_alive_interval=2,keep_alive_max_attempt=4 p",
		"{'nodes':'2:2','endpoints':'h','lease':'8s'}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=keep_alive_interval=2 p",
		"{'nodes':'2:2','endpoints':'h','lease':'6s'}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=keep_alive_max_attempt=1 p",
		"{'nodes':'2:2','endpoints':'h','lease':'5s'}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=is_host=1,store_type=tcp,read_timeout=60 p",
		"{'nodes':'2:2','endpoints':'h'}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=is_host=False,heartbeat_timeout=5 p",
		"{'nodes':'2:2','endpoints':'h','lead':'never'}" },
	{ "--nnodes=2 --rdzv-conf=rank=1 --master-addr=h p",
		"{'nodes':'2:2','master_addr':'h','node_rank':1}" },
	{ "--nnodes=2 --rdzv-conf=rank=1 --node-rank=0 --master-addr=h p",
		"{'nodes':'2:2','master_addr':'h','node_rank':0}" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=^join_timeout^=^5^,^is_host^=^true p",
		"{'nodes':'2:2','endpoints':'h','join_timeout':'5s'}" },
};

START_TEST(flags_of_several_hosts_become_keys_of_rendezvous)
{
	_cleanup_free_ char *expected = strdup(sections[_i].section);
	struct launch l = { 0 };
	struct error err = { 0 };

	for (char *p = expected; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (launch(sections[_i].line, true, &l, &err) < 0)
		ck_abort_msg("%s: %s", sections[_i].line, err.text);
	assert_at(l.spec, "rendezvous", expected);
	ck_assert_ptr_null(l.warnings);
	launch_fini(&l);
}
END_TEST

static const struct {
	const char *line, *error;
} refused[] = {
	{ "--nnodes=16385 p", "--nnodes: expected at most 16384 hosts, got \"16385\"" },
	{ "--nnodes=2 p",
		"--nnodes: 2 hosts need something to meet at: --rdzv-endpoint, or --node-rank and "
		"--master-addr, or --nnodes=auto in a step of Slurm" },
	{ "--nnodes=1:4 --master-port=5 p",
		"--nnodes: 4 hosts need something to meet at: --rdzv-endpoint, or --node-rank and "
		"--master-addr" },
	{ "--nnodes=2 --rdzv-endpoint=h:0 p",
		"--rdzv-endpoint: expected HOST or HOST:PORT, got \"h:0\"" },
	{ "--nnodes=2 --rdzv-endpoint=http://h p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--nnodes=2 --rdzv-backend=etcd --rdzv-endpoint=h p",
		"--rdzv-id: expected the name of the group, which the backend \"etcd\" needs" },
	{ "--nnodes=2 --rdzv-backend=etcd-v2 --rdzv-id=x p",
		"--rdzv-endpoint: expected the addresses of etcd, which the backend \"etcd\" "
		"needs" },
	{ "--nnodes=2 --rdzv-backend=etcd --rdzv-endpoint=h --rdzv-id=x --rdzv-conf=protocol=ftp p",
		"--rdzv-conf: protocol: expected http or https, got \"ftp\"" },
	{ "--nnodes=2 --rdzv-endpoint=h,i p",
		"--rdzv-endpoint: expected HOST or HOST:PORT, got \"h,i\"" },
	{ "--nnodes=2 --rdzv-backend=c10d p",
		"--rdzv-endpoint: expected HOST or HOST:PORT, which the backend \"direct\" "
		"needs" },
	{ "--nnodes=2 --standalone p", "--standalone: is for one host, and there are 2" },
	{ "--nnodes=2 --node-rank=2 --master-addr=h p",
		"--node-rank: expected a rank from 0 to 1, as there are 2 hosts, got \"2\"" },
	{ "--nnodes=2 --node-rank=-1 --master-addr=h p", "--node-rank: expected a rank from 0" },
	{ "--nnodes=2 --master-addr=h p",
		"--node-rank: expected this host's rank from 0 to 1, which the backend \"static\" "
		"needs" },
	{ "--nnodes=2 --node-rank=1 p",
		"--master-addr: expected the address of the host of node rank 0, which the backend "
		"\"static\" needs, or --rdzv-endpoint" },
	{ "--nnodes=1:2 --node-rank=1 --master-addr=h p",
		"--nnodes: expected one number of hosts with the backend \"static\", got "
		"\"1:2\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --local-addr=10.0.0.0/33 p",
		"--local-addr: expected an address, a network such as \"10.1.0.0/16\", or an "
		"interface, got \"10.0.0.0/33\"" },
	{ "--nnodes=2 --node-rank=0 --master-addr=h --rdzv-conf=is_host=0 p",
		"--rdzv-conf: expected \"auto\" at node rank 0, which leads" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=join_timeout=x p",
		"--rdzv-conf: join_timeout: expected a duration" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=timeout=0 p",
		"--rdzv-conf: timeout: expected a time greater than 0, got \"0\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=last_call_timeout=-1 p",
		"--rdzv-conf: last_call_timeout: expected a duration" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=keep_alive_interval=0 p",
		"--rdzv-conf: keep_alive_interval: expected a time greater than 0" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=keep_alive_max_attempt=0 p",
		"--rdzv-conf: keep_alive_max_attempt: expected a number from 1 to 1000000, got "
		"\"0\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=keep_alive_interval=0.01 p",
		"--rdzv-conf: keep_alive_interval times keep_alive_max_attempt: expected at least "
		"100ms, got 30ms" },
	{ "--nnodes=2 --rdzv-endpoint=h "
	  "--rdzv-conf=keep_alive_interval=36500d,keep_alive_max_attempt=1000000 p",
		"--rdzv-conf: keep_alive_interval times keep_alive_max_attempt: expected at most "
		"100 years" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=is_host=maybe p",
		"--rdzv-conf: is_host: expected true or false, got \"maybe\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=rank=2 p",
		"--rdzv-conf: rank: expected a rank from 0 to 1, got \"2\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=store_type=file p",
		"--rdzv-conf: store_type: expected tcp, got \"file\"" },
	{ "--nnodes=2 --rdzv-endpoint=h --rdzv-conf=close_timeout=x p",
		"--rdzv-conf: close_timeout: expected a duration" },
};

START_TEST(wrong_flags_of_several_hosts_are_refused_by_name)
{
	struct launch l = { .spec = (void *)1 };
	struct error err = { 0 };

	ck_assert_int_eq(launch(refused[_i].line, true, &l, &err), -EINVAL);
	if (strncmp(err.text, refused[_i].error, strlen(refused[_i].error)))
		ck_abort_msg("%s: %s", refused[_i].line, err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

START_TEST(flags_without_effect_are_warned_of)
{
	struct launch l = { 0 };

	ck_assert_int_eq(launch("--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=h --master-addr=m "
				"--rdzv-conf=protocol=https,x=1 p",
				 true, &l, NULL),
		0);
	assert_at(l.spec, "rendezvous.master_addr", NULL);
	ck_assert_str_eq(l.warnings[0],
		"--master-addr and --master-port have no effect with the backend direct");
	ck_assert_str_eq(l.warnings[1], "--rdzv-conf: the unknown key \"protocol\" has no effect");
	ck_assert_str_eq(l.warnings[2], "--rdzv-conf: the unknown key \"x\" has no effect");
	ck_assert_ptr_null(l.warnings[3]);
	launch_fini(&l);
}
END_TEST

START_TEST(variables_stand_in_for_flags_of_several_hosts)
{
	struct launch l = { 0 };
	struct error err = { 0 };

	setenv("PET_NNODES", "2", 1);
	setenv("PET_NODE_RANK", "1", 1);
	setenv("PET_MASTER_ADDR", "h", 1);
	setenv("PET_MASTER_PORT", "23456", 1);
	setenv("PET_RDZV_CONF", "join_timeout=9", 1);
	ck_assert_int_eq(launch("p", true, &l, NULL), 0);
	assert_at(l.spec, "rendezvous",
		"{\"nodes\":\"2:2\",\"node_rank\":1,\"master_addr\":\"h\",\"master_port\":23456,"
		"\"join_timeout\":\"9s\"}");
	launch_fini(&l);
	setenv("PET_NODE_RANK", "2", 1);
	ck_assert_int_eq(launch("p", true, &l, &err), -EINVAL);
	ck_assert_ptr_eq(strstr(err.text, "PET_NODE_RANK: expected a rank from 0 to 1"), err.text);
	setenv("PET_NODE_RANK", "1", 1);
	setenv("PET_RDZV_CONF", "rank=x", 1);
	ck_assert_int_eq(launch("p", true, &l, &err), -EINVAL);
	ck_assert_ptr_eq(strstr(err.text, "PET_RDZV_CONF: rank: expected"), err.text);
}
END_TEST

START_TEST(flags_complete_a_job_file_of_several_hosts)
{
	static const char job[] = "{\"roles\":[{\"command\":[\"a\"]}],\"rendezvous\":{\"nodes\":2,"
				  "\"token_file\":\"secret\",\"tls\":{}}}";
	struct launch l = { 0 };
	struct error err = { 0 };
	char token[128];

	write_file("j.json", job);
	ck_assert_int_eq(launch("--spec=j.json --node-rank=1 --master-addr=h", true, &l, &err), 0);
	assert_at(l.spec, "rendezvous.node_rank", "1");
	assert_at(l.spec, "rendezvous.master_addr", "\"h\"");
	snprintf(token, sizeof(token), "\"%s/secret\"", directory);
	assert_at(l.spec, "rendezvous.token_file", token);
	launch_fini(&l);
	ck_assert_int_eq(launch("--spec=j.json --nnodes=1", true, &l, &err), 0);
	assert_at(l.spec, "rendezvous.nodes", "\"1:1\"");
	launch_fini(&l);
	ck_assert_int_eq(launch("--spec=j.json --rdzv-endpoint=h", true, &l, &err), 0);
	assert_at(l.spec, "rendezvous.endpoints", "\"h\"");
	launch_fini(&l);
	ck_assert_int_eq(launch("--spec=j.json", true, &l, &err), -EINVAL);
	ck_assert_str_eq(err.text,
		"rendezvous.nodes: 2 hosts need something to meet at: `endpoints`, or `node_rank` "
		"and `master_addr`");
	ck_assert_int_eq(launch("--spec=j.json --node-rank=7", true, &l, &err), -EINVAL);
	ck_assert_ptr_eq(strstr(err.text, "--node-rank: expected a rank from 0 to 1"), err.text);
}
END_TEST

/* Sets "NAME=value NAME=value". */
static void set_variables(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
		char *value = strchr(word, '=');

		*value = '\0';
		setenv(word, value + 1, 1);
	}
}

#define STEP                                                                                     \
	"SLURM_STEP_NODELIST=n[3-4,9] SLURM_STEP_NUM_NODES=3 SLURM_NODEID=1 SLURM_JOB_ID=70123 " \
	"SLURM_STEP_ID=2 SLURM_STEP_TASKS_PER_NODE=1(x3) "
#define OMPI "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=1"

static const struct {
	const char *variables, *line, *section;
} found[] = {
	{ STEP, "p",
		"{'nodes':'3:3','backend':'direct','endpoints':'n3:29523','node_rank':1,"
		"'id':'slurm-70123.2.0'}" },
	{ STEP "SLURM_RESTART_COUNT=5", "p",
		"{'nodes':'3:3','backend':'direct','endpoints':'n3:29523','node_rank':1,"
		"'id':'slurm-70123.2.5'}" },
	{ STEP, "--rdzv-endpoint=h:1 --rdzv-id=mine --node-rank=2 p",
		"{'nodes':'3:3','backend':'direct','endpoints':'h:1','node_rank':2,'id':'mine'}" },
	{ STEP, "--rdzv-backend=static p",
		"{'nodes':'3:3','backend':'static','endpoints':'n3:29523','node_rank':1,"
		"'id':'slurm-70123.2.0'}" },
	{ STEP, "--master-addr=m p",
		"{'nodes':'3:3','master_addr':'m','node_rank':1,'id':'slurm-70123.2.0'}" },
	{ STEP "SLURM_TOPOLOGY_ADDR=s0.s[1,3].n4 SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node",
		"p",
		"{'nodes':'3:3','topology':'s0/s[1,3]/n4','endpoints':'n3:29523','backend':'direct',"
		"'id':'slurm-70123.2.0'}" },
	{ STEP "SLURM_TOPOLOGY_ADDR=n4.x SLURM_TOPOLOGY_ADDR_PATTERN=node", "p",
		"{'nodes':'3:3','node_rank':1,'endpoints':'n3:29523','backend':'direct',"
		"'id':'slurm-70123.2.0'}" },
	{ STEP "SLURM_TOPOLOGY_ADDR=s0.n4", "--master-addr=m p",
		"{'nodes':'3:3','topology':'s0/n4','master_addr':'m','node_rank':1,'id':'slurm-"
		"70123.2.0'}" },
	{ "SLURM_STEP_NODELIST=n7 SLURM_NODEID=0 SLURM_JOB_ID=1 SLURM_STEP_ID=0", "p",
		"{'nodes':'1:1','id':'slurm-1.0.0'}" },
	{ "SLURM_STEP_NODELIST=n7 SLURM_NODEID=0 SLURM_JOB_ID=1 SLURM_STEP_ID=0", "--standalone p",
		"{'nodes':'1:1'}" },
	{ STEP OMPI, "p",
		"{'nodes':'3:3','backend':'direct','endpoints':'n3:29523','node_rank':1,"
		"'id':'slurm-70123.2.0'}" },
	{ OMPI, "--rdzv-endpoint=h p",
		"{'nodes':'4:4','backend':'direct','endpoints':'h','node_rank':3}" },
	{ OMPI, "--master-addr=m p", "{'nodes':'4:4','master_addr':'m','node_rank':3}" },
	{ "PMI_SIZE=2 PMI_RANK=0", "--rdzv-endpoint=h p",
		"{'nodes':'2:2','backend':'direct','endpoints':'h','node_rank':0}" },
	{ "PMI_SIZE=1 PMI_RANK=0", "p", "{'nodes':'1:1'}" },
};

START_TEST(auto_takes_from_slurm_and_mpi_what_no_flag_sets)
{
	_cleanup_free_ char *expected = strdup(found[_i].section), *line = NULL;
	struct launch l = { 0 };
	struct error err = { 0 };

	for (char *p = expected; *p; p++)
		if (*p == '\'')
			*p = '"';
	set_variables(found[_i].variables);
	ck_assert_int_gt(asprintf(&line, "--nnodes=auto %s", found[_i].line), 0);
	if (launch(line, true, &l, &err) < 0)
		ck_abort_msg("%s: %s", found[_i].variables, err.text);
	assert_at(l.spec, "rendezvous", expected);
	launch_fini(&l);
}
END_TEST

static const struct {
	const char *variables, *line, *error;
} lost[] = {
	{ "", "p", "--nnodes: auto: expected a step of Slurm, or a process of Open MPI or PMI" },
	{ "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2]", "p",
		"--nnodes: auto: expected a step of the Slurm job: start it with srun" },
	{ STEP "SLURM_STEP_TASKS_PER_NODE=8(x3)", "p",
		"--nnodes: auto: SLURM_STEP_TASKS_PER_NODE: expected one task of the step on each "
		"host, got 8: start it with srun --ntasks-per-node=1" },
	{ STEP "SLURM_STEP_NODELIST=n[", "p", "--nnodes: auto: SLURM_STEP_NODELIST: expected" },
	{ STEP "SLURM_TOPOLOGY_ADDR=s0..n4", "p",
		"--nnodes: auto: SLURM_TOPOLOGY_ADDR: expected 1 to 16 parts with dots between "
		"them, got \"s0..n4\"" },
	{ STEP, "--rdzv-backend=etcd p", "--rdzv-endpoint: expected the addresses of etcd" },
	{ STEP, "--standalone p", "--standalone: is for one host, and there are 3" },
	{ OMPI, "p", "--rdzv-endpoint: expected HOST or HOST:PORT, which the backend \"direct\"" },
	{ "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=4", "--rdzv-endpoint=h p",
		"--nnodes: auto: OMPI_COMM_WORLD_RANK: expected a rank from 0 to 3, got \"4\"" },
	{ "OMPI_COMM_WORLD_SIZE=4", "--rdzv-endpoint=h p",
		"--nnodes: auto: OMPI_COMM_WORLD_RANK: expected a rank from 0 to 3, got nothing" },
	{ "OMPI_COMM_WORLD_SIZE=0", "p",
		"--nnodes: auto: OMPI_COMM_WORLD_SIZE: expected a number from 1 to 16384, got "
		"\"0\"" },
	{ OMPI " OMPI_COMM_WORLD_LOCAL_SIZE=2", "--rdzv-endpoint=h p",
		"--nnodes: auto: OMPI_COMM_WORLD_LOCAL_SIZE: expected 1 process on each host, as "
		"with mpirun --map-by ppr:1:node, got \"2\"" },
	{ "PMI_SIZE=2 PMI_RANK=0 MPI_LOCALNRANKS=2", "--rdzv-endpoint=h p",
		"--nnodes: auto: MPI_LOCALNRANKS: expected 1 process on each host, as with mpiexec "
		"-ppn 1, got \"2\"" },
};

START_TEST(auto_names_the_variable_that_is_wrong)
{
	_cleanup_free_ char *line = NULL;
	struct launch l = { .spec = (void *)1 };
	struct error err = { 0 };

	set_variables(lost[_i].variables);
	ck_assert_int_gt(asprintf(&line, "--nnodes=auto %s", lost[_i].line), 0);
	ck_assert_int_eq(launch(line, true, &l, &err), -EINVAL);
	if (strncmp(err.text, lost[_i].error, strlen(lost[_i].error)))
		ck_abort_msg("%s: %s", lost[_i].variables, err.text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("launch_rendezvous");
	TCase *t = tcase_create("launch_rendezvous");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, flags_of_several_hosts_become_keys_of_rendezvous, 0, N(sections));
	tcase_add_loop_test(t, wrong_flags_of_several_hosts_are_refused_by_name, 0, N(refused));
	tcase_add_test(t, flags_without_effect_are_warned_of);
	tcase_add_test(t, variables_stand_in_for_flags_of_several_hosts);
	tcase_add_test(t, flags_complete_a_job_file_of_several_hosts);
	tcase_add_loop_test(t, auto_takes_from_slurm_and_mpi_what_no_flag_sets, 0, N(found));
	tcase_add_loop_test(t, auto_names_the_variable_that_is_wrong, 0, N(lost));
	suite_add_tcase(s, t);
	return suite_run(s);
}
