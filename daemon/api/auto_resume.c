/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/auto_resume.h"

#include "common/base/log.h"
#include "daemon/api/start.h"

#include <string.h>

/* Whether a later run with j's name and user exists, resumed from j or started by the user. */
static bool has_later(const struct job *j)
{
	for (const struct job *k = registry_next(j); k; k = registry_next(k))
		if (k->rec.uid == j->rec.uid && !strcmp(k->rec.name, j->rec.name))
			return true;
	return false;
}

static bool is_followed(const struct daemon *d, const struct job *j)
{
	const struct job *k;

	for (k = registry_first(d->registry); k; k = registry_next(k))
		if (k->rec.follows && !strcmp(k->rec.follows, j->rec.run))
			return true;
	return false;
}

static void resume_one(struct daemon *d, struct job *j)
{
	if (j->mirror.state != MIRROR_PREEMPTED || j->rec.followed || !j->rec.resume)
		return;
	if (is_followed(d, j)) {
		/* An earlier elasticd died between writing the new run's record and the old one's.
		 */
		start_mark_followed(d, j->rec.run);
		return;
	}
	if (has_later(j))
		return;
	log_notice("job %s: run %s was preempted and goes on", j->rec.name, j->rec.run);
	start_resumed(d, j);
}

void resume_all(struct daemon *d)
{
	struct job *last = NULL;
	struct job *j;

	/* Resumed runs are added behind the last one; the loop below must not reach them. */
	for (j = registry_first(d->registry); j; j = registry_next(j))
		last = j;
	for (j = registry_first(d->registry); j; j = j == last ? NULL : registry_next(j)) {
		if (job_is_over(j)) {
			resume_one(d, j);
			continue;
		}
		j->unheard = true;
		j->returns = j->guard_gone;
	}
}

void resume_update(struct daemon *d)
{
	for (struct job *j = registry_first_active(d->registry); j; j = registry_next_active(j)) {
		if (!j->unheard)
			continue;
		if (job_is_over(j)) {
			j->unheard = j->returns = false;
			resume_one(d, j);
		} else if (j->life == LIFE_LINKED && j->mirror.state != MIRROR_PENDING) {
			/* The agent began a new attempt on this host as it is now: an old notice is
			 * over. */
			j->unheard = j->returns = false;
		}
	}
}
