# SPDX-License-Identifier: Apache-2.0
daemon_SRC := \
	daemon/access.c \
	daemon/agentproc.c \
	daemon/cgroupfs.c \
	daemon/child.c \
	daemon/config.c \
	daemon/files.c \
	daemon/job.c \
	daemon/job_agent.c \
	daemon/joblink.c \
	daemon/life.c \
	daemon/mirror.c \
	daemon/record.c \
	daemon/registry.c \
	daemon/scope.c
