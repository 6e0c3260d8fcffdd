/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/launch_line.h"

#include "client/launch/table.h"
#include "common/spec/spec.h"
#include "tests/unit/run.h"

#include <errno.h>
#include <sys/stat.h>

/* Command lines, and the keys that they set. */
static const struct {
	const char *line;
	const char *path;
	const char *value;
} effects[] = {
	/* the program */
	{ "prog", "roles.0.command", "[\"prog\"]" },
	{ "./train -x --nnodes 7", "roles.0.command", "[\"./train\",\"-x\",\"--nnodes\",\"7\"]" },
	{ "t.py a", "roles.0.command", "[\"python3\",\"-u\",\"t.py\",\"a\"]" },
	{ "-m pkg.mod -a", "roles.0.command", "[\"python3\",\"-u\",\"-m\",\"pkg.mod\",\"-a\"]" },
	{ "--module pkg", "roles.0.command", "[\"python3\",\"-u\",\"-m\",\"pkg\"]" },
	{ "--no-python t.py", "roles.0.command", "[\"t.py\"]" },
	{ "--run-path t.txt", "roles.0.command", "[\"python3\",\"-u\",\"t.txt\"]" },
	{ "--run-path --no-python t.txt", "roles.0.command", "[\"python3\",\"-u\",\"t.txt\"]" },
	{ "-- prog -r", "roles.0.command", "[\"prog\",\"-r\"]" },
	{ "prog -- a", "roles.0.command", "[\"prog\",\"--\",\"a\"]" },
	{ "prog ${local_rank} $$ $HOME ${x}", "roles.0.command",
		"[\"prog\",\"${local_rank}\",\"$$\",\"$HOME\",\"${x}\"]" },
	{ ".py", "roles.0.command", "[\".py\"]" },
	{ "prog", "roles.0.name", "\"default\"" },
	{ "--role=ps prog", "roles.0.name", "\"ps\"" },
	{ "prog", "roles.0.replicas", NULL },
	{ "prog", "inherit_env", "true" },
	{ "prog", "cwd", NULL },
	{ "prog", "name", NULL },
	/* spellings */
	{ "--nproc-per-node=2 prog", "roles.0.replicas", "2" },
	{ "--nproc_per_node=2 prog", "roles.0.replicas", "2" },
	{ "--nproc_per-node 2 prog", "roles.0.replicas", "2" },
	{ "--nproc 2 prog", "roles.0.replicas", "2" },
	{ "--np=2 prog", "roles.0.replicas", "2" },
	{ "--redirect=3 prog", "logs.redirects", "\"3\"" },
	{ "--max 3 prog", "restart.max", "3" },
	{ "-r 3 prog", "logs.redirects", "\"3\"" },
	{ "-r3 prog", "logs.redirects", "\"3\"" },
	{ "-r=3 prog", "logs.redirects", "\"3\"" },
	{ "-t 1 -r 0:1 prog", "logs.tee", "\"1\"" },
	{ "--max-restarts=1 --max-restarts=2 prog", "restart.max", "2" },
	/* size */
	{ "--nproc-per-node=auto prog", "roles.0.replicas", "\"auto\"" },
	{ "--nproc-per-node=cpu prog", "roles.0.replicas", "\"cpu\"" },
	{ "--nproc-per-node=gpu prog", "roles.0.replicas", "\"gpu\"" },
	{ "--nproc-per-node=xpu prog", "roles.0.replicas", "\"xpu\"" },
	{ "--nnodes=1 prog", "rendezvous.nodes", "\"1:1\"" },
	{ "--nnodes=1:1 prog", "rendezvous.nodes", "\"1:1\"" },
	/* rendezvous */
	{ "prog", "rendezvous", NULL },
	{ "--rdzv-id=abc prog", "rendezvous.id", "\"abc\"" },
	{ "--standalone --rdzv-id=abc prog", "rendezvous", NULL },
	{ "--standalone --master-port=1 prog", "rendezvous", NULL },
	{ "--rdzv-backend=c10d --rdzv-endpoint=localhost:29400 prog", "rendezvous", NULL },
	{ "--rdzv-backend=c10d --master-port=5 --master-addr=h prog", "rendezvous", NULL },
	{ "--rdzv-backend=etcd-v2 --rdzv-endpoint=e:2379 prog", "rendezvous", NULL },
	{ "--rdzv-backend=direct --rdzv-endpoint=h:0 --local-addr=a prog", "rendezvous",
		"{\"master_addr\":\"a\"}" },
	{ "--rdzv-backend=static --rdzv-endpoint=h:123 prog", "rendezvous",
		"{\"backend\":\"static\",\"master_addr\":\"h\",\"master_port\":123}" },
	{ "--rdzv-endpoint=h prog", "rendezvous",
		"{\"backend\":\"static\",\"master_addr\":\"h\"}" },
	{ "--rdzv-endpoint=[::1]:7 prog", "rendezvous",
		"{\"backend\":\"static\",\"master_addr\":\"::1\",\"master_port\":7}" },
	{ "--rdzv-endpoint=fe80::1 prog", "rendezvous",
		"{\"backend\":\"static\",\"master_addr\":\"fe80::1\"}" },
	{ "--rdzv-endpoint= prog", "rendezvous", NULL },
	{ "--master-port=29500 prog", "rendezvous",
		"{\"backend\":\"static\",\"master_port\":29500}" },
	{ "--master-addr=127.0.0.1 --master-port=1 prog", "rendezvous",
		"{\"backend\":\"static\",\"master_addr\":\"127.0.0.1\",\"master_port\":1}" },
	{ "--local-addr=10.0.0.1 prog", "rendezvous", "{\"master_addr\":\"10.0.0.1\"}" },
	{ "--node-rank=0 prog", "rendezvous", NULL },
	{ "--rdzv-conf=join_timeout=600,last_call_timeout=30 prog", "rendezvous", NULL },
	{ "--rdzv-conf= prog", "rendezvous", NULL },
	{ "--rdzv-conf=lease=x,rank=7 prog", "rendezvous", NULL },
	/* logs */
	{ "--log-dir=/l prog", "logs.dir", "\"/l\"" },
	{ "--log_dir=/dev/null prog", "logs.dir", "\"/dev/null\"" },
	{ "--local-ranks-filter=0,2 prog", "logs.filter", "\"0,2\"" },
	{ "--local-ranks-filter= prog", "logs", NULL },
	{ "--duplicate-stdout-filters=a,b,,c,,,d prog", "logs.duplicate_stdout",
		"[\"a\",\"b,c,\",\"d\"]" },
	{ "--duplicate-stderr-filters=loss prog", "logs.duplicate_stderr", "[\"loss\"]" },
	{ "--prefix=${host}: prog", "logs.prefix", "\"${host}:\"" },
	{ "--merge prog", "logs.merge", "true" },
	{ "--timestamps prog", "logs.timestamps", "true" },
	{ "--max-size=10M prog", "logs.max_size", "\"10M\"" },
	{ "--keep-runs=9 prog", "logs.keep_runs", "9" },
	{ "--keep_days=0 prog", "logs.keep_days", "0" },
	{ "--keep-bytes=1G prog", "logs.keep_bytes", "\"1G\"" },
	/* failures */
	{ "--max-restarts=3 prog", "restart.max", "3" },
	{ "--restart-policy=always prog", "restart.policy", "\"always\"" },
	{ "--backoff=1m prog", "restart.backoff", "\"1m\"" },
	{ "--backoff=0.5 prog", "restart.backoff", "\"500ms\"" },
	{ "--max-run-time=90 prog", "max_run_time", "\"90s\"" },
	{ "--shutdown-timeout=0 prog", "stop.timeout", "\"0\"" },
	{ "--shutdown-timeout=60 prog", "stop.timeout", "\"1m\"" },
	{ "--stop-signal=sigint prog", "stop.signal", "\"INT\"" },
	{ "--signals-to-handle=SIGTERM,SIGUSR1 prog", "stop.forward", "[\"TERM\",\"USR1\"]" },
	{ "--signals-to-handle=SIGTERM,SIGUSR1 prog", "roles.0.env",
		"{\"TORCHELASTIC_SIGNALS_TO_HANDLE\":\"SIGTERM,SIGUSR1\"}" },
	{ "--signals-to-handle= prog", "stop.forward", "[]" },
	/* the rest */
	{ "--virtual-local-rank prog", "compat.virtual_local_rank", "true" },
	{ "--numa_binding core-complex prog", "resources.affinity", "\"core-complex\"" },
	{ "--monitor-interval=0.1 --start-method=fork --event-log-handler=null prog", "restart",
		NULL },
	{ "--name=j prog", "name", "\"j\"" },
	{ "--cwd=/tmp prog", "cwd", "\"/tmp\"" },
	{ "--env A=1 --env=B= --env A=2 prog", "roles.0.env", "{\"A\":\"2\",\"B\":\"\"}" },
	{ "--env=A=b=c^d prog", "roles.0.env", "{\"A\":\"b=c d\"}" },
};

START_TEST(a_flag_has_its_place_in_the_specification)
{
	struct launch l = { 0 };
	struct error err = { 0 };

	if (launch(effects[_i].line, true, &l, &err) < 0)
		ck_abort_msg("%s: %s", effects[_i].line, err.text);
	assert_at(l.spec, effects[_i].path, effects[_i].value);
	ck_assert(!l.dry_run);
	launch_fini(&l);
}
END_TEST

static const struct {
	const char *line;
	const char *error;
} refused[] = {
	{ "--nnodes=2:20:30 p",
		"--nnodes: expected N or MIN:MAX with 0 < MIN <= MAX, got \"2:20:30\"" },
	{ "--nnodes=2:1 p", "--nnodes: expected N or MIN:MAX with 0 < MIN <= MAX, got \"2:1\"" },
	{ "--nnodes=0 p", "--nnodes: expected N or MIN:MAX with 0 < MIN <= MAX, got \"0\"" },
	{ "--nnodes=0:1 p", "--nnodes: expected N or MIN:MAX" },
	{ "--nnodes -1 p", "--nnodes: expected N or MIN:MAX with 0 < MIN <= MAX, got \"-1\"" },
	{ "--nnodes= p", "--nnodes: expected N or MIN:MAX" },
	{ "--nnodes=1: p", "--nnodes: expected N or MIN:MAX" },
	{ "--nnodes=:1 p", "--nnodes: expected N or MIN:MAX" },
	{ "--nnodes=99999999999999999999 p", "--nnodes: expected N or MIN:MAX" },
	{ "--nproc-per-node=0 p",
		"--nproc-per-node: expected a number from 1 to 4096, auto, cpu, gpu or xpu, "
		"got \"0\"" },
	{ "--nproc-per-node=-1 p", "--nproc-per-node: expected" },
	{ "--nproc-per-node=unknown p", "--nproc-per-node: expected" },
	{ "--nproc-per-node=4097 p", "--nproc-per-node: expected" },
	{ "--max-restarts=-1 p", "--max-restarts: expected an integer >= 0, got \"-1\"" },
	{ "--max-restarts=2147483648 p",
		"--max-restarts: expected an integer <= 2147483647, got \"2147483648\"" },
	{ "--keep-days=99999999999999999999 p",
		"--keep-days: expected an integer <= 2147483647, got \"99999999999999999999\"" },
	{ "--max-restarts -1 p", "--max-restarts: expected an integer >= 0, got \"-1\"" },
	{ "--max-restarts=x p", "--max-restarts: expected an integer >= 0, got \"x\"" },
	{ "--shutdown-timeout=-1 p", "--shutdown-timeout: expected a duration" },
	{ "--rdzv-conf=a=1,b p", "--rdzv-conf: expected KEY=VALUE,..., got \"a=1,b\"" },
	{ "--rdzv-conf=a= p", "--rdzv-conf: expected" },
	{ "--rdzv-conf==1 p", "--rdzv-conf: expected" },
	{ "--rdzv-conf=a=1, p", "--rdzv-conf: expected" },
	{ "--rdzv-backend=foo p",
		"--rdzv-backend: expected static, c10d, direct, etcd, etcd-v2 or etcd-v3, got "
		"\"foo\"" },
	{ "--rdzv-endpoint=h:x p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--rdzv-endpoint=:1 p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--rdzv-endpoint=h:65536 p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--rdzv-endpoint=[::1 p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--rdzv-endpoint=[::1]x:1 p", "--rdzv-endpoint: expected HOST or HOST:PORT" },
	{ "--master-port=x p", "--master-port: expected a port from 0 to 65535" },
	{ "--master-port=65536 p", "--master-port: expected a port" },
	{ "--node-rank=1 p", "--node-rank: expected 0, as there is one host, got \"1\"" },
	{ "-r 4 p", "--redirects: expected 0, 1 (stdout), 2 (stderr), 3 (both)" },
	{ "-r 11 p", "--redirects: expected" },
	{ "-r 0:1, p", "--redirects: expected" },
	{ "-r 0:1,1 p", "--redirects: expected" },
	{ "-r 1,0:1 p", "--redirects: expected" },
	{ "--tee=x p", "--tee: expected" },
	{ "--local-ranks-filter=a p", "--local-ranks-filter: expected a set of ranks" },
	{ "--monitor-interval=x p", "--monitor-interval: expected a number of seconds" },
	{ "--start-method=thread p", "--start-method: expected spawn, fork or forkserver" },
	{ "--logs-specs=x p", "--logs-specs: plug-ins in Python are not loaded" },
	{ "--numa-binding=none p",
		"--numa-binding: expected node, socket, exclusive or core-complex" },
	{ "--stop-signal=FOO p", "--stop-signal: expected a signal" },
	{ "--backoff=x p", "--backoff: expected a duration" },
	{ "--max-size=1MB p", "--max-size: \"1MB\" is ambiguous" },
	{ "--restart-policy=x p",
		"--restart-policy: expected \"on-failure\", \"always\" or \"never\"" },
	{ "--name=a/b p", "--name: a job's name is" },
	{ "--role=a:b p", "--role: expected a role's name" },
	{ "--prefix=${x} p", "--prefix: expected the variables" },
	{ "--env==x p", "--env: expected NAME or NAME=VALUE" },
	{ "--env=SURELY_NOT_SET_HERE p", "--env: SURELY_NOT_SET_HERE is not set here" },
	{ "--cwd= p", "--cwd: expected a directory" },
	{ "-m --no-python p", "--module and --no-python exclude each other" },
	{ "--surely-not-a-flag p", "unknown option \"--surely-not-a-flag\"" },
	{ "--surely_not=1 p", "unknown option \"--surely_not=1\"" },
	{ "-z p", "unknown option -z" },
	{ "--duplicate p", "option \"--duplicate\" could be any of --duplicate-stdout-filters, "
			   "--duplicate-stderr-filters" },
	{ "--standalone=1 p", "--standalone takes no value" },
	{ "--nnodes", "--nnodes: expected a value (N|MIN:MAX|auto)" },
	{ "-r", "--redirects: expected a value" },
	{ "--name --nnodes=1 p", "--name: expected a value (NAME), got the option \"--nnodes=1\"" },
	{ "--nproc-per-node=2", "expected a program to run, or --spec FILE" },
	{ "", "expected a program to run, or --spec FILE" },
	{ "p \xff", "argument 1 of the program: expected text in UTF-8" },
	{ "\xff", "the program's name: expected text in UTF-8" },
	{ "--name=\xff p", "--name: expected text in UTF-8" },
	{ "--master-addr=\xff p", "--master-addr: expected text in UTF-8" },
};

START_TEST(bad_values_are_refused_in_a_line_that_names_the_flag)
{
	struct launch l = { .spec = (void *)1 };
	struct error err = { 0 };

	ck_assert_int_lt(launch(refused[_i].line, true, &l, &err), 0);
	ck_assert_ptr_eq(l.spec, (void *)1);
	if (strncmp(err.text, refused[_i].error, strlen(refused[_i].error)))
		ck_abort_msg("%s: %s", refused[_i].line, err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

static const struct {
	const char *name, *value;
	const char *line;
	const char *path;
	const char *json;
} variables[] = {
	{ "PET_NPROC_PER_NODE", "3", "p", "roles.0.replicas", "3" },
	{ "PET_NPROC_PER_NODE", "3", "--nproc-per-node=1 p", "roles.0.replicas", "1" },
	{ "PET_NPROC_PER_NODE", "", "p", "roles.0.replicas", NULL },
	{ "PET_NNODES", "1:1", "p", "rendezvous.nodes", "\"1:1\"" },
	{ "PET_MAX_RESTARTS", "2", "p", "restart.max", "2" },
	{ "PET_REDIRECTS", "3", "p", "logs.redirects", "\"3\"" },
	{ "PET_TEE", "0:1", "p", "logs.tee", "\"0:1\"" },
	{ "PET_LOG_DIR", "/l", "p", "logs.dir", "\"/l\"" },
	{ "PET_ROLE", "tr", "p", "roles.0.name", "\"tr\"" },
	{ "PET_RDZV_ID", "by-env", "p", "rendezvous.id", "\"by-env\"" },
	{ "PET_RDZV_ID", "by-env", "--rdzv-id=by-flag p", "rendezvous.id", "\"by-flag\"" },
	{ "PET_STANDALONE", "1", "--rdzv-id=x p", "rendezvous", NULL },
	{ "PET_STANDALONE", "0", "--rdzv-id=x p", "rendezvous.id", "\"x\"" },
	{ "PET_STANDALONE", "00", "--standalone --rdzv-id=x p", "rendezvous", NULL },
	{ "PET_NO_PYTHON", "1", "t.py", "roles.0.command", "[\"t.py\"]" },
	{ "PET_NO_PYTHON", "0", "t.py", "roles.0.command", "[\"python3\",\"-u\",\"t.py\"]" },
	{ "PET_MODULE", "2", "t", "roles.0.command", "[\"python3\",\"-u\",\"-m\",\"t\"]" },
	{ "PET_SHUTDOWN_TIMEOUT", "5", "p", "stop.timeout", "\"5s\"" },
	{ "PET_VIRTUAL_LOCAL_RANK", "1", "p", "compat.virtual_local_rank", "true" },
	{ "PET_NAME", "x", "p", "name", NULL },
	{ "PET_SPEC", "x", "p", "name", NULL },
	{ "PET_LOGS_SPECS", "x", "p", "name", NULL },
	{ "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7", "p", "stop.timeout", "\"7s\"" },
	{ "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7", "--shutdown-timeout=8 p", "stop.timeout",
		"\"8s\"" },
	{ "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "", "p", "stop", NULL },
	{ "PYTHON_EXEC", "/opt/py", "t.py", "roles.0.command", "[\"/opt/py\",\"-u\",\"t.py\"]" },
	{ "PYTHON_EXEC", "", "t.py", "roles.0.command", "[\"python3\",\"-u\",\"t.py\"]" },
	{ "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${role_name}|$rank|${local_rank}]: ", "p",
		"logs.prefix", "\"[${role_name}|$rank|${local_rank}]: \"" },
	{ "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "$rank_x $$ $ ${foo} ${rank $ ${index}", "p",
		"logs.prefix", "\"$rank_x $$ $ $${foo} $${rank $ ${index}\"" },
	{ "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x", "--prefix=y p", "logs.prefix", "\"y\"" },
	{ "FOO_BAR", "7", "--env=FOO_BAR p", "roles.0.env", "{\"FOO_BAR\":\"7\"}" },
};

START_TEST(the_environment_stands_in_for_flags)
{
	struct launch l = { 0 };
	struct error err = { 0 };

	setenv(variables[_i].name, variables[_i].value, 1);
	if (launch(variables[_i].line, true, &l, &err) < 0)
		ck_abort_msg("%s=%s %s: %s", variables[_i].name, variables[_i].value,
			variables[_i].line, err.text);
	assert_at(l.spec, variables[_i].path, variables[_i].json);
	launch_fini(&l);
}
END_TEST

static const struct {
	const char *name, *value, *error;
} bad_variables[] = {
	{ "PET_NNODES", "2:1", "PET_NNODES: expected N or MIN:MAX" },
	{ "PET_STANDALONE", "yes", "PET_STANDALONE: expected 0 or 1, got \"yes\"" },
	{ "PET_MAX_RESTARTS", "x", "PET_MAX_RESTARTS: expected an integer >= 0" },
	{ "PET_REDIRECTS", "4", "PET_REDIRECTS: expected 0" },
	{ "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "-1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: expected" },
};

START_TEST(a_bad_variable_is_refused_by_its_name)
{
	struct launch l;
	struct error err = { 0 };

	setenv(bad_variables[_i].name, bad_variables[_i].value, 1);
	ck_assert_int_lt(launch("p", true, &l, &err), 0);
	if (strncmp(err.text, bad_variables[_i].error, strlen(bad_variables[_i].error)))
		ck_abort_msg("%s", err.text);
}
END_TEST

START_TEST(several_workers_get_one_thread_each_unless_the_caller_sets_it)
{
	struct launch l = { 0 };

	ck_assert_int_eq(launch("--nproc-per-node=4 p", true, &l, NULL), 0);
	assert_at(l.spec, "roles.0.env.OMP_NUM_THREADS", "\"1\"");
	ck_assert_ptr_nonnull(
		strstr(l.warnings[0], "each of the 4 workers gets OMP_NUM_THREADS=1"));
	ck_assert_ptr_null(l.warnings[1]);
	launch_fini(&l);

	ck_assert_int_eq(launch("p", true, &l, NULL), 0);
	assert_at(l.spec, "roles.0.env", NULL);
	ck_assert_ptr_null(l.warnings);
	launch_fini(&l);

	ck_assert_int_eq(launch("--nproc-per-node=4 --env OMP_NUM_THREADS=3 p", true, &l, NULL), 0);
	assert_at(l.spec, "roles.0.env.OMP_NUM_THREADS", "\"3\"");
	ck_assert_ptr_null(l.warnings);
	launch_fini(&l);

	setenv("OMP_NUM_THREADS", "6", 1);
	ck_assert_int_eq(launch("--nproc-per-node=4 p", true, &l, NULL), 0);
	assert_at(l.spec, "roles.0.env", NULL);
	launch_fini(&l);

	/* Under the daemon the caller's variable would not be inherited. */
	ck_assert_int_eq(launch("--nproc-per-node=4 p", false, &l, NULL), 0);
	assert_at(l.spec, "roles.0.env.OMP_NUM_THREADS", "\"6\"");
	ck_assert_ptr_null(l.warnings);
	launch_fini(&l);
}
END_TEST

START_TEST(a_signal_that_is_none_is_passed_over_with_a_warning)
{
	struct launch l = { 0 };

	ck_assert_int_eq(
		launch("--signals-to-handle=SIGTERM,SIGFOO,SIGKILL,^SIGUSR2^ p", true, &l, NULL),
		0);
	assert_at(l.spec, "stop.forward", "[\"TERM\",\"USR2\"]");
	ck_assert_str_eq(
		l.warnings[0], "--signals-to-handle: SIGFOO is no signal that can be handled");
	ck_assert_str_eq(
		l.warnings[1], "--signals-to-handle: SIGKILL is no signal that can be handled");
	ck_assert_ptr_null(l.warnings[2]);
	launch_fini(&l);
}
END_TEST

START_TEST(options_of_the_verb_are_handed_on_and_may_be_cut_as_well)
{
	struct launch l = { 0 };

	ck_assert_int_eq(
		launch("--json -q --nnodes=1 --socket /s -fr3 --fol p --json", true, &l, NULL), 0);
	ck_assert_str_eq(collected, "json=;quiet=;socket=/s;follow=;follow=;");
	assert_at(l.spec, "logs.redirects", "\"3\"");
	assert_at(l.spec, "roles.0.command", "[\"p\",\"--json\"]");
	launch_fini(&l);

	ck_assert_int_eq(launch("--nnodes=2:1 -h --surely-not", true, &l, NULL), 1);
	ck_assert_str_eq(collected, "help=;");
}
END_TEST

START_TEST(a_dry_run_is_reported_to_the_caller)
{
	struct launch l = { 0 };

	ck_assert_int_eq(launch("--dry-run p", true, &l, NULL), 0);
	ck_assert(l.dry_run);
	launch_fini(&l);
}
END_TEST

START_TEST(a_job_of_the_daemon_gets_directory_and_path_of_its_program)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0), *quoted = NULL, *found = NULL;
	struct launch l = { 0 };

	ck_assert_int_gt(asprintf(&quoted, "\"%s\"", cwd), 0);
	ck_assert_int_gt(asprintf(&found, "[\"%s/bin/tool\",\"x\"]", cwd), 0);
	mkdir("bin", 0755);
	write_file("bin/tool", "");
	chmod("bin/tool", 0755);
	{
		_cleanup_free_ char *path = NULL;

		ck_assert_int_gt(asprintf(&path, "/no/where::relative:%s/bin:/bin", cwd), 0);
		setenv("PATH", path, 1);
	}
	ck_assert_int_eq(launch("tool x", false, &l, NULL), 0);
	assert_at(l.spec, "cwd", quoted);
	assert_at(l.spec, "inherit_env", NULL);
	assert_at(l.spec, "roles.0.command", found);
	launch_fini(&l);

	ck_assert_int_eq(launch("tool x", true, &l, NULL), 0);
	assert_at(l.spec, "roles.0.command", "[\"tool\",\"x\"]");
	launch_fini(&l);

	ck_assert_int_eq(launch("surely-no-program ./a", false, &l, NULL), 0);
	assert_at(l.spec, "roles.0.command", "[\"surely-no-program\",\"./a\"]");
	launch_fini(&l);

	ck_assert_int_eq(launch("--cwd=/ ./a", false, &l, NULL), 0);
	assert_at(l.spec, "cwd", "\"/\"");
	assert_at(l.spec, "roles.0.command", "[\"./a\"]");
	launch_fini(&l);
}
END_TEST

START_TEST(relative_paths_of_flags_are_those_of_the_caller)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0), *logs = NULL, *here = NULL;
	struct launch l = { 0 };

	ck_assert_int_gt(asprintf(&logs, "\"%s/a/b\"", cwd), 0);
	ck_assert_int_gt(asprintf(&here, "\"%s\"", cwd), 0);
	ck_assert_int_eq(launch("--log-dir=a/b --cwd=. p", true, &l, NULL), 0);
	assert_at(l.spec, "logs.dir", logs);
	assert_at(l.spec, "cwd", here);
	launch_fini(&l);
}
END_TEST

static const char job[] =
	"{ \"name\": \"from-file\", \"cwd\": \"work\",\n"
	"  \"roles\": [ { \"name\": \"tr\", \"replicas\": 2, \"command\": [\"a\"],\n"
	"    \"cwd\": \"./x\", \"env\": {\"A\": \"1\"} } ],\n"
	"  \"logs\": { \"dir\": \"/l\", \"redirects\": 3 } }\n";

START_TEST(flags_override_a_job_file_and_its_paths_are_beside_it)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0), *work = NULL, *x = NULL;
	struct launch l = { 0 };

	mkdir("jobs", 0755);
	write_file("jobs/j.json", job);
	ck_assert_int_gt(asprintf(&work, "\"%s/jobs/work\"", cwd), 0);
	ck_assert_int_gt(asprintf(&x, "\"%s/jobs/x\"", cwd), 0);

	ck_assert_int_eq(launch("--spec=jobs/j.json", true, &l, NULL), 0);
	assert_at(l.spec, "name", "\"from-file\"");
	assert_at(l.spec, "cwd", work);
	assert_at(l.spec, "roles.0.cwd", x);
	assert_at(l.spec, "roles.0.env", "{\"A\":\"1\"}");
	assert_at(l.spec, "roles.0.replicas", "2");
	assert_at(l.spec, "inherit_env", "true");
	ck_assert_ptr_null(l.warnings);
	launch_fini(&l);

	ck_assert_int_eq(
		launch("--spec jobs/j.json --nproc-per-node=3 -t 1 --env B=2 --name=n --role=r "
		       "t.py z",
			true, &l, NULL),
		0);
	assert_at(l.spec, "name", "\"n\"");
	assert_at(l.spec, "roles.0.name", "\"r\"");
	assert_at(l.spec, "roles.0.env", "{\"A\":\"1\",\"B\":\"2\"}");
	assert_at(l.spec, "roles.0.replicas", "3");
	assert_at(l.spec, "roles.0.command", "[\"python3\",\"-u\",\"t.py\",\"z\"]");
	assert_at(l.spec, "logs", "{\"dir\":\"/l\",\"redirects\":3,\"tee\":\"1\"}");
	launch_fini(&l);
}
END_TEST

START_TEST(a_job_file_may_keep_the_environment_out)
{
	struct launch l = { 0 };

	write_file("j.json", "{\"inherit_env\":false,\"roles\":[{\"command\":[\"a\"]}]}");
	ck_assert_int_eq(launch("--spec=j.json", true, &l, NULL), 0);
	assert_at(l.spec, "inherit_env", "false");
	launch_fini(&l);
}
END_TEST

START_TEST(a_flag_for_one_role_is_refused_beside_a_job_file_with_several)
{
	struct launch l = { 0 };
	struct error err = { 0 };

	write_file("j.json", "{\"roles\":[{\"name\":\"a\",\"command\":[\"a\"]},"
			     "{\"name\":\"b\",\"command\":[\"b\"],\"env\":{\"X\":1}}]}");
	ck_assert_int_lt(launch("--spec=j.json --nproc-per-node=2", true, &l, &err), 0);
	ck_assert_str_eq(err.text, "--nproc-per-node: the job file has 2 roles: change it there");
	ck_assert_int_lt(launch("--spec=j.json prog", true, &l, &err), 0);
	ck_assert_int_eq(launch("--spec=j.json --env Y=2", true, &l, &err), 0);
	assert_at(l.spec, "roles.0.env", "{\"Y\":\"2\"}");
	assert_at(l.spec, "roles.1.env", "{\"X\":1,\"Y\":\"2\"}");
	launch_fini(&l);
}
END_TEST

START_TEST(a_wrong_job_file_is_refused_with_its_name_and_the_path_of_the_key)
{
	static const char text[] = "roles[0].restarts: unknown key, did you mean `restart`?";
	struct launch l;

	write_file("j.json", "{\"roles\":[{\"command\":[\"a\"],\"restarts\":{}}]}");
	ck_assert_int_eq(launch("--spec=j.json --name=x", true, &l, NULL), -EBADMSG);
	ck_assert_int_eq(strncmp(l.problems[0], "j.json:", 7), 0);
	ck_assert_str_eq(l.problems[0] + strlen(l.problems[0]) - strlen(text), text);
	ck_assert_ptr_null(l.problems[1]);
	launch_fini(&l);
	ck_assert_int_eq(launch("--spec=/no/such/file", true, &l, NULL), -EBADMSG);
	ck_assert_str_eq(l.problems[0], "/no/such/file: No such file or directory");
	launch_fini(&l);
}
END_TEST

/* A specification that is printed (--dry-run) and read again is the same. */
START_TEST(the_specification_with_defaults_is_one_that_parses)
{
	struct launch l = { 0 };
	_cleanup_(spec_freep) struct spec *s = NULL, *back = NULL;
	_cleanup_json_ json_t *full = NULL, *again = NULL;

	ck_assert_int_eq(
		launch("--nproc-per-node=2 --max-restarts=1 -r 3 -t 0:1 --log-dir=/l "
		       "--signals-to-handle=SIGUSR1 --stop-signal=INT --backoff=1 --env A=1 p q",
			true, &l, NULL),
		0);
	ck_assert_int_eq(spec_parse(l.spec, &s, NULL), 0);
	full = spec_to_json(s);
	ck_assert_int_eq(spec_parse(full, &back, NULL), 0);
	again = spec_to_json(back);
	ck_assert(json_equal(full, again));
	launch_fini(&l);
}
END_TEST

START_TEST(every_flag_is_in_the_help_and_none_clashes)
{
	_cleanup_free_ char *help = NULL;
	size_t size;
	FILE *f = open_memstream(&help, &size);

	launch_print_options(f);
	fclose(f);
	for (const struct arg_option *o = launch_options; o->name; o++) {
		char text[64], pet[LAUNCH_PET_MAX];

		snprintf(text, sizeof(text), "--%s", o->name);
		if (launch_rows[o - launch_options].group != GROUP_REFUSED)
			ck_assert_msg(strstr(help, text) != NULL, "%s", text);
		for (const struct arg_option *p = launch_options; p < o; p++) {
			ck_assert_str_ne(o->name, p->name);
			ck_assert(!o->letter || o->letter != p->letter);
		}
		if (launch_pet_name(o, pet))
			ck_assert_int_eq(strncmp(pet, "PET_", 4), 0);
	}
	for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert_msg(strlen(line) <= 100, "%s", line);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("launch");
	TCase *t = tcase_create("launch");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_flag_has_its_place_in_the_specification, 0, N(effects));
	tcase_add_loop_test(t, bad_values_are_refused_in_a_line_that_names_the_flag, 0, N(refused));
	tcase_add_loop_test(t, the_environment_stands_in_for_flags, 0, N(variables));
	tcase_add_loop_test(t, a_bad_variable_is_refused_by_its_name, 0, N(bad_variables));
	tcase_add_test(t, several_workers_get_one_thread_each_unless_the_caller_sets_it);
	tcase_add_test(t, a_signal_that_is_none_is_passed_over_with_a_warning);
	tcase_add_test(t, options_of_the_verb_are_handed_on_and_may_be_cut_as_well);
	tcase_add_test(t, a_dry_run_is_reported_to_the_caller);
	tcase_add_test(t, a_job_of_the_daemon_gets_directory_and_path_of_its_program);
	tcase_add_test(t, relative_paths_of_flags_are_those_of_the_caller);
	tcase_add_test(t, flags_override_a_job_file_and_its_paths_are_beside_it);
	tcase_add_test(t, a_job_file_may_keep_the_environment_out);
	tcase_add_test(t, a_flag_for_one_role_is_refused_beside_a_job_file_with_several);
	tcase_add_test(t, a_wrong_job_file_is_refused_with_its_name_and_the_path_of_the_key);
	tcase_add_test(t, the_specification_with_defaults_is_one_that_parses);
	tcase_add_test(t, every_flag_is_in_the_help_and_none_clashes);
	suite_add_tcase(s, t);
	return suite_run(s);
}
