# SPDX-License-Identifier: Apache-2.0
agent_SRC := \
	agent/agent.c \
	agent/cgroup.c \
	agent/env.c \
	agent/errorfile.c \
	agent/events.c \
	agent/failure.c \
	agent/group.c \
	agent/guard.c \
	agent/launch.c \
	agent/log_call.c \
	agent/methods.c \
	agent/outcome.c \
	agent/port.c \
	agent/reap.c \
	agent/record.c \
	agent/restart.c \
	agent/rootcause.c \
	agent/serve.c \
	agent/signals.c \
	agent/spawn.c \
	agent/stop.c \
	agent/task.c \
	agent/tree.c \
	agent/view.c
