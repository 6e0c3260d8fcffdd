/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directories of the system's and of a user's daemon, and the names below them. Makes and opens
 * nothing. elasticd and elasticctl use the same rules, so that the client finds the daemon by
 * itself.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>

/* All absolute, all owned. */
struct paths {
	char *runtime_dir; /* /run/elasticd, $XDG_RUNTIME_DIR/elasticd */
	char *state_dir;   /* /var/lib/elasticd, $XDG_STATE_HOME/elasticd */
	char *log_dir;	   /* /var/log/elasticd, $XDG_STATE_HOME/elasticd/logs */
	char *config_file; /* /etc/elasticd/elasticd.conf, $XDG_CONFIG_HOME/elasticd/elasticd.conf
			    */
	char *socket;	   /* <runtime_dir>/control.sock */
};

/* Names that the user gave; NULL members were not given. Relative names start from the cwd. */
struct paths_overrides {
	const char *runtime_dir;
	const char *state_dir;
	const char *log_dir;
	const char *config_file;
	const char *socket; /* else $ELASTICD_SOCKET */
};

/*
 * Fills ret for the system's daemon (system) or the calling user's. A user without
 * XDG_RUNTIME_DIR, or with one that others may write, gets /run/user/<uid> where that exists, else
 * $XDG_STATE_HOME/elasticd/run; one without HOME the passwd entry's. o may be NULL. Returns 0,
 * -ENOMEM, or -ENAMETOOLONG with err where the control socket's name does not fit a socket address.
 * ret is untouched on failure.
 */
_must_check_ int paths_init(
	struct paths *ret, bool system, const struct paths_overrides *o, struct error *err);
void paths_fini(struct paths *p);

/* True where the caller's daemon is the system's: effective user root. */
bool paths_is_system(void);

/*
 * The control socket for a client: the override, else $ELASTICD_SOCKET, else that of the caller's
 * own daemon, or, if it does not exist and the caller is not root, the system's. Returns owned or
 * NULL (no memory); ret_found: true if neither the override nor the variable named it.
 */
char *paths_client_socket(const char *override, bool *ret_found);

/* Checks that the rules above can use XDG_RUNTIME_DIR, if it is set and matters. Returns 0, or a
 * negative errno with err that says why not. */
_must_check_ int paths_check_environment(struct error *err);

/* Checks that only root and the caller can replace path: private_dir_check() of its directory. */
_must_check_ int paths_check_socket(const char *path, struct error *err);

/* Whether dir/name is short enough for a socket's address: at most 107 bytes. */
bool paths_socket_fits(const char *dir, const char *name);

/* $XDG_STATE_HOME/elasticd/run, for a user who has no other place for sockets; owned or NULL (no
 * memory). */
char *paths_run_dir(void);

/*
 * The elastic-agent program: $ELASTIC_AGENT, else in dir (NULL: beside the running program), else
 * in the installation's libexec directory. Returns owned, or NULL with err where none can be
 * executed.
 */
char *paths_agent_program(const char *dir, struct error *err);

/* elasticctl of the same tree as this program. Owned, or NULL: there is none, or no memory. */
char *paths_client_program(void);

/* jobs.d beside the configuration; owned, or NULL without memory. */
char *paths_jobs_dir(const struct paths *p);

/* A module that programs load: beside the running program, or beside the elastic-agent that
 * paths_agent_program() finds. Returns owned, or NULL where there is none. */
char *paths_module(const char *name);

/* <runtime_dir>/jobs/<job>; returns owned or NULL (no memory). */
char *paths_job_runtime(const char *runtime_dir, const char *job);

/* <dir>/<name>; returns owned or NULL (no memory). */
char *paths_join(const char *dir, const char *name);

/* name + "_" + 8 random characters of [a-z0-9]; where several hosts may have a run of that job
 * (host is not NULL), name + "." + host as far as its first dot + "_" + these. Returns owned or
 * NULL (no memory, no randomness). */
char *run_id_new(const char *name, const char *host);
/* The same for a run on this host. */
char *run_id_here(const char *name, bool several_hosts);
