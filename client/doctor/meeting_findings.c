/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/meeting.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCKS_APART_US = 100000 }; /* above this, times in logs mislead */

bool meeting_may_lead(const struct meeting *m)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;

	return z->backend == SPEC_RENDEZVOUS_STATIC ? z->node_rank == 0 : !z->never_leads;
}

/* "a, b, c", as far as they fit. */
static void hosts_text(const struct meeting *m, char *text, size_t size)
{
	size_t i, n = 0;
	json_t *host;

	*text = '\0';
	json_array_foreach (m->hosts, i, host)
		if (n < size)
			n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "",
				json_get_string(host, "host", "?"));
}

/* "; node ranks 1, 3 are missing", where hosts have such. */
static void missing_text(const struct meeting *m, char *text, size_t size)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;
	size_t i, n = 0;
	json_t *host;

	*text = '\0';
	for (int rank = 0; z->backend == SPEC_RENDEZVOUS_STATIC && rank < z->nodes_max; rank++) {
		bool there = false;

		json_array_foreach (m->hosts, i, host)
			there |= json_get_int(host, "node_rank", -1) == rank;
		if (!there && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s%d",
				n ? ", " : "; these node ranks are missing: ", rank);
	}
}

void meeting_found_hosts(struct meeting *m)
{
	const struct spec_rendezvous *z = &m->doctor->spec->rendezvous;
	int n = (int)json_array_size(m->hosts);
	char names[512], missing[256], waited[DURATION_TEXT_MAX], advice[512];

	hosts_text(m, names, sizeof(names));
	missing_text(m, missing, sizeof(missing));
	snprintf(advice, sizeof(advice),
		"start doctor on the others within %s, and see whether they reach %s",
		duration_text(m->doctor->wait_ms, waited), m->doctor->endpoint);
	if (n < z->nodes_max)
		doctor_found(m->doctor, n < z->nodes_min ? DOCTOR_PROBLEM : DOCTOR_WARNING,
			"meeting", m->doctor->endpoint, advice, "only %d of %d hosts came: %s%s", n,
			z->nodes_max, names, missing);
	else
		doctor_found(m->doctor, DOCTOR_OK, "meeting", m->doctor->endpoint, NULL,
			"%d hosts, which %s has let meet: %s", n, m->head_name, names);
}

void meeting_found_failure(struct meeting *m)
{
	char waited[DURATION_TEXT_MAX];

	doctor_found(m->doctor, DOCTOR_PROBLEM, "meeting", m->doctor->endpoint,
		meeting_may_lead(m)
			? "start doctor on all hosts at once; let the port through firewalls; a "
			  "group that runs has the endpoint's port"
			: "start doctor on the host of the endpoint, too; let the port through "
			  "firewalls",
		"this host has not met another one in %s: %s",
		duration_text(m->doctor->wait_ms, waited), m->failure);
}

static const struct meeting_way *way_to(const struct meeting *m, const char *id)
{
	for (size_t i = 0; i < m->n_ways; i++)
		if (!strcmp(json_get_string(m->ways[i].host, "id", ""), id))
			return &m->ways[i];
	return NULL;
}

static const json_t *way_from(const struct meeting *m, const char *id)
{
	json_t *way;
	size_t i;

	json_array_foreach (json_get_array(m->answer, "ways"), i, way)
		if (!strcmp(json_get_string(way, "id", ""), id))
			return way;
	return NULL;
}

/* The two ways between this host and another one, and more about that one. */
struct between {
	enum doctor_state state;
	const char *advice;
	char text[DOCTOR_TEXT_MAX];
	size_t len;
};

static void between_add(struct between *b, enum doctor_state state, const char *advice,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Keeps the advice of the first finding of the worst state. */
static void between_add(
	struct between *b, enum doctor_state state, const char *advice, const char *fmt, ...)
{
	va_list ap;

	if (b->len < sizeof(b->text))
		b->len += (size_t)snprintf(
			b->text + b->len, sizeof(b->text) - b->len, "%s", b->len ? ", " : "");
	va_start(ap, fmt);
	if (b->len < sizeof(b->text))
		b->len += (size_t)vsnprintf(b->text + b->len, sizeof(b->text) - b->len, fmt, ap);
	va_end(ap);
	if (state > b->state || !b->advice)
		b->advice = advice;
	if (state > b->state)
		b->state = state;
}

static void between_ways(struct between *b, const struct meeting *m, const json_t *host,
	const struct meeting_way *to, const json_t *from)
{
	static const char open[] = "let TCP through between all hosts, at any port, or with "
				   "rendezvous.master_ports at those";
	const char *address = json_get_string(host, "address", "?");
	const char *back = json_get_string(from, "error", NULL);
	int port = (int)json_get_int(host, "port", 0);

	if (to && *to->error)
		between_add(b, DOCTOR_PROBLEM, open, "this host does not reach it at %s:%d: %s",
			address, port, to->error);
	else if (to)
		between_add(b, DOCTOR_OK, NULL, "%s, there and back in %.2f ms", address,
			(double)to->rtt_us / 1000);
	if (back)
		between_add(b, DOCTOR_PROBLEM, open, "it does not reach this host at %s:%d: %s",
			m->doctor->address, m->port, back);
	else if (!from)
		between_add(b, DOCTOR_WARNING, "start doctor there again",
			"it has not said whether it reaches this host");
	else
		between_add(b, DOCTOR_OK, NULL, "it reaches this host");
}

static void between_clocks(struct between *b, const struct meeting_way *to, const json_t *from)
{
	int64_t rtt_us = 0, offset_us = 0;

	if (to && !*to->error) {
		rtt_us = to->rtt_us;
		offset_us = to->offset_us;
	} else if (from && !json_get_string(from, "error", NULL)) {
		rtt_us = json_get_int(from, "rtt_us", 0);
		offset_us = -json_get_int(from, "offset_us", 0);
	} else {
		return;
	}
	if (llabs(offset_us) - rtt_us / 2 > CLOCKS_APART_US)
		between_add(b, DOCTOR_WARNING, "synchronise the clocks (chrony, systemd-timesyncd)",
			"its clock is %.3f s %s", (double)llabs(offset_us) / 1000000,
			offset_us > 0 ? "ahead" : "behind");
	else
		between_add(b, DOCTOR_OK, NULL, "clocks %.2f ms apart",
			(double)llabs(offset_us) / 1000);
}

static bool has_namesake(const struct meeting *m, const json_t *host)
{
	const char *name = json_get_string(host, "host", "?");
	size_t i, n = 0;
	json_t *other;

	json_array_foreach (m->hosts, i, other)
		n += !strcmp(json_get_string(other, "host", ""), name);
	return n > 1;
}

static void report_host(struct meeting *m, const json_t *host)
{
	const char *id = json_get_string(host, "id", ""),
		   *name = json_get_string(host, "host", "?");
	const char *version = json_get_string(host, "version", "?");
	const struct meeting_way *to = way_to(m, id);
	const json_t *from = way_from(m, id);
	struct between b = { .state = DOCTOR_OK };

	if (!strcmp(id, m->id) || (!to && !from))
		return;
	between_ways(&b, m, host, to, from);
	between_clocks(&b, to, from);
	if (strcmp(version, VERSION))
		between_add(&b, DOCTOR_WARNING, "install the same version on all hosts",
			"it has version %s, this host %s", version, VERSION);
	if (has_namesake(m, host))
		between_add(&b, DOCTOR_WARNING,
			"give each host a name of its own, unless these are "
			"processes of one host",
			"another host has the same name");
	doctor_found(m->doctor, b.state, "host", name, b.advice, "%s", b.text);
}

void meeting_found_ways(struct meeting *m)
{
	json_t *host;
	size_t i;

	json_array_foreach (m->hosts, i, host)
		report_host(m, host);
}
