# SPDX-License-Identifier: Apache-2.0
client_SRC := \
	client/launch.c \
	client/launch_apply.c \
	client/launch_command.c \
	client/launch_options.c \
	client/launch_set.c \
	client/verbs.c \
	client/follow.c \
	client/export.c \
	client/completion.c \
	client/cmd_validate.c \
	client/cmd_start.c \
	client/cmd_help.c \
	client/yaml.c \
	client/yaml_scalar.c \
	client/address.c \
	client/args.c \
	client/cmd_admin.c \
	client/cmd_control.c \
	client/cmd_errors.c \
	client/cmd_list.c \
	client/cmd_logs.c \
	client/cmd_status.c \
	client/cmd_tasks.c \
	client/cmd_attach.c \
	client/foreground.c \
	client/cmd_platform.c \
	client/cmd_preempt.c \
	client/preemption.c \
	client/cmd_wait.c \
	client/color.c \
	client/ctl.c \
	client/humane.c \
	client/job.c \
	client/line_printer.c \
	client/link.c \
	client/table.c
