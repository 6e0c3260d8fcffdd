/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/similar.h"
#include "common/spec/table.h"

#include <stdio.h>
#include <string.h>

/* Suggests the right key for an unknown one. */

/* Names that people know from elsewhere. */
static const struct {
	const char *theirs, *ours;
} names[] = {
	{ "cmd", "roles[].command" },
	{ "entrypoint", "roles[].command" },
	{ "environment", "roles[].env" },
	{ "last_call_timeout", "rendezvous.last_call" },
	{ "local_addr", "rendezvous.address" },
	{ "log_dir", "logs.dir" },
	{ "max_restarts", "restart.max" },
	{ "nnodes", "rendezvous.nodes" },
	{ "nproc_per_node", "roles[].replicas" },
	{ "num_replicas", "roles[].replicas" },
	{ "rdzv_backend", "rendezvous.backend" },
	{ "rdzv_endpoint", "rendezvous.endpoints" },
	{ "rdzv_id", "rendezvous.id" },
	{ "shutdown_timeout", "stop.timeout" },
	{ "stop_signal", "stop.signal" },
	{ "working_dir", "cwd" },
};

struct search {
	const struct spec_key *here; /* the table that lacks the key */
	const char *name;
	char paths[4][64]; /* the sections that have it */
	int n;
	char nearest[96]; /* the most similar key of other sections */
	size_t least;
};

static const struct spec_key *section_of(const struct spec_key *key)
{
	return !strcmp(key->name, "roles") ? spec_keys_role : key->keys;
}

static void search_table(struct search *s, const struct spec_key *table, const char *at)
{
	for (const struct spec_key *keys = table; keys->name; keys++) {
		const struct spec_key *section = section_of(keys);
		size_t d = similar_distance(s->name, keys->name);
		char path[64];

		snprintf(path, sizeof(path), "%s%s%s%s", at, *at ? "." : "", keys->name,
			section == spec_keys_role ? "[]" : "");
		if (section)
			search_table(s, section, path);
		if (s->here == table)
			continue;
		if (!d && s->n < 4)
			snprintf(s->paths[s->n++], sizeof(s->paths[0]), "%s", at);
		if (d < s->least) {
			s->least = d;
			snprintf(s->nearest, sizeof(s->nearest), "%s", path);
		}
	}
}

/* "in `logs`", "in `stop` or `heartbeat`", "at the top level" */
static void name_places(const struct search *s, char *buf, size_t size)
{
	size_t n = 0;

	for (int i = 0; i < s->n && n < size; i++) {
		const char *before = !i ? "" : i + 1 < s->n ? ", " : " or ";

		if (*s->paths[i])
			n += snprintf(
				buf + n, size - n, "%s%s`%s`", before, i ? "" : "in ", s->paths[i]);
		else
			n += snprintf(buf + n, size - n, "%sat the top level", before);
	}
}

static const char *other_name(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *a = names[i].theirs, *b = name;

		while (*a && (*a == *b || (*a == '_' && *b == '-'))) {
			a++;
			b++;
		}
		if (!*a && !*b)
			return names[i].ours;
	}
	return NULL;
}

/* The known key that name most likely means, or NULL. */
static const char *nearest_here(const struct spec_key *keys, const char *name)
{
	size_t least = similar_limit(name) + 1;
	const char *best = NULL;

	for (; keys->name; keys++) {
		size_t d = similar_distance(name, keys->name);

		if (d < least && d < strlen(keys->name)) {
			best = keys->name;
			least = d;
		}
	}
	return best;
}

const char *spec_hint(const struct spec_key *keys, const char *name, const char **ret_meant,
	char buf[SPEC_HINT_MAX])
{
	struct search s = { .here = keys, .name = name, .least = 2 };
	char places[160] = "";
	const char *other = other_name(name);

	*ret_meant = NULL;
	search_table(&s, spec_keys_top, "");
	name_places(&s, places, sizeof(places));
	if (!s.n)
		*ret_meant = nearest_here(keys, name);
	if (s.n)
		snprintf(buf, SPEC_HINT_MAX, "unknown key here; it belongs %s", places);
	else if (*ret_meant)
		snprintf(buf, SPEC_HINT_MAX, "unknown key, did you mean `%s`?", *ret_meant);
	else if (other || *s.nearest)
		snprintf(buf, SPEC_HINT_MAX, "unknown key, did you mean `%s`?",
			other ? other : s.nearest);
	else
		snprintf(buf, SPEC_HINT_MAX, "unknown key");
	return buf;
}
