/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One row for each key of the specification: values that are right, values that are wrong in a way
 * of their own, and which of the values that are wrong for most keys (see generic[] in test_spec.c)
 * are right for this one. A key without a row fails the test.
 */

struct spec_row {
	const char *path;
	const char *good; /* a JSON array */
	const char *bad;  /* a JSON array */
	const char *also; /* which of generic[] are accepted, by letter */
};

static const struct spec_row rows[] = {
	{ "name",
		"['a','job-1','A.b_c','0123456789012345678901234567890123456789012345678901234567890123']",
		"['','.a','-a','a/b','a b','a.latest','.latest','é',"
		"'01234567890123456789012345678901234567890123456789012345678901234']",
		"s" },
	{ "max_run_time", "['1ms','30s','1h30m','7d']",
		"[0,'0','0s','30','1x','-1s','',30,'99999999d']", "" },
	{ "cwd", "['/','/tmp','/a b/ü']", "['','.','tmp','./x']", "" },
	{ "umask", "['0','022','777','0027','007']",
		"['','8','1000','0x1','22 ','-1','00022',22,0]", "" },
	{ "user", "['root','alice']", "['']", "s" },
	{ "inherit_env", "[true,false]", "['true',0,1]", "t" },
	{ "roles",
		"[[{'command':['a']}],[{'name':'a','command':['a']},{'name':'b','command':['a','']}]]",
		"[[],[1],['a'],[[]],[{}],[null],[{'command':['a']},{'command':['a']}]]", "" },
	{ "roles[].name", "['worker','a','ps.0','A_b-c','7']", "['','a/b','a:b','a b','ä']", "s" },
	{ "roles[].replicas", "[1,2,4096,'auto','cpu','gpu']",
		"[0,-1,4097,'','AUTO','4','unknown',99999999999]", "" },
	{ "roles[].command", "[['a'],['a',''],['/bin/sh','-c','echo \\u00fc $$']]",
		"['a',[''],[1],[null],[['a']],['a',1],['a',{}],['a',true]]", "" },
	{ "roles[].args", "[[[]],[['a','']],[['${local_rank}']]]",
		"[['a'],[[1]],[[],[]],[[['a']]],[null],{'0':['a']}]", "a" },
	{ "roles[].env", "[{'A':'1'},{'A':1,'B':-0.5,'C':true,'D':false,'E':''},{'a b':'x=y'}]",
		"[{'':'x'},{'A=B':'x'},{'A':null},{'A':[]},{'A':{}},['A=1'],'A=1']", "o" },
	{ "roles[].env_per_replica", "[[{}],[{'A':'1'}]]", "[{},['A=1'],[{'A':null}],[{},{}],[[]]]",
		"a" },
	{ "roles[].cwd", "['/','/tmp']", "['','tmp']", "" },
	{ "roles[].limits",
		"[{'nofile':1024},{'core':'unlimited'},{'memlock':'64K:1G','stack':'8M:unlimited'},{'as':0},"
		"{'nproc':'10:20','nice':0,'rtprio':1,'cpu':1,'data':1,'fsize':1,'locks':1,'msgqueue':1,"
		"'rss':1,'rttime':1,'sigpending':1}]",
		"[{'nofiles':1},{'nofile':-1},{'nofile':''},{'nofile':'x'},{'nofile':':1'},{'nofile':'1:'},"
		"{'nofile':'20:10'},{'nofile':'unlimited:1'},{'nofile':'1:2:3'},{'nofile':null},"
		"{'nofile':1.5},{'NOFILE':1}]",
		"o" },
	{ "logs", "[{}]", "[{'x':1}]", "o" },
	{ "logs.dir", "['/dev/null','/var/log/x']", "['','log']", "" },
	{ "logs.redirects", "[0,1,2,3,'0','3','0:1','0:1,1:1','0:3,12:1']",
		"[-1,4,11,'11','0:1,','0:1,1','1,0:1','4','','0:4','0:1,0:2']", "" },
	{ "logs.tee", "[0,3,'2','100:3']", "[4,'0:1,','x']", "" },
	{ "logs.filter", "['0',0,7,'0,3-7',[0],[3,1,2],'1048576']",
		"['','a','-1','7-3',[],[-1],['0'],[1.5],[1048577],1048577]", "" },
	{ "logs.prefix", "['','[${role}${local_rank}]: ','${host} ${rank} $ $x ']",
		"['${rnk}','${','${rank','${}','x ${RANK} ']", "s" },
	{ "logs.duplicate_stdout", "[['loss'],['a,b','c']]", "['loss',[''],[1],[['a']]]", "a" },
	{ "logs.duplicate_stderr", "[['Error']]", "['Error',['']]", "a" },
	{ "logs.merge", "[true,false]", "['yes',1]", "t" },
	{ "logs.timestamps", "[true,false]", "['yes',0]", "t" },
	{ "logs.max_size", "[0,4096,'10M','1GiB','512']", "[-1,'10MB','1.5G','','8E']", "" },
	{ "logs.keep", "[0,5,1000]", "[-1,1001,'5',1.5]", "" },
	{ "restart", "[{}]", "[{'x':1}]", "o" },
	{ "restart.policy", "['on-failure','always','never']", "['','on_failure','Always',0]", "" },
	{ "restart.scope", "['group']", "['task','',1]", "" },
	{ "restart.max", "[0,1,2147483647]", "[-1,2147483648,'x','1',1.5]", "" },
	{ "restart.window", "['1ms','1h']", "[0,'0s',60,'']", "" },
	{ "restart.window_max", "[1,3]", "[0,-1,'3']", "" },
	{ "restart.backoff", "[0,'0','1s','500ms']", "[1,'1','-1s','']", "" },
	{ "restart.backoff_max", "[0,'1m']", "[60,'']", "" },
	{ "restart.healthy_after", "[0,'10m']", "[600,'']", "" },
	{ "restart.codes",
		"[{'1':'free'},{'42':'count'},{'SEGV':'fatal','SIGKILL':'count','255':'free'},"
		"{'RTMIN+3':'fatal','42':'fatal'}]",
		"[{'0':'free'},{'256':'free'},{'-1':'free'},{'1':'Free'},{'1':1},{'FOO':'free'},{'':'free'},"
		"{'SEGV':'free','SIGSEGV':'fatal'},{'42':'free','042':'free'},{'1':null},{'1':{}}]",
		"o" },
	{ "stop", "[{}]", "[{'x':1}]", "o" },
	{ "stop.signal", "['TERM','SIGUSR1','RTMIN+3',15,'15','KILL']",
		"[0,65,-1,'','FOO','TERMX']", "" },
	{ "stop.whom", "['group','main','all']", "['','tree',1]", "" },
	{ "stop.timeout", "[0,'0s','30s']", "[30,'-1s']", "" },
	{ "stop.dump_signal", "['QUIT','ABRT',3]", "[0,'']", "" },
	{ "stop.forward", "[['TERM'],['SIGUSR1',12,'RTMIN']]",
		"['TERM',['FOO'],['KILL'],['STOP'],['CHLD'],[null]]", "a" },
	{ "resources", "[{}]", "[{'x':1}]", "o" },
	{ "resources.memory_max", "[1,'512M','2T']", "[0,'0',-1,'1.5G','']", "" },
	{ "resources.cpu_weight", "[1,100,10000]", "[0,10001,'100']", "" },
	{ "resources.tasks_max", "[1,9223372036854775807]", "[0,-1,'1']", "" },
	{ "rendezvous", "[{}]", "[{'endpoints':[]}]", "o" },
	{ "rendezvous.backend", "['local','static']", "['etcd','c10d','']", "" },
	{ "rendezvous.id", "['none','run 7']", "['']", "s" },
	{ "rendezvous.master_addr", "['127.0.0.1','::1','host']", "['']", "s" },
	{ "rendezvous.master_port", "[0,29500,65535]", "[-1,65536,'29500']", "" },
	{ "rendezvous.nodes", "['1','1:1',1]", "['2','1:2','0','',2,'1:1:1']", "" },
	{ "compat", "[{}]", "[{'tf_config':true}]", "o" },
	{ "compat.torch", "[true,false]", "[1,'true']", "t" },
	{ "compat.virtual_local_rank", "[true,false]", "[1]", "t" },
};
