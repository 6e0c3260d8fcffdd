/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes what elasticd keeps of a run on disk, <state>/jobs/<run>/record.json, and reads what the
 * run's agent keeps beside it (state.json, verdict.json). The directory belongs to the job's user:
 * a record.json that is not this daemon's own file is refused, and the agent's files are not
 * trusted. The specification has a file of its own, spec.json, that is read when it is needed:
 * it may be large, and the next elasticd reads the records of all runs before it serves a caller.
 *
 * As long as a guard may live, <runtime>/living/<run>/record.json is what elasticd knew when it
 * started that guard. Only elasticd's own user can write there, so the next elasticd finds the
 * guard whatever has become of the job's directory.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

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
	pid_t agent_pid;      /* the guard; 0: not started yet */
	uint64_t agent_ticks; /* its start time: with the pid it names one process */
	char *cgroup;	      /* directory of the job's own cgroup, or NULL */
	int agent_losses;     /* over the run's life */
	int64_t grace_ms;     /* the longest time to stop that a caller has given; 0: none */
	char *follows;	      /* the earlier run that this one restarts or resumes, or NULL */
	bool followed;	      /* it was started again: do not resume it */
	/* Of the specification: the notices that it asks for (enum spec_notice), preemption.poll,
	 * preemption.resume and stop.timeout */
	unsigned notices;
	int64_t poll_ms, stop_ms;
	bool resume;
	int64_t seq; /* the last event that is known */
};

/* The job itself, as elasticd last knew it. */
struct job_last {
	json_t *ended; /* the Verdict, or NULL */
	json_t *brief; /* the Job as lists show it, or NULL: no agent was started yet */
};

void job_last_fini(struct job_last *l);

/* The directory <state>/jobs, or <runtime>/living. */
struct record_store {
	int fd;
	char *path;
	bool of_living; /* the runs' directories belong to elasticd, and need not survive a reboot
			 */
};

_must_check_ int record_store_open(
	struct record_store *s, const char *state_dir, struct error *err);
_must_check_ int record_store_open_living(
	struct record_store *s, const char *runtime_dir, struct error *err);
void record_store_close(struct record_store *s);

void job_record_fini(struct job_record *r);

/* Makes the run's directory, owned by its user, with record.json and spec (borrowed); among the
 * living it is elasticd's own. Nothing waits for the disk: see job_record_sync(). Takes back what
 * it made when it fails. */
_must_check_ int job_record_create(const struct record_store *s, const struct job_record *r,
	const json_t *spec, struct error *err);

/* Makes a new record.json in the directory of a run whose own cannot be used, and keeps the old
 * file beside it. Makes the directory if it is missing. The specification is copied from another
 * store. -EPERM if the directory does not belong to r's user. */
_must_check_ int job_record_remake(const struct record_store *s, const struct job_record *r,
	const struct record_store *from, struct error *err);

/* Writes what changed in r; what is NULL in last (borrowed; may be NULL itself) stays as it is in
 * the file. A verdict can use space that was reserved for a full disk. It is also written where the
 * agent's would be, for people who read the run's own files. */
_must_check_ int job_record_update(const struct record_store *s, const struct job_record *r,
	const struct job_last *last, struct error *err);

/* Waits until the disk has the files of elasticd in a run's directory, and its name. Returns 0 or a
 * negative errno. */
_must_check_ int job_record_sync(const char *path);

/* Checks a parsed record.json. The pure half of job_record_load(). */
_must_check_ int job_record_parse(
	const json_t *doc, const char *run, struct job_record *ret, struct error *err);

/* Reads record.json of run. ret_last may be NULL. -ENOENT, -EBADMSG, -EPERM and others with err. */
_must_check_ int job_record_load(const struct record_store *s, const char *run,
	struct job_record *ret, struct job_last *ret_last, struct error *err);

/* The specification as it was started. Returns 0 with an owned object. */
_must_check_ int job_record_spec(
	const struct record_store *s, const char *run, json_t **ret, struct error *err);

/* The agent's last Job object and event number, or -ENOENT. Owned; nothing in it was checked. */
_must_check_ int job_record_state(const struct record_store *s, const struct job_record *r,
	json_t **ret_job, int64_t *ret_seq, struct error *err);

/* The agent's Verdict, checked, or -ENOENT. Owned. */
_must_check_ int job_record_verdict(
	const struct record_store *s, const struct job_record *r, json_t **ret, struct error *err);

/* The last error message of an agent of the run that ended without a verdict, or -ENOENT. Owned,
 * one line, not trusted. */
_must_check_ int job_record_last_error(
	const struct record_store *s, const struct job_record *r, char **ret);

/* Frees the disk space that was reserved for a verdict: the run has one. */
void job_record_release(const struct record_store *s, const char *run);

/* Removes the run's directory. */
_must_check_ int job_record_remove(
	const struct record_store *s, const char *run, struct error *err);

/* Renames the run's directory to <run>.corrupt-<n>; ret_name is owned. */
_must_check_ int job_record_set_aside(
	const struct record_store *s, const char *run, char **ret_name, struct error *err);

/* All entries that can be runs, as an owned NULL-ended array of owned names. Removes directories
 * that a crash left unfinished. For the start of elasticd. */
_must_check_ int job_record_list(const struct record_store *s, char ***ret, struct error *err);

/* True where name is <job>_<8 of a-z0-9>. */
bool job_record_is_run(const char *name);
