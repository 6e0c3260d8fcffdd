/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches what the cloud (GCE, AWS, Azure) announces about the end of this host. elasticd has one
 * for the host; an agent without elasticd has its own. Asks nothing unless a source is wanted.
 * Every request has a time limit; a server that hangs, refuses or lies costs a warning, never a
 * stall. A server has 2 s to accept a connection and to identify itself; ELASTICD_METADATA_TIMEOUT
 * changes that. If no server identifies itself and the firmware names no vendor, the platform is
 * "other", and is detected again while CLOUD is wanted.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"
#include "common/notice/notice.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdint.h>

struct noticer;

enum {
	/* The sources that it can watch, of enum spec_notice. */
	NOTICER_SOURCES = SPEC_NOTICE_GCE | SPEC_NOTICE_AWS | SPEC_NOTICE_AZURE | SPEC_NOTICE_CLOUD,
};

typedef void (*noticer_fn)(void *arg, const struct notice *n);
/* Reports a change in one line for people, with syslog's level: a server does not answer, or does
 * again; a live migration. Must not free the noticer. */
typedef void (*noticer_message_fn)(void *arg, int level, const char *source, const char *text);

struct noticer_options {
	/* "http://address[:port]"; NULL: from the environment (GCE_METADATA_HOST, GCE_METADATA_IP,
	 * AWS_EC2_METADATA_SERVICE_ENDPOINT, ELASTICD_AZURE_ENDPOINT), else 169.254.169.254. */
	const char *gce_endpoint, *aws_endpoint, *azure_endpoint;
	const char *dmi_dir; /* NULL: ELASTICD_DMI_DIR of the environment, else /sys/class/dmi/id */
	int64_t poll_ms;     /* for sources that have to be polled; 0: 1 s */
	noticer_message_fn message; /* may be NULL; gets fn's arg */
};

/* fn never runs within a call, and may free the noticer. Copies options' strings. Works without
 * libcurl as if no server answered: wanted sources are then reported to fail. */
_must_check_ int noticer_new(struct loop *loop, const struct noticer_options *options,
	noticer_fn fn, void *arg, struct noticer **ret);
struct noticer *noticer_free(struct noticer *n);
DEFINE_CLEANUP(struct noticer *, noticer_free)

/* Sets which sources are wanted now (of NOTICER_SOURCES); each call replaces the last. CLOUD waits
 * until the platform is detected. */
void noticer_want(struct noticer *n, unsigned sources);
/* Changes how often sources are polled, from the next answer on. */
void noticer_set_poll(struct noticer *n, int64_t ms);
/* For a listener that came later: runs fn soon for each notice that still holds, reported or not.
 */
void noticer_repeat(struct noticer *n);

/* Detects the platform; done runs later, once, with "gce", "aws", "azure" or "other" and details
 * for people, both borrowed. The first certain result is kept. */
typedef void (*noticer_platform_fn)(void *arg, const char *platform, const char *details);
_must_check_ int noticer_platform(struct noticer *n, noticer_platform_fn done, void *arg);
void noticer_platform_forget(struct noticer *n, void *arg);
/* "gce", ... or NULL while it is not known. Borrowed. */
const char *noticer_platform_known(const struct noticer *n);

/* Array of io.elasticd.Manager.PlatformWatch without jobs, owned. */
json_t *noticer_watches_json(const struct noticer *n);
