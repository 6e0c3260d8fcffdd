/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What elasticd keeps of a run on disk: <state>/jobs/<run>/record.json, and reading what the run's
 * agent keeps beside it (state.json, verdict.json). The directory belongs to the job's user: a
 * record.json that is not this daemon's own file is refused, and the agent's files are taken as
 * what a user said. The specification stays on disk and is read when it is needed.
 */

#include "common/cleanup.h"
#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct job_record {
	char *name;
	char *run;
	char *user;
	uid_t uid;
	int64_t created_us;
	int64_t ended_us;     /* when elasticd itself ended it; 0 else */
	char *log_dir;	      /* directory that holds runs' logs; "/dev/null": none */
	pid_t agent_pid;      /* the guard; 0: none was started yet */
	uint64_t agent_ticks; /* its start time: with the pid it names one process */
	char *cgroup;	      /* directory of the job's own cgroup, or NULL */
	int agent_losses;     /* over the run's life */
	char *follows;	      /* the run that this one is another start of, or NULL */
	bool followed;	      /* it was started again: not to be resumed any more */
};

/* The directory <state>/jobs. */
struct record_store {
	int fd;
	char *path;
};

_must_check_ int record_store_open(
	struct record_store *s, const char *state_dir, struct error *err);
void record_store_close(struct record_store *s);

void job_record_fini(struct job_record *r);
/* Copies; on failure ret is untouched. */
_must_check_ int job_record_copy(const struct job_record *r, struct job_record *ret);

/* Makes the run's directory, owned by its user, and a synced record.json with spec (borrowed).
 * Takes back what it made when it fails. */
_must_check_ int job_record_create(const struct record_store *s, const struct job_record *r,
	const json_t *spec, struct error *err);

/* Makes record.json again in the directory of a run that has one which cannot be used: that is kept
 * beside it. spec is borrowed, or NULL where it is not known. -EPERM where the directory is not of
 * r's user. */
_must_check_ int job_record_remake(const struct record_store *s, const struct job_record *r,
	const json_t *spec, struct error *err);

/* Writes what changed in r; the specification and an earlier verdict in the file stay. ended
 * (borrowed) is a Verdict or NULL; for one, room was kept for the case that the disk is full. It is
 * put where the agent's would be, too, for who reads the run's own files. */
_must_check_ int job_record_update(const struct record_store *s, const struct job_record *r,
	const json_t *ended, struct error *err);

/* Checks a parsed record.json. The pure half of job_record_load(). */
_must_check_ int job_record_parse(
	const json_t *doc, const char *run, struct job_record *ret, struct error *err);

/*
 * Reads record.json of run. ret_ended (may be NULL) gets the owned Verdict that elasticd itself
 * gave, or NULL. -ENOENT, -EBADMSG, -EPERM and others with err.
 */
_must_check_ int job_record_load(const struct record_store *s, const char *run,
	struct job_record *ret, json_t **ret_ended, struct error *err);

/* The specification as it was started. Returns 0 with an owned object. */
_must_check_ int job_record_spec(
	const struct record_store *s, const char *run, json_t **ret, struct error *err);

/* The agent's last Job object and event number, or -ENOENT. Owned; nothing in it was checked. */
_must_check_ int job_record_state(const struct record_store *s, const struct job_record *r,
	json_t **ret_job, int64_t *ret_seq, struct error *err);

/* The agent's Verdict, checked, or -ENOENT. Owned. */
_must_check_ int job_record_verdict(
	const struct record_store *s, const struct job_record *r, json_t **ret, struct error *err);

/* The last that an agent of the run said before it ended without a verdict, or -ENOENT. Owned, one
 * line, and a user's word. */
_must_check_ int job_record_last_error(
	const struct record_store *s, const struct job_record *r, char **ret);

/* Gives back the room that was kept for a verdict: the run has one. */
void job_record_release(const struct record_store *s, const char *run);

/* Removes the run's directory. */
_must_check_ int job_record_remove(
	const struct record_store *s, const char *run, struct error *err);

/* Renames the run's directory to <run>.corrupt-<n>; ret_name is owned. */
_must_check_ int job_record_set_aside(
	const struct record_store *s, const char *run, char **ret_name, struct error *err);

/* All entries that can be runs, as an owned NULL-ended array of owned names. Removes what a crash
 * left half made: for the start of elasticd. */
_must_check_ int job_record_list(const struct record_store *s, char ***ret, struct error *err);
void job_record_list_free(char **names);

/* True where name is <job>_<8 of a-z0-9>. */
bool job_record_is_run(const char *name);
/* The <job> of such a name. Returns owned or NULL (no memory). */
char *job_record_name(const char *run);

/* When the run's directory was made, as far as can be told. */
int64_t job_record_made_us(const struct record_store *s, const char *run);
