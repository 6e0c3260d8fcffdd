/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/kind.h"

#include <string.h>

static const struct {
	const char *letter, *text;
} kinds[] = {
#define X(name, glyph, legend) [PLOT_##name] = { glyph, legend },
	PLOT_KINDS(X)
#undef X
};

static const struct {
	const char *event;
	enum plot_kind kind;
} events[] = {
	{ "state", PLOT_NONE },
	{ "barrier", PLOT_NONE },
	{ "clock", PLOT_NONE },
	{ "started", PLOT_NONE },
	{ "ended", PLOT_NONE },
	{ "backoff", PLOT_NONE },
	{ "restart", PLOT_NONE },
	{ "no-restart", PLOT_NONE },
	{ "root-cause", PLOT_NONE },
	{ "worker-ended", PLOT_NONE },
	{ "worker-started", PLOT_NONE },
	{ "worker-restarted", PLOT_NONE },
	{ "worker-restart", PLOT_NONE },
	{ "worker-no-restart", PLOT_NONE },
	{ "worker-stopped", PLOT_NONE },
	{ "worker-failed", PLOT_FAILURE },
	{ "worker-failed-once", PLOT_FAILURE },
	{ "queue-init-failed", PLOT_FAILURE },
	{ "heartbeat-missed", PLOT_BEAT },
	{ "heartbeat-lost", PLOT_BEAT },
	{ "no-progress", PLOT_BEAT },
	{ "worker-failing", PLOT_BEAT },
	{ "killed", PLOT_KILLED },
	{ "stuck", PLOT_KILLED },
	{ "queue-cancel-kill", PLOT_KILLED },
	{ "stop", PLOT_STOP },
	{ "timeout", PLOT_STOP },
	{ "forwarded", PLOT_STOP },
	{ "signalled", PLOT_STOP },
	{ "worker-stopping", PLOT_STOP },
	{ "notice", PLOT_NOTICE },
	{ "agreed", PLOT_AGREED },
	{ "all-saved", PLOT_AGREED },
	{ "countdown", PLOT_AGREED },
	{ "no-second-save", PLOT_AGREED },
	{ "saved", PLOT_SAVED },
	{ "left", PLOT_LEFT },
	{ "host-joined", PLOT_JOINED },
	{ "host-let-back", PLOT_JOINED },
	{ "host-left", PLOT_LEFT_HOST },
	{ "host-left-out", PLOT_LEFT_HOST },
	{ "host-quarantined", PLOT_LEFT_HOST },
};

const char *plot_kind_letter(enum plot_kind kind)
{
	return kinds[kind].letter;
}

const char *plot_kind_text(enum plot_kind kind)
{
	return kinds[kind].text;
}

enum plot_kind plot_kind_of(const char *event)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (!strcmp(event, events[i].event))
			return events[i].kind;
	return PLOT_NOTE;
}
