# SPDX-License-Identifier: Apache-2.0
# Names of unit tests: tests/unit/test_<name>.c, each a Check program.
unit_TESTS := \
	budget \
	http \
	notice \
	notice_command \
	noticer \
	platform \
	printable \
	kv_nomem \
	kv_mirror \
	memory_file \
	key_mirror \
	store_model \
	kv \
	store \
	elasticd_queue \
	elasticd_queue_local \
	elasticd_work \
	elasticd_open \
	elasticd_local \
	elasticd_waits \
	elasticd_share \
	elasticd_share_waits \
	elasticd_nowait \
	elasticd_nowait_ends \
	elasticd_mirror \
	elasticd_calls \
	elasticd_packed \
	elasticd_pipeline \
	elasticd_preempt \
	elasticd_alone \
	worker_preempt \
	tree \
	cgroup \
	clock \
	console \
	lines \
	log_drain \
	log_file \
	log_fs \
	keep \
	safe_open \
	log_index \
	log_match \
	log_pipe \
	log_plan \
	log_prune \
	log_reader \
	logs \
	log_watch \
	prefix \
	tee \
	port \
	barrier \
	barrier_model \
	heartbeat \
	members \
	members_model \
	access \
	config \
	daemon \
	daemon_job \
	inhibit \
	telling \
	paths \
	private_dir \
	stdfds \
	payload \
	progress_line \
	record \
	proc \
	sweep \
	sweeper \
	devices \
	env \
	environ \
	errorfile \
	events \
	failure \
	failure_list \
	last_error \
	state_file \
	verdict \
	group \
	hang \
	preempt \
	preempt_grace \
	preempt_model \
	preempt_nomem \
	preempt_pace \
	queue \
	queue_model \
	queue_nomem \
	queue_loss \
	queue_workers \
	queue_deaths \
	progress \
	restart \
	rootcause \
	spawn \
	task \
	spec \
	spec_preemption \
	spec_queue \
	spec_roles \
	launch \
	yaml \
	loop \
	json \
	judgement \
	file \
	varlink_frame \
	varlink_idl \
	varlink_validate \
	journal \
	varlink_also \
	varlink_server \
	varlink_flat \
	varlink_flush \
	varlink_listen \
	varlink_limits \
	varlink_client \
	varlink_descriptors \
	varlink_word \
	ring \
	ring_waits \
	varlink_ring \
	varlink_ring_end \
	varlink_ring_waits \
	base64 \
	duration \
	ranks \
	signals \
	size \
	stdmap \
	address \
	job_names \
	similar \
	spec_all \
	job_file \
	completion \
	export \
	line_printer \
	verbs \
	humane \
	table \
	report
# Those of them whose tests leave nothing behind in their process: no child, thread or signal.
pure_TESTS := \
	budget \
	notice notice_command noticer platform kv kv_nomem store store_model heartbeat members \
	members_model barrier barrier_model log_plan log_index lines prefix record devices env \
	environ errorfile failure failure_list hang preempt preempt_grace preempt_model \
	preempt_nomem verdict \
	preempt_pace queue queue_deaths queue_loss queue_model queue_nomem queue_workers \
	progress restart rootcause task spec spec_all spec_preemption spec_queue spec_roles \
	launch yaml json judgement varlink_frame varlink_idl varlink_validate varlink_word base64 \
	duration ranks signals size stdmap \
	address job_names similar completion export line_printer verbs humane table report config \
	access clock
# End-to-end files that abuse, stress or parse, tests/e2e/test_<name>.py: CI runs them under
# sanitizers, too.
abuse_E2E := churn errors heartbeat kv_pipeline limits log_files logs preempt_stress protocol \
	queue_abuse queue_deaths queue_durable queue_stress results share survival teardown \
	validate worker_abuse worker_limits
# Helper programs for the end-to-end tests, without the .c
tool_PROGRAMS := \
	tests/tools/libworker \
	tests/tools/drudge \
	tests/tools/queueworker \
	tests/tools/racer \
	tests/tools/puppet \
	bench/mortal \
	bench/preempt \
	bench/sharing \
	bench/work_queue \
	bench/spawn_loop \
	bench/status_client \
	bench/writer
# Those of them that use the library for workers
library_TOOLS := tests/tools/drudge tests/tools/libworker tests/tools/queueworker \
	tests/tools/racer bench/preempt \
	bench/sharing bench/work_queue
# libFuzzer targets: tests/fuzz/fuzz_<name>.c with seeds in tests/fuzz/corpus/<name>/
fuzz_TARGETS := errorfile frame idl journal record spec yaml worker
