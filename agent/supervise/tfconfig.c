/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/tfconfig.h"

#include "agent/process/port.h"
#include "agent/supervise/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

struct tfconfig_role {
	struct port *ports; /* by index */
	int n;
};

struct tfconfig {
	struct tfconfig_role *roles; /* as the specification's; evaluators have no ports */
	size_t n_roles;
	char *cluster; /* JSON of the workers of the specification */
	char *layer;   /* JSON of rpc_layer, or NULL */
};

static struct tfconfig *tfconfig_done(struct tfconfig *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_roles; i++) {
		for (int k = 0; k < c->roles[i].n; k++)
			port_release(&c->roles[i].ports[k]);
		free(c->roles[i].ports);
	}
	free(c->roles);
	free(c->cluster);
	free(c->layer);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(struct tfconfig *, tfconfig_done)

/* Holds ports for a role until it has n; on failure releases the new ones. */
static int tfconfig_grow(
	const struct supervisor *sv, struct tfconfig *c, size_t role, int n, struct error *err)
{
	struct tfconfig_role *of = &c->roles[role];
	struct port *ports;
	int before = of->n;

	if (n <= of->n)
		return 0;
	ports = reallocarray(of->ports, (size_t)n, sizeof(*ports));
	if (!ports)
		return error_set(err, -ENOMEM, "out of memory");
	of->ports = ports;
	while (of->n < n) {
		int r = port_hold(&of->ports[of->n]);

		if (r < 0) {
			error_set(err, r, "no port to hold for %s:%d in TF_CONFIG: %s",
				sv->spec->roles[role].name, of->n, strerror(-r));
			while (of->n > before)
				port_release(&of->ports[--of->n]);
			return r;
		}
		of->n++;
	}
	return 0;
}

/* "host:port", "[::1]:port" */
static json_t *tfconfig_address(const char *host, const struct port *port)
{
	return json_sprintf(
		strchr(host, ':') && *host != '[' ? "[%s]:%d" : "%s:%d", host, port->number);
}

/* Owned JSON of the cluster: the workers that were there when the attempt began; late: for a worker
 * added later, also the other added ones. NULL without memory. */
static char *tfconfig_cluster(const struct supervisor *sv, const struct tfconfig *c, bool late)
{
	const char *host = sv->spec->rendezvous.master_addr;
	_cleanup_json_ json_t *cluster = json_object();

	for (size_t i = 0; i < c->n_roles; i++) {
		const struct tfconfig_role *of = &c->roles[i];
		int n = late || of->n < sv->replicas[i] ? of->n : sv->replicas[i];
		json_t *list;

		if (sv->spec->roles[i].evaluator)
			continue;
		list = json_array();
		if (json_put(cluster, sv->spec->roles[i].name, list) < 0)
			return NULL;
		for (int k = 0; k < n; k++)
			if (json_add(list,
				    tfconfig_address(host ? host : "127.0.0.1", &of->ports[k])) < 0)
				return NULL;
	}
	return json_dumps(cluster, JSON_COMPACT);
}

static char *tfconfig_layer(const struct supervisor *sv)
{
	_cleanup_json_ json_t *text = json_string(sv->spec->rpc_layer);

	return json_dumps(text, JSON_ENCODE_ANY);
}

/* The group may have grown since its specification was checked. */
static int tfconfig_check_size(const struct tfconfig *c, struct error *err)
{
	if (strlen(c->cluster) <= SPEC_TF_CONFIG_BYTES)
		return 0;
	return error_set(err, -E2BIG,
		"the addresses of all workers are %zu bytes of TF_CONFIG, expected at most %d",
		strlen(c->cluster), SPEC_TF_CONFIG_BYTES);
}

int tfconfig_begin(struct supervisor *sv, struct error *err)
{
	_cleanup_(tfconfig_donep) struct tfconfig *c = NULL;

	if (!spec_tf_config(sv->spec))
		return 0;
	c = calloc(1, sizeof(*c));
	if (c)
		c->roles = calloc(sv->spec->n_roles, sizeof(*c->roles));
	if (!c || !c->roles)
		return error_set(err, -ENOMEM, "out of memory");
	c->n_roles = sv->spec->n_roles;
	for (size_t i = 0; i < c->n_roles; i++) {
		int n = sv->spec->roles[i].evaluator ? 0 : sv->replicas[i];
		int r = tfconfig_grow(sv, c, i, n, err);

		if (r < 0)
			return r;
	}
	c->cluster = tfconfig_cluster(sv, c, false);
	c->layer = sv->spec->rpc_layer ? tfconfig_layer(sv) : NULL;
	if (!c->cluster || (sv->spec->rpc_layer && !c->layer))
		return error_set(err, -ENOMEM, "out of memory");
	if (tfconfig_check_size(c, err) < 0)
		return -E2BIG;
	tfconfig_done(sv->tfconfig);
	sv->tfconfig = TAKE_PTR(c);
	return 0;
}

json_t *supervisor_addresses(const struct supervisor *sv, const char *host)
{
	const struct tfconfig *c = sv->tfconfig;
	json_t *list = c ? json_array() : NULL;

	for (size_t i = 0; list && i < c->n_roles; i++)
		for (int k = 0; k < c->roles[i].n; k++) {
			json_t *one = json_object();

			json_put(one, "role", json_string(sv->spec->roles[i].name));
			json_put_int(one, "index", sv->seat->roles[i].first_index + k);
			json_put(one, "address", tfconfig_address(host, &c->roles[i].ports[k]));
			json_add(list, one);
		}
	return list;
}

/* Puts an address into the cluster, whose lists have their lengths already. */
static int tfconfig_put_address(json_t *cluster, const json_t *one)
{
	json_t *list = json_object_get(cluster, json_get_string(one, "role", ""));
	json_int_t index = json_get_int(one, "index", -1);

	if (index < 0 || (size_t)index >= json_array_size(list))
		return -EINVAL;
	return json_array_set(list, (size_t)index, json_object_get(one, "address"));
}

/* Each role with as many nulls as it has workers. */
static json_t *tfconfig_no_addresses(const struct supervisor *sv)
{
	json_t *cluster = json_object();

	for (size_t i = 0; i < sv->spec->n_roles; i++) {
		json_t *list = sv->spec->roles[i].evaluator ? NULL : json_array();

		for (int k = 0; list && k < sv->seat->roles[i].role_size; k++)
			json_add(list, json_null());
		if (list)
			json_put(cluster, sv->spec->roles[i].name, list);
	}
	return cluster;
}

int tfconfig_set_cluster(struct supervisor *sv, const json_t *cluster, struct error *err)
{
	_cleanup_json_ json_t *all = NULL;
	const json_t *one;
	char *text;
	size_t i;

	if (!sv->tfconfig || !cluster)
		return 0;
	all = tfconfig_no_addresses(sv);
	json_array_foreach (cluster, i, one)
		if (tfconfig_put_address(all, one) < 0)
			return error_set(err, -EPROTO, "cluster: no worker %s:%d is expected",
				json_get_string(one, "role", ""),
				(int)json_get_int(one, "index", -1));
	text = json_dumps(all, JSON_COMPACT);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	free(sv->tfconfig->cluster);
	sv->tfconfig->cluster = text;
	return tfconfig_check_size(sv->tfconfig, err);
}

int tfconfig_worker_starting(struct supervisor *sv, const struct worker *w, struct error *err)
{
	if (!sv->tfconfig || !w->extra || w->role->evaluator)
		return 0;
	return tfconfig_grow(
		sv, sv->tfconfig, (size_t)(w->role - sv->spec->roles), w->index + 1, err);
}

int tfconfig_env(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct tfconfig *c = sv->tfconfig;
	_cleanup_free_ char *late = NULL;

	if (!c)
		return 0;
	if (w->extra) {
		late = tfconfig_cluster(sv, c, true);
		if (!late)
			return -ENOMEM;
	}
	return env_setf(e, "TF_CONFIG",
		"{\"cluster\":%s,\"task\":{\"type\":\"%s\",\"index\":%d}%s%s}",
		late ? late : c->cluster, w->role->name, w->index,
		c->layer ? ",\"rpc_layer\":" : "", c->layer ? c->layer : "");
}

void tfconfig_free(struct supervisor *sv)
{
	sv->tfconfig = tfconfig_done(sv->tfconfig);
}
