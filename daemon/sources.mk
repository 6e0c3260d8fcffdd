# SPDX-License-Identifier: Apache-2.0
daemon_SRC := \
	daemon/access.c \
	daemon/agent_call.c \
	daemon/agentproc.c \
	daemon/cgroupfs.c \
	daemon/child.c \
	daemon/config.c \
	daemon/daemon.c \
	daemon/feed.c \
	daemon/files.c \
	daemon/job.c \
	daemon/job_agent.c \
	daemon/joblink.c \
	daemon/leave.c \
	daemon/life.c \
	daemon/methods.c \
	daemon/mirror.c \
	daemon/notify.c \
	daemon/queue_relay.c \
	daemon/record.c \
	daemon/registry.c \
	daemon/relay.c \
	daemon/remove.c \
	daemon/scope.c \
	daemon/setup.c \
	daemon/start.c \
	daemon/sweeper.c \
	daemon/appear.c \
	daemon/bus.c \
	daemon/goingdown.c \
	daemon/inhibit.c \
	daemon/listener.c \
	daemon/notices.c \
	daemon/preempt_call.c \
	daemon/telling.c \
	daemon/resume.c \
	daemon/wait.c
