/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

/* Limits of requests and leases, and messages about trouble with etcd. */

enum { LEAD_REQUEST_MS = 5000 }; /* at most, for one request */

int64_t lead_limit_ms(const struct lead *l)
{
	int64_t fifth = l->hosts->spec->rendezvous.lease_ms / 5;

	return fifth < LEAD_REQUEST_MS ? fifth : LEAD_REQUEST_MS;
}

int64_t lead_ttl_s(const struct lead *l)
{
	return (l->hosts->spec->rendezvous.lease_ms + 999) / 1000;
}

void lead_tell(struct lead *l, const char *text)
{
	if (text && strncmp(text, l->told, sizeof(l->told) - 1) != 0)
		log_warning("etcd: %s", text);
	else if (!text && *l->told)
		log_notice("etcd answers again");
	snprintf(l->told, sizeof(l->told), "%s", text ? text : "");
}
