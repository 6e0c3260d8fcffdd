/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/messages.h"

#include "agent/hosts/settings.h"
#include "agent/supervise/supervisor.h"
#include "common/text/json.h"

#include <string.h>

static json_t *message_of_round(uint64_t round)
{
	return json_pack("{s:I}", "round", (json_int_t)round);
}

/* --- of a member --- */

static json_t *message_replicas(const struct spec *spec)
{
	json_t *list = json_array();

	for (size_t i = 0; i < spec->n_roles; i++)
		json_add(list, json_pack("{s:s, s:i}", "role", spec->roles[i].name, "replicas",
				       spec->roles[i].replicas));
	return list;
}

json_t *message_join(const struct message_join *j)
{
	const struct spec_rendezvous *z = &j->spec->rendezvous;
	_cleanup_json_ json_t *settings = settings_of(j->spec);
	_cleanup_free_ char *digest = settings ? settings_digest(settings) : NULL;
	json_t *body = digest ? json_object() : NULL;

	if (!body)
		return NULL;
	json_put_string(body, "run", j->run);
	json_put_string(body, "address", j->address);
	if (z->node_rank != SPEC_UNSET)
		json_put_int(body, "node_rank", z->node_rank);
	if (z->topology)
		json_put_string(body, "topology", z->topology);
	json_put(body, "roles", message_replicas(j->spec));
	if (!j->settings || strcmp(j->settings, digest) != 0)
		json_put(body, "settings", json_incref(settings));
	json_put_int(body, "known_round", (int64_t)j->known_round);
	json_put_int(body, "attempts", j->attempts);
	json_put_int(body, "restarts", j->restarts);
	if (j->answered_ms != SPEC_UNSET)
		json_put_int(body, "answered_ms", j->answered_ms);
	if (j->last_round)
		json_put(body, "last",
			json_pack("{s:I, s:i}", "round", (json_int_t)j->last_round, "group_rank",
				j->last_rank));
	return body;
}

json_t *message_prepared(
	uint64_t round, json_t *addresses, const char *master_addr, int master_port)
{
	json_t *body = message_of_round(round);

	if (addresses)
		json_put(body, "addresses", addresses);
	if (master_addr) {
		json_put_string(body, "master_addr", master_addr);
		json_put_int(body, "master_port", master_port);
	}
	return body;
}

json_t *message_unable(uint64_t round, const struct error *why)
{
	json_t *body = message_of_round(round);

	if (*why->field)
		json_put_string(body, "field", why->field);
	json_put(body, "why", json_text(why->text));
	return body;
}

json_t *message_started(uint64_t round, int64_t time_us)
{
	json_t *body = message_of_round(round);

	json_put_int(body, "time_us", time_us);
	return body;
}

json_t *message_report(
	uint64_t round, const char *worker, int rank, int start, const char *event, int64_t time_us)
{
	json_t *body = message_of_round(round);

	json_put_string(body, "worker", worker);
	json_put_int(body, "rank", rank);
	json_put_int(body, "start", start);
	json_put_string(body, "event", event);
	json_put_int(body, "time_us", time_us);
	return body;
}

json_t *message_gone(uint64_t round, json_t *failures)
{
	json_t *body = message_of_round(round);

	json_put(body, "failures", failures);
	return body;
}

json_t *message_leave(const char *text)
{
	return json_pack("{s:o}", "text", json_text(text));
}

json_t *message_deputy(const char *address)
{
	return json_pack("{s:s}", "address", address);
}

/* --- of the head --- */

json_t *message_admitted(uint64_t known_round)
{
	return json_pack("{s:I}", "known_round", (json_int_t)known_round);
}

/* The workers of each role on the host. */
static json_t *message_places(const struct message_assign *a, int *ret_ports)
{
	const struct ranked_host ranked = { .replicas = a->host->replicas };
	int rank = a->host->first_rank;
	json_t *list = json_array();

	*ret_ports = 0;
	for (int i = 0; i < a->roles->n; i++) {
		int n = host_ranks_replicas(&ranked, a->roles, i, a->host->group_rank);

		json_add(list,
			json_pack("{s:s, s:i, s:i, s:i, s:i}", "role", a->spec->roles[i].name,
				"replicas", n, "rank", rank, "role_rank", a->host->first_index[i],
				"role_size", a->world->roles[i] ? a->world->roles[i] : 1));
		rank += n;
		if (!a->spec->roles[i].evaluator)
			*ret_ports += n;
	}
	return list;
}

json_t *message_assign(const struct message_assign *a)
{
	json_t *body = message_of_round(a->host->round);
	int ports;

	json_put_int(body, "attempt", a->attempt);
	json_put_int(body, "restarts", a->restarts);
	json_put_int(body, "group_rank", a->host->group_rank);
	json_put_int(body, "group_size", a->world->hosts);
	json_put_int(body, "world_size", a->world->workers);
	json_put(body, "places", message_places(a, &ports));
	if (ports && spec_tf_config(a->spec))
		json_put_int(body, "ports", ports);
	if (a->host->group_rank == 0 && !a->host->seat)
		json_put(body, "master", json_true());
	if (a->starts)
		json_put(body, "starts", json_incref(a->starts));
	if (a->failure)
		json_put(body, "failure", json_incref(a->failure));
	return body;
}

json_t *message_start(uint64_t round, const char *master_addr, int master_port, json_t *cluster)
{
	json_t *body = message_of_round(round);

	if (master_addr) {
		json_put_string(body, "master_addr", master_addr);
		json_put_int(body, "master_port", master_port);
	}
	if (cluster)
		json_put(body, "cluster", json_incref(cluster));
	return body;
}

json_t *message_stop(uint64_t round, const char *reason, const char *cause, int64_t timeout_ms)
{
	json_t *body = message_of_round(round);

	json_put_string(body, "reason", reason);
	json_put(body, "cause", json_text(cause));
	if (timeout_ms != SPEC_UNSET)
		json_put_int(body, "timeout_ms", timeout_ms);
	return body;
}

json_t *message_end(json_t *verdict, bool report)
{
	json_t *body = json_object();

	if (verdict)
		json_put(body, "verdict", json_incref(verdict));
	if (report)
		json_put(body, "report", json_true());
	return body;
}

json_t *message_deputize(const char *word)
{
	return json_pack("{s:s}", "word", word);
}
