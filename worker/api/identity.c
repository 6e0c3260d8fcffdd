/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker the handle belongs to. */
#include "worker/base/handle.h"

bool elasticd_supervised(const struct elasticd *h)
{
	return h->socket && !h->outside;
}

const char *elasticd_job(const struct elasticd *h)
{
	return h->identity.job;
}

const char *elasticd_run(const struct elasticd *h)
{
	return h->identity.run;
}

const char *elasticd_role(const struct elasticd *h)
{
	return h->identity.role;
}

int elasticd_index(const struct elasticd *h)
{
	return h->identity.index;
}

int elasticd_rank(const struct elasticd *h)
{
	return h->identity.rank;
}

int elasticd_local_rank(const struct elasticd *h)
{
	return h->identity.local_rank;
}

int elasticd_world_size(const struct elasticd *h)
{
	return h->identity.world_size;
}

int elasticd_attempt(const struct elasticd *h)
{
	return h->identity.attempt;
}

int elasticd_start(const struct elasticd *h)
{
	return h->identity.start;
}
