/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"
#include "common/base/paths.h"
#include "common/base/socket_address.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

static void check_elasticd(struct doctor *d)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *name = NULL;
	struct ctl *ctl = d->ctl;
	struct error err = { 0 };
	const char *version;
	int r = ctl_open(ctl, &link, &err);

	if (r == -EPERM) {
		doctor_found(d, DOCTOR_PROBLEM, "elasticd", NULL, NULL, "%s", err.text);
		return;
	}
	if (r < 0) {
		doctor_found(d, DOCTOR_OK, "elasticd", NULL, NULL,
			"does not run on %s, which \"elasticctl run\" does not need", ctl->socket);
		return;
	}
	ctl->link = TAKE_PTR(link);
	r = ctl_try(ctl, "Version", NULL, &answer, &name, &err);
	version = get_text(answer, "version");
	if (r || !version)
		doctor_found(d, DOCTOR_PROBLEM, "elasticd", NULL, "start it again: jobs go on",
			"does not answer on %s", ctl->socket);
	else if (strcmp(version, VERSION))
		doctor_found(d, DOCTOR_WARNING, "elasticd", NULL,
			"start the elasticd that is installed: jobs go on",
			"version %s runs, elasticctl is %s", version, VERSION);
	else
		doctor_found(d, DOCTOR_OK, "elasticd", NULL, NULL, "version %s runs on %s", version,
			ctl->socket);
}

/* Whether links of this group are encrypted. */
static bool wants_tls(const struct doctor *d)
{
	const struct spec_rendezvous *z = &d->spec->rendezvous;
	const char *token = getenv("ELASTICD_RDZV_TOKEN");

	return doctor_several_hosts(d) && (z->token_file || z->tls_cert || (token && *token) ||
						  z->backend == SPEC_RENDEZVOUS_ETCD);
}

static void check_agent(struct doctor *d)
{
	_cleanup_free_ char *agent = NULL, *module = NULL;
	struct error err = { 0 };

	agent = paths_agent_program(NULL, &err);
	if (!agent) {
		doctor_found(d, DOCTOR_PROBLEM, "agent", NULL, "install it, or set ELASTIC_AGENT",
			"%s", err.text);
		return;
	}
	module = wants_tls(d) ? paths_module("link_tls.so") : NULL;
	if (wants_tls(d) && !module)
		doctor_found(d, DOCTOR_PROBLEM, "agent", agent,
			"install it, or build elasticd with OpenSSL",
			"link_tls.so, which encrypts the links between hosts, is not beside it");
	else
		doctor_found(d, DOCTOR_OK, "agent", agent, NULL, "can be executed%s",
			module ? ", and encrypt links" : "");
}

/* Files that the job names must be readable, on each host. */
static void check_secrets(struct doctor *d)
{
	const struct spec_rendezvous *z = &d->spec->rendezvous;
	const char *const files[] = { z->token_file, z->tls_cert, z->tls_key, z->tls_ca,
		z->password_file };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i] && access(files[i], R_OK) < 0)
			doctor_found(d, DOCTOR_PROBLEM, "secret", files[i],
				"put it on this host, readable for you", "%s", strerror(errno));
}

static void check_linger(struct doctor *d)
{
	const struct passwd *own = geteuid() ? getpwuid(geteuid()) : NULL;
	char path[256], advice[128];

	if (!own || access("/run/systemd/system", F_OK) < 0)
		return;
	snprintf(path, sizeof(path), "/var/lib/systemd/linger/%s", own->pw_name);
	snprintf(advice, sizeof(advice), "loginctl enable-linger %s", own->pw_name);
	if (access(path, F_OK) == 0)
		doctor_found(d, DOCTOR_OK, "linger", NULL, NULL,
			"services of %s go on after the logout", own->pw_name);
	else
		doctor_found(d, DOCTOR_WARNING, "linger", NULL, advice,
			"an elasticd of %s, and its jobs, end with the last session", own->pw_name);
}

static void check_clock(struct doctor *d)
{
	struct timex t = { .modes = 0 };
	int r = adjtimex(&t);

	if (r < 0 || r == TIME_ERROR || (t.status & STA_UNSYNC))
		doctor_found(d, DOCTOR_WARNING, "clock", NULL,
			"start chrony or systemd-timesyncd, on the machine itself where this is a "
			"container",
			"is not synchronised");
	else
		doctor_found(d, DOCTOR_OK, "clock", NULL, NULL, "is synchronised, within %.3g ms",
			(double)t.maxerror / 1000);
}

static void check_host_name(struct doctor *d)
{
	static const char advice[] =
		"give the name this host's own address in DNS or /etc/hosts; gloo looks it up, "
		"unless GLOO_SOCKET_IFNAME names an interface";
	struct doctor_addresses a;
	const char *why = doctor_look_up(d->host, 0, &a);
	bool here = false, loopback = true;
	char text[256];

	doctor_addresses_text(&a, text, sizeof(text));
	for (size_t i = 0; i < a.n; i++) {
		here |= socket_address_is_here((const struct sockaddr *)&a.at[i]);
		loopback &= doctor_is_loopback((const struct sockaddr *)&a.at[i]);
	}
	if (why)
		doctor_found(d, DOCTOR_WARNING, "host-name", d->host, advice, "%s", why);
	else if (loopback)
		doctor_found(d, DOCTOR_WARNING, "host-name", d->host, advice,
			"%s, where no other host reaches this one", text);
	else if (!here)
		doctor_found(d, DOCTOR_WARNING, "host-name", d->host, advice,
			"%s, which is not this host's", text);
	else
		doctor_found(d, DOCTOR_OK, "host-name", d->host, NULL, "%s", text);
}

void doctor_check_host(struct doctor *d)
{
	check_elasticd(d);
	check_agent(d);
	check_secrets(d);
	doctor_check_limits(d);
	doctor_check_affinity(d);
	check_linger(d);
	doctor_check_directories(d);
	check_clock(d);
	check_host_name(d);
}
