/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches what a host is told about its own end by the cloud that it is in: GCE, AWS, Azure. One
 * for a host in elasticd, or one in an agent that has no elasticd. It asks nothing before somebody
 * wants a source, and stops asking when nobody does. Every request has a time limit; a server that
 * hangs, refuses or lies costs a warning, never a stall. A server has 2 s to take a connection, and
 * to say who it is; ELASTICD_METADATA_TIMEOUT of the environment says otherwise. Where none says so
 * and the firmware names nobody, this is "other", and is looked for again while CLOUD is wanted.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/notice.h"
#include "common/spec.h"

#include <jansson.h>
#include <stdint.h>

struct noticer;

enum {
	/* What it can watch, of enum spec_notice. */
	NOTICER_SOURCES = SPEC_NOTICE_GCE | SPEC_NOTICE_AWS | SPEC_NOTICE_AZURE | SPEC_NOTICE_CLOUD,
};

typedef void (*noticer_fn)(void *arg, const struct notice *n);
/* One line for people, with syslog's level, where something changed: a server does not answer, or
 * does again; a live migration. Must not free the noticer. */
typedef void (*noticer_said_fn)(void *arg, int level, const char *source, const char *text);

struct noticer_options {
	/* "http://address[:port]"; NULL: of the environment (GCE_METADATA_HOST, GCE_METADATA_IP,
	 * AWS_EC2_METADATA_SERVICE_ENDPOINT, ELASTICD_AZURE_ENDPOINT), else 169.254.169.254. */
	const char *gce_endpoint, *aws_endpoint, *azure_endpoint;
	const char *dmi_dir; /* NULL: ELASTICD_DMI_DIR of the environment, else /sys/class/dmi/id */
	int64_t poll_ms;     /* of what cannot be waited for; 0: 1 s */
	noticer_said_fn said; /* NULL: nobody listens; gets fn's arg */
};

/* fn never runs within a call, and may free the noticer. options' strings are copied. Without
 * libcurl it works, too, as if no server answered; what is wanted is then told to fail. */
_must_check_ int noticer_new(struct loop *loop, const struct noticer_options *options,
	noticer_fn fn, void *arg, struct noticer **ret);
struct noticer *noticer_free(struct noticer *n);
DEFINE_CLEANUP(struct noticer *, noticer_free)

/* Which sources are wanted now (of NOTICER_SOURCES), by anybody; the last call
 * holds. CLOUD waits for the detection. */
void noticer_want(struct noticer *n, unsigned sources);
/* From now on asks what cannot be waited for so often: with the next answer. */
void noticer_poll(struct noticer *n, int64_t ms);
/* For who came later: fn runs soon for each notice that is up still, told before or not. */
void noticer_again(struct noticer *n);

/* Finds out where this host is; done runs later, once, with "gce", "aws", "azure" or "other" and
 * details for people, both borrowed. Known after the first time, as far as anybody can know it. */
typedef void (*noticer_platform_fn)(void *arg, const char *platform, const char *details);
_must_check_ int noticer_platform(struct noticer *n, noticer_platform_fn done, void *arg);
void noticer_platform_forget(struct noticer *n, void *arg);
/* "gce", ... or NULL while it is not known. Borrowed. */
const char *noticer_platform_known(const struct noticer *n);

/* Array of io.elasticd.Manager.PlatformWatch without jobs, owned. */
json_t *noticer_watches_json(const struct noticer *n);
