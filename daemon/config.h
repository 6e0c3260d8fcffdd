/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * elasticd.conf(5): an INI file, then the files of <name>.d/ whose names end in .conf, in the order
 * of their names; what is read later wins. A section or key that nobody knows is an error that
 * names the file and the line.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

struct config {
	int socket_mode;     /* -1: 0666 for the system's daemon, 0600 for a user's */
	char *admin_group;   /* likewise */
	char **allow_groups; /* NULL-ended or NULL; with allow_users: nobody else may call */
	char **allow_users;
	char *log_dir; /* NULL: the default */
	int log_level; /* -1: not given */
	bool scopes;   /* a systemd scope or a cgroup for each job, where that is possible */
	char *slice;   /* of scopes */

	int keep_runs, keep_days; /* of each user's ended runs; 0: no limit */
	int64_t keep_bytes;	  /* of their logs */

	int64_t message_size; /* bytes */
	int64_t queued_bytes;
	int connections, connections_per_user;
	int64_t buffered_bytes;
	int calls_in_flight;
	int jobs;	   /* active ones */
	int jobs_per_user; /* 0: no limit of its own */

	char *gce_endpoint, *aws_endpoint, *azure_endpoint; /* NULL: the usual ones */
	char *dmi_dir;					    /* NULL: the kernel's */
	int64_t inhibit_delay;				    /* ms; -1: as long as logind waits */
};

/* The defaults. Returns 0 or -ENOMEM. */
_must_check_ int config_init(struct config *c);
void config_fini(struct config *c);

/* Reads file and <file>.d; a missing file is no error unless required. c then holds the defaults
 * with what was read over them. On failure c is untouched and err names file and line. */
_must_check_ int config_load(struct config *c, const char *file, bool required, struct error *err);

/* The same on text, for tests; name stands for the file. Adds to what c holds. */
_must_check_ int config_parse(
	struct config *c, const char *name, const char *text, struct error *err);
