/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * elasticd.conf(5): an INI file, then the files of <name>.d/ whose names end in .conf, in the order
 * of their names; what is read later wins. An unknown section or key is an error that names the
 * file and the line; all errors are found at once.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_JOBS_SHARE = -1 }; /* a user who is no administrator may have a quarter of jobs */

struct config {
	int socket_mode;     /* -1: 0666 for the system's daemon, 0600 for a user's */
	char *admin_group;   /* NULL-ended or NULL */
	char **allow_groups; /* NULL-ended or NULL; with allow_users: only they may call */
	char **allow_users;
	char *log_dir; /* NULL: the default */
	int log_level; /* -1: not given */
	bool scopes;   /* give each job a systemd scope or a cgroup, where possible */
	char *slice;   /* the systemd slice of the scopes */

	int keep_runs, keep_days; /* of each user's ended runs; 0: no limit */
	int64_t keep_bytes;	  /* of their logs */

	int64_t message_size; /* bytes */
	int64_t queued_bytes;
	int connections, connections_per_user;
	int64_t buffered_bytes;
	int calls_in_flight;
	int jobs;	   /* active ones */
	int jobs_per_user; /* 0: no limit of its own; or CONFIG_JOBS_SHARE */

	char *gce_endpoint, *aws_endpoint, *azure_endpoint; /* NULL: the cloud's own */
	char *dmi_dir;					    /* NULL: the kernel's */
	int64_t inhibit_delay;				    /* ms; -1: as long as logind waits */
	char *topology;	     /* of this host, in jobs that have none; or NULL */
	bool require_secret; /* between hosts of a group */
	char *listen;	     /* ADDRESS:PORT for readers of metrics; NULL: none */
};

/* The defaults. Returns 0 or -ENOMEM. */
_must_check_ int config_init(struct config *c);
void config_fini(struct config *c);

/* Gets the text of each error: file, line, key, what was expected and found. */
typedef void (*config_error_fn)(void *arg, const char *text);

/* Reads file and <file>.d into c, over the defaults. A missing file is an error only if required.
 * On failure c is untouched, fn (NULL: none) got each error of all files, and err is the first,
 * with the number of the others. */
_must_check_ int config_load(struct config *c, const char *file, bool required, config_error_fn fn,
	void *arg, struct error *err);

/* The next key after *i whose values in running and fresh differ and take effect when elasticd is
 * started next, or NULL. Exchanges the two values, so that fresh has the one in effect. */
const char *config_next_start(struct config *running, struct config *fresh, size_t *i);

/* Reads text into c, over what c holds, for tests; name stands for the file in errors. */
_must_check_ int config_parse(
	struct config *c, const char *name, const char *text, struct error *err);
