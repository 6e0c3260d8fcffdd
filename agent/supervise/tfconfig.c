/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/tfconfig.h"

#include "agent/process/port.h"
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
	char *cluster; /* JSON of the tasks of the specification */
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

/* Holds ports for a role until there are n, or no more than before. */
static int tfconfig_grow(
	const struct agent *a, struct tfconfig *c, size_t role, int n, struct error *err)
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
				a->spec->roles[role].name, of->n, strerror(-r));
			while (of->n > before)
				port_release(&of->ports[--of->n]);
			return r;
		}
		of->n++;
	}
	return 0;
}

/* "host:port", "[::1]:port" */
static json_t *tfconfig_address(const struct agent *a, const struct port *port)
{
	const char *host = a->spec->rendezvous.master_addr;

	if (!host)
		host = "127.0.0.1";
	return json_sprintf(
		strchr(host, ':') && *host != '[' ? "[%s]:%d" : "%s:%d", host, port->number);
}

/* Owned JSON of the cluster: the tasks that know each other since the incarnation began, and for
 * one that came late those that came late. NULL without memory. */
static char *tfconfig_cluster(const struct agent *a, const struct tfconfig *c, bool late)
{
	_cleanup_json_ json_t *cluster = json_object();

	for (size_t i = 0; i < c->n_roles; i++) {
		const struct tfconfig_role *of = &c->roles[i];
		int n = late || of->n < a->replicas[i] ? of->n : a->replicas[i];
		json_t *list;

		if (a->spec->roles[i].evaluator)
			continue;
		list = json_array();
		if (json_put(cluster, a->spec->roles[i].name, list) < 0)
			return NULL;
		for (int k = 0; k < n; k++)
			if (json_add(list, tfconfig_address(a, &of->ports[k])) < 0)
				return NULL;
	}
	return json_dumps(cluster, JSON_COMPACT);
}

static char *tfconfig_layer(const struct agent *a)
{
	_cleanup_json_ json_t *text = json_string(a->spec->rpc_layer);

	return json_dumps(text, JSON_ENCODE_ANY);
}

int tfconfig_begin(struct agent *a, struct error *err)
{
	_cleanup_(tfconfig_donep) struct tfconfig *c = NULL;

	if (!spec_tf_config(a->spec))
		return 0;
	c = calloc(1, sizeof(*c));
	if (c)
		c->roles = calloc(a->spec->n_roles, sizeof(*c->roles));
	if (!c || !c->roles)
		return error_set(err, -ENOMEM, "out of memory");
	c->n_roles = a->spec->n_roles;
	for (size_t i = 0; i < c->n_roles; i++) {
		int n = a->spec->roles[i].evaluator ? 0 : a->replicas[i];
		int r = tfconfig_grow(a, c, i, n, err);

		if (r < 0)
			return r;
	}
	c->cluster = tfconfig_cluster(a, c, false);
	c->layer = a->spec->rpc_layer ? tfconfig_layer(a) : NULL;
	if (!c->cluster || (a->spec->rpc_layer && !c->layer))
		return error_set(err, -ENOMEM, "out of memory");
	/* The group may have grown since its specification was checked. */
	if (strlen(c->cluster) > SPEC_TF_CONFIG_BYTES)
		return error_set(err, -E2BIG,
			"the addresses of all workers are %zu bytes of TF_CONFIG, expected at most "
			"%d",
			strlen(c->cluster), SPEC_TF_CONFIG_BYTES);
	tfconfig_done(a->tfconfig);
	a->tfconfig = TAKE_PTR(c);
	return 0;
}

int tfconfig_task_starting(struct agent *a, const struct task *t, struct error *err)
{
	if (!a->tfconfig || !t->extra || t->role->evaluator)
		return 0;
	for (size_t i = 0; i < a->tfconfig->n_roles; i++)
		if (!strcmp(a->spec->roles[i].name, t->role->name))
			return tfconfig_grow(a, a->tfconfig, i, t->index + 1, err);
	return 0;
}

int tfconfig_env(const struct agent *a, const struct task *t, struct env *e)
{
	const struct tfconfig *c = a->tfconfig;
	_cleanup_free_ char *late = NULL;

	if (!c)
		return 0;
	if (t->extra) {
		late = tfconfig_cluster(a, c, true);
		if (!late)
			return -ENOMEM;
	}
	return env_setf(e, "TF_CONFIG",
		"{\"cluster\":%s,\"task\":{\"type\":\"%s\",\"index\":%d}%s%s}",
		late ? late : c->cluster, t->role->name, t->index,
		c->layer ? ",\"rpc_layer\":" : "", c->layer ? c->layer : "");
}

void tfconfig_free(struct agent *a)
{
	a->tfconfig = tfconfig_done(a->tfconfig);
}
