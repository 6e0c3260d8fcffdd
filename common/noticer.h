/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches what a host is told about its own end by the cloud that it is in: GCE, AWS, Azure. One
 * for a host in elasticd, or one in an agent that has no elasticd. It asks nothing before somebody
 * wants a source, and stops asking when nobody does. Every request has a time limit; a server that
 * hangs, refuses or lies costs a warning, never a stall.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/spec.h"

#include <jansson.h>
#include <stdint.h>

struct noticer;

struct notice {
	const char *source; /* "gce", "aws", "azure" */
	char id[128];	    /* of the event: the same one is told once */
	char reason[256];
	int64_t deadline_us; /* real time; SPEC_UNSET: not said */
};

struct noticer_options {
	const char *gce_endpoint, *aws_endpoint,
		*azure_endpoint; /* "http://host:port"; NULL: default */
	const char *dmi_dir;	 /* NULL: /sys/class/dmi/id */
};

typedef void (*noticer_fn)(void *arg, const struct notice *n);

/* fn never runs within a call. options' strings are copied. -EOPNOTSUPP where built without curl:
 * noticer_want() then fails, and the rest works. */
_must_check_ int noticer_new(struct loop *loop, const struct noticer_options *options,
	noticer_fn fn, void *arg, struct noticer **ret);
struct noticer *noticer_free(struct noticer *n);
DEFINE_CLEANUP(struct noticer *, noticer_free)

/* Which sources are wanted now (SPEC_NOTICE_GCE, AWS, AZURE, CLOUD), by anybody; the last call
 * holds. CLOUD waits for the detection. */
void noticer_want(struct noticer *n, unsigned sources);
/* A notice that is up still and was told before `since_us`, for who came later: fn runs for it. */
void noticer_again(struct noticer *n);

/* Finds out where this host is; done runs later, once, with "gce", "aws", "azure" or "other" and
 * details for people, both borrowed. Known after the first time. gpu: /dev/nvidia0 is there. */
typedef void (*noticer_platform_fn)(void *arg, const char *platform, const char *details);
_must_check_ int noticer_platform(struct noticer *n, noticer_platform_fn done, void *arg);
void noticer_platform_forget(struct noticer *n, void *arg);
/* "gce", ... or NULL while it is not known. Borrowed. */
const char *noticer_platform_known(const struct noticer *n);

/* Array of io.elasticd.Manager.PlatformWatch without jobs, owned. */
json_t *noticer_watches_json(const struct noticer *n);
