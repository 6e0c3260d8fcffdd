/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/local_address.h"
#include "common/base/scan.h"
#include "common/spec/table.h"
#include "common/text/duration.h"
#include "common/text/endpoint.h"
#include "common/text/topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The section `rendezvous`: where the hosts of a group meet, and how long each waits. */

static const struct {
	const char *name;
	enum spec_rendezvous_backend value;
} backend_names[] = {
	{ "local", SPEC_RENDEZVOUS_LOCAL },
	{ "static", SPEC_RENDEZVOUS_STATIC },
	{ "direct", SPEC_RENDEZVOUS_DIRECT },
	{ "c10d", SPEC_RENDEZVOUS_DIRECT },
	{ "etcd", SPEC_RENDEZVOUS_ETCD },
	{ "etcd-v2", SPEC_RENDEZVOUS_ETCD },
	{ "etcd-v3", SPEC_RENDEZVOUS_ETCD },
};
enum {
	ETCD_LEASE_LEAST_MS = 2000, /* a shorter one etcd makes longer */
	ETCD_LOSS_MOST_MS =
		50 * 60000, /* less than the hour for which etcd keeps what a group has */
};
enum { N_BACKENDS = sizeof(backend_names) / sizeof(backend_names[0]) };

static int backend_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = json_string_value(value);

	for (int i = 0; text && i < N_BACKENDS; i++) {
		if (!strcmp(text, backend_names[i].name)) {
			*(enum spec_rendezvous_backend *)field = backend_names[i].value;
			return 0;
		}
	}
	return spec_expected(ctx, key->type->expected, value);
}

static int backend_format(const struct spec_key *key, const void *field, json_t **ret)
{
	for (int i = 0; i < N_BACKENDS; i++)
		if (backend_names[i].value == *(const enum spec_rendezvous_backend *)field)
			return spec_give(json_string(backend_names[i].name), ret);
	return 0;
}

static const struct spec_type spec_type_backend = {
	.expected = "\"local\", \"static\", \"direct\" (or \"c10d\") or \"etcd\"",
	.parse = backend_parse,
	.format = backend_format,
};

int spec_nodes_parse(const char *text, int *ret_min, int *ret_max)
{
	const char *p = text;
	uint64_t min, max;
	int r = scan_u64(&p, &min);

	max = min;
	if (r == 0 && *p == ':') {
		p++;
		r = scan_u64(&p, &max);
	}
	if (r < 0 || *p || !min || min > max || max > SPEC_NODES_MAX)
		return -EINVAL;
	*ret_min = (int)min;
	*ret_max = (int)max;
	return 0;
}

static int nodes_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_rendezvous *s = SPEC_STRUCT_OF(field, spec_rendezvous, nodes_min);
	char number[32];
	const char *text = spec_text_or_number(ctx, key->type->expected, value, number);

	if (!text)
		return -EINVAL;
	if (spec_nodes_parse(text, &s->nodes_min, &s->nodes_max) < 0)
		return spec_expected(ctx, key->type->expected, value);
	return 0;
}

static int nodes_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_rendezvous *s = SPEC_STRUCT_OF(field, spec_rendezvous, nodes_min);
	char text[32];

	snprintf(text, sizeof(text), "%d:%d", s->nodes_min, s->nodes_max);
	return spec_give(json_string(text), ret);
}

static const struct spec_type spec_type_nodes = {
	.expected = SPEC_NODES_EXPECTED,
	.parse = nodes_parse,
	.format = nodes_format,
};
_Static_assert(SPEC_NODES_MAX == 16384, "the text above says so");

static int ports_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value), *p = text;
	uint64_t first, last;

	if (!text)
		return -EINVAL;
	if (scan_u64(&p, &first) < 0 || *p++ != '-' || scan_whole(p, 65535, &last) < 0 || !first ||
		first > last)
		return spec_expected(ctx, key->type->expected, value);
	*(struct spec_ports *)field = (struct spec_ports){ (int)first, (int)last };
	return 0;
}

static int ports_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_ports *ports = field;

	return ports->first ? spec_give(json_sprintf("%d-%d", ports->first, ports->last), ret) : 0;
}

static const struct spec_type spec_type_ports = {
	.expected = "\"FIRST-LAST\" with 1 <= FIRST <= LAST <= 65535",
	.parse = ports_parse,
	.format = ports_format,
};

/* "HOST", "HOST:PORT", and for etcd several of them, each perhaps with a scheme. */
static int endpoints_check(const char *text, const char *path, struct error *err)
{
	enum { ENDPOINTS_MAX = 16 };
	int n = 0;

	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		_cleanup_free_ char *one = strndup(p, len);
		struct endpoint e;
		int r = one ? endpoint_parse(endpoint_without_scheme(one), path, &e, err)
			    : error_set(err, -ENOMEM, "out of memory");

		if (r < 0)
			return r;
		if (++n > ENDPOINTS_MAX)
			return error_field(
				err, -EINVAL, path, "expected at most %d addresses", ENDPOINTS_MAX);
		p += len;
		if (!*p)
			return 0;
	}
}

static int endpoints_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);

	/* Which backend it is for may come later. */
	if (!text || endpoints_check(text, ctx->path, ctx->err) < 0)
		return -EINVAL;
	return spec_set_string(ctx, text, field);
}

static const struct spec_type spec_type_endpoint = {
	.expected = ENDPOINT_EXPECTED,
	.parse = endpoints_parse,
	.format = spec_format_text,
};

static int prefix_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	enum { PREFIX_MAX = 512 };
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (!*text || strlen(text) > PREFIX_MAX || text[strlen(text) - 1] == '/')
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

static const struct spec_type spec_type_etcd_prefix = {
	.expected = "1 to 512 bytes without a slash at the end",
	.parse = prefix_parse,
	.format = spec_format_text,
};

/* Only the agent knows what this host has: checks the form. */
static int host_address_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);
	bool good;

	if (!text)
		return -EINVAL;
	good = *text && strlen(text) < sizeof(((struct endpoint *)0)->host);
	for (const char *p = text; *p && good; p++)
		good = isgraph((unsigned char)*p) && !strchr("[],\"'\\", *p);
	if (!good || (strchr(text, '/') && !local_address_is_network(text)))
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

static const struct spec_type spec_type_host_address = {
	.expected = "an address, a network such as \"10.1.0.0/16\", or an interface",
	.parse = host_address_parse,
	.format = spec_format_text,
};

static int topology_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);

	if (!text)
		return -EINVAL;
	if (!topology_is(text))
		return spec_expected(ctx, key->type->expected, value);
	return spec_set_string(ctx, text, field);
}

static const struct spec_type spec_type_topology = {
	.expected = TOPOLOGY_EXPECTED,
	.parse = topology_parse,
	.format = spec_format_text,
};

static int quarantine_read(const char *text, struct spec_rendezvous *s)
{
	const char *p = text;
	uint64_t max;
	int64_t time_ms;

	if (!strcmp(text, "off") || !strcmp(text, "0")) {
		s->quarantine_max = 0;
		return 0;
	}
	if (scan_u64(&p, &max) < 0 || *p++ != '/' || !max || max > SPEC_QUARANTINE_MAX ||
		duration_parse(p, NULL, &time_ms, NULL) < 0 || time_ms < 1000)
		return -EINVAL;
	s->quarantine_max = (int)max;
	s->quarantine_ms = time_ms;
	return 0;
}

static int quarantine_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_rendezvous *s = SPEC_STRUCT_OF(field, spec_rendezvous, quarantine_max);
	char number[32];
	const char *text = spec_text_or_number(ctx, key->type->expected, value, number);

	if (!text)
		return -EINVAL;
	return quarantine_read(text, s) < 0 ? spec_expected(ctx, key->type->expected, value) : 0;
}

static int quarantine_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_rendezvous *s = SPEC_STRUCT_OF(field, spec_rendezvous, quarantine_max);
	char text[DURATION_TEXT_MAX];

	if (!s->quarantine_max)
		return spec_give(json_string("off"), ret);
	return spec_give(
		json_sprintf("%d/%s", s->quarantine_max, duration_format(s->quarantine_ms, text)),
		ret);
}

static const struct spec_type spec_type_quarantine = {
	.expected = "\"off\", 0 or \"N/TIME\" with 1 <= N <= 16 and TIME of at least 1s, such as "
		    "\"3/1h\"",
	.parse = quarantine_parse,
	.format = quarantine_format,
};
_Static_assert(SPEC_QUARANTINE_MAX == 16, "the text above says so");

static int lead_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = json_string_value(value);

	if (!text || (strcmp(text, "auto") && strcmp(text, "never")))
		return spec_expected(ctx, key->type->expected, value);
	*(bool *)field = !strcmp(text, "never");
	return 0;
}

static int lead_format(const struct spec_key *key, const void *field, json_t **ret)
{
	return spec_give(json_string(*(const bool *)field ? "never" : "auto"), ret);
}

static const struct spec_type spec_type_lead = {
	.expected = "\"auto\" or \"never\"",
	.parse = lead_parse,
	.format = lead_format,
};

static const char *const on_join_names[] = {
	[SPEC_ON_JOIN_RESTART] = "restart",
	[SPEC_ON_JOIN_SAVE] = "save",
	[SPEC_ON_JOIN_WAIT] = "wait",
	NULL,
};

static const struct spec_key tls_keys[] = {
	KEY("cert", path, spec_rendezvous, tls_cert),
	KEY("key", path, spec_rendezvous, tls_key),
	KEY("ca", path, spec_rendezvous, tls_ca),
	END,
};

const struct spec_key spec_keys_rendezvous[] = {
	KEY("backend", backend, spec_rendezvous, backend),
	KEY("nodes", nodes, spec_rendezvous, nodes_min),
	KEY("endpoints", endpoint, spec_rendezvous, endpoints),
	KEY("node_rank", int, spec_rendezvous, node_rank, .max = SPEC_NODES_MAX - 1),
	KEY("id", string, spec_rendezvous, id),
	KEY("master_addr", string, spec_rendezvous, master_addr),
	KEY("master_port", int, spec_rendezvous, master_port, .max = 65535),
	KEY("master_ports", ports, spec_rendezvous, master_ports),
	KEY("address", host_address, spec_rendezvous, address),
	KEY("join_timeout", duration, spec_rendezvous, join_timeout_ms, .min = 1),
	KEY("last_call", duration, spec_rendezvous, last_call_ms),
	KEY("prepare_timeout", duration, spec_rendezvous, prepare_timeout_ms, .min = 1),
	KEY("lease", duration, spec_rendezvous, lease_ms, .min = 100),
	KEY("join_delay", duration, spec_rendezvous, join_delay_ms),
	KEY("on_join", enum, spec_rendezvous, on_join, .names = on_join_names),
	KEY("topology", topology, spec_rendezvous, topology),
	KEY("segment", int, spec_rendezvous, segment, .min = 1, .max = SPEC_NODES_MAX),
	KEY("quarantine", quarantine, spec_rendezvous, quarantine_max),
	KEY("lead", lead, spec_rendezvous, never_leads),
	KEY("token_file", path, spec_rendezvous, token_file),
	KEY("store_loss", duration, spec_rendezvous, store_loss_ms),
	KEY("user", string, spec_rendezvous, user),
	KEY("password_file", path, spec_rendezvous, password_file),
	KEY("prefix", etcd_prefix, spec_rendezvous, prefix),
	{ .name = "tls", .type = &spec_type_object, .offset = 0, .keys = tls_keys },
	END,
};

void spec_rendezvous_init(struct spec_rendezvous *r)
{
	*r = (struct spec_rendezvous){
		.backend = (enum spec_rendezvous_backend)SPEC_UNSET,
		.nodes_min = 1,
		.nodes_max = 1,
		.node_rank = SPEC_UNSET,
		.join_timeout_ms = 600000,
		.last_call_ms = 30000,
		.prepare_timeout_ms = 60000,
		.lease_ms = 10000,
		.join_delay_ms = 3000,
		.store_loss_ms = 600000,
		.segment = 1,
		.quarantine_max = 3,
		.quarantine_ms = 3600000,
	};
}

void spec_rendezvous_fini(struct spec_rendezvous *r)
{
	free(r->endpoints);
	free(r->id);
	free(r->master_addr);
	free(r->address);
	free(r->topology);
	free(r->token_file);
	free(r->tls_cert);
	free(r->tls_key);
	free(r->tls_ca);
	free(r->user);
	free(r->password_file);
	free(r->prefix);
}

static bool backend_given(const struct spec_rendezvous *r)
{
	return (int)r->backend != SPEC_UNSET;
}

/* The backend that counts. LOCAL on several hosts: there is nothing to meet at. */
static enum spec_rendezvous_backend backend_of(const struct spec_rendezvous *r)
{
	if (r->nodes_max == 1)
		return r->backend == SPEC_RENDEZVOUS_STATIC ? SPEC_RENDEZVOUS_STATIC
							    : SPEC_RENDEZVOUS_LOCAL;
	if (backend_given(r))
		return r->backend;
	if (r->node_rank != SPEC_UNSET || r->master_addr)
		return SPEC_RENDEZVOUS_STATIC;
	return r->endpoints ? SPEC_RENDEZVOUS_DIRECT : SPEC_RENDEZVOUS_LOCAL;
}

static void check_static(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	if (r->nodes_min != r->nodes_max)
		spec_note(ctx, "rendezvous.nodes",
			"expected one number of hosts with the backend \"static\", got \"%d:%d\"",
			r->nodes_min, r->nodes_max);
	if (r->node_rank == SPEC_UNSET)
		spec_note(ctx, "rendezvous.node_rank",
			"expected this host's rank from 0 to %d, which the backend \"static\" "
			"needs",
			r->nodes_max - 1);
	if (!r->master_addr && !r->endpoints)
		spec_note(ctx, "rendezvous.master_addr",
			"expected the address of the host of node rank 0, which the backend "
			"\"static\" needs, or `endpoints`");
	if (r->node_rank == 0 && r->never_leads)
		spec_note(ctx, "rendezvous.lead",
			"expected \"auto\" at node rank 0, which leads with the backend "
			"\"static\"");
}

static void check_direct(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	if (!r->endpoints)
		spec_note(ctx, "rendezvous.endpoints",
			"expected HOST or HOST:PORT, which the backend \"direct\" needs");
	if (r->master_addr)
		spec_note(ctx, "rendezvous.master_addr",
			"needs the backend \"static\"; with \"direct\" it is an address of the "
			"host of rank 0, and `address` says which");
}

static void check_etcd(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	if (!r->endpoints)
		spec_note(ctx, "rendezvous.endpoints",
			"expected the addresses of etcd, which the backend \"etcd\" needs");
	if (!r->id)
		spec_note(ctx, "rendezvous.id",
			"expected the name of the group, which the backend \"etcd\" needs");
	else if (strchr(r->id, '/'))
		spec_note(ctx, "rendezvous.id",
			"expected a name without a slash with the backend \"etcd\"");
	if (r->master_addr)
		spec_note(ctx, "rendezvous.master_addr",
			"needs the backend \"static\"; with \"etcd\" it is an address of the host "
			"of rank 0, and `address` says which");
	if (r->store_loss_ms > ETCD_LOSS_MOST_MS)
		spec_note(ctx, "rendezvous.store_loss",
			"expected at most 50m with the backend \"etcd\"");
	if (r->lease_ms < ETCD_LEASE_LEAST_MS)
		spec_note(ctx, "rendezvous.lease",
			"expected at least 2s with the backend \"etcd\", got %lldms",
			(long long)r->lease_ms);
}

/* A list, or a scheme, is etcd's. */
static void check_one_endpoint(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	struct endpoint e;
	struct error err = { 0 };

	if (r->endpoints && endpoint_parse(r->endpoints, NULL, &e, &err) < 0)
		spec_note(ctx, "rendezvous.endpoints", "%s", err.text);
}

static void check_hosts(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	switch (backend_of(r)) {
	case SPEC_RENDEZVOUS_STATIC:
		check_static(ctx, r);
		check_one_endpoint(ctx, r);
		break;
	case SPEC_RENDEZVOUS_DIRECT:
		check_direct(ctx, r);
		check_one_endpoint(ctx, r);
		break;
	case SPEC_RENDEZVOUS_ETCD:
		check_etcd(ctx, r);
		break;
	case SPEC_RENDEZVOUS_LOCAL:
		if (backend_given(r))
			spec_note(ctx, "rendezvous.backend",
				"expected \"direct\", \"etcd\" or \"static\" for %d hosts, got "
				"\"local\"",
				r->nodes_max);
		else
			spec_note(ctx, "rendezvous.nodes",
				"%d hosts need something to meet at: `endpoints`, or `node_rank` "
				"and `master_addr`",
				r->nodes_max);
		break;
	}
}

static void check_security(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	const struct {
		const char *path, *value;
	} files[] = {
		{ "rendezvous.tls.cert", r->tls_cert },
		{ "rendezvous.tls.key", r->tls_key },
		{ "rendezvous.tls.ca", r->tls_ca },
	};
	bool any = r->tls_cert || r->tls_key || r->tls_ca;

	if (backend_of(r) == SPEC_RENDEZVOUS_ETCD) {
		if (!r->tls_cert != !r->tls_key)
			spec_note(ctx, files[!!r->tls_cert].path,
				"expected a file: `cert` and `key` go together");
		if (r->nodes_max > 1 && !r->user != !r->password_file)
			spec_note(ctx, r->user ? "rendezvous.password_file" : "rendezvous.user",
				"expected it: `user` and `password_file` go together");
		return;
	}
	for (int i = 0; i < 3; i++)
		if (any && !files[i].value)
			spec_note(ctx, files[i].path,
				"expected a file: `cert`, `key` and `ca` go together");
	if (any && r->token_file)
		spec_note(ctx, "rendezvous.tls", "expected `token_file` or certificates, got both");
}

static void check_master_ports(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	struct endpoint e;

	if (!r->master_ports.first)
		return;
	if (r->master_port)
		spec_note(ctx, "rendezvous.master_ports", "expected it or `master_port`, got both");
	else if (backend_of(r) == SPEC_RENDEZVOUS_STATIC && !r->master_addr && r->endpoints &&
		 endpoint_parse(r->endpoints, NULL, &e, NULL) == 0 && e.has_port)
		spec_note(ctx, "rendezvous.master_ports",
			"expected it or a port in `endpoints`, which is the master's with the "
			"backend \"static\", got both");
}

static void check_segment(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	if (r->nodes_min % r->segment || r->nodes_max % r->segment)
		spec_note(ctx, "rendezvous.segment",
			"expected a number that divides MIN and MAX of `nodes`, which are %d and "
			"%d, got %d",
			r->nodes_min, r->nodes_max, r->segment);
	if (r->segment > 1 && r->node_rank != SPEC_UNSET)
		spec_note(ctx, "rendezvous.segment",
			"expected it or `node_rank`, got both: hosts get their ranks in blocks");
}

void spec_check_rendezvous(struct spec_ctx *ctx, const struct spec_rendezvous *r)
{
	check_security(ctx, r);
	if (ctx->part)
		return;
	check_master_ports(ctx, r);
	check_segment(ctx, r);
	if (r->node_rank >= r->nodes_max)
		spec_note(ctx, "rendezvous.node_rank",
			"expected a rank below the number of hosts, which is %d, got %d",
			r->nodes_max, r->node_rank);
	if (r->nodes_max > 1)
		check_hosts(ctx, r);
}

int spec_rendezvous_complete(struct spec_rendezvous *r)
{
	struct endpoint e;

	r->backend = backend_of(r);
	if (r->backend == SPEC_RENDEZVOUS_ETCD && !r->prefix && !(r->prefix = strdup("/elasticd")))
		return -ENOMEM;
	if (r->backend != SPEC_RENDEZVOUS_STATIC || r->master_addr || !r->endpoints)
		return 0;
	if (endpoint_parse(r->endpoints, NULL, &e, NULL) < 0)
		return 0;
	r->master_addr = strdup(e.host);
	if (!r->master_port && e.has_port)
		r->master_port = e.port;
	return r->master_addr ? 0 : -ENOMEM;
}

int spec_rendezvous_endpoint(const struct spec_rendezvous *r, char **ret, struct error *err)
{
	enum { STATIC_PORT_APART = 10000 };
	int port = r->master_port;

	*ret = NULL;
	/* Each master's port has another one for links, outside the range of outgoing connections.
	 */
	port = !port				 ? ENDPOINT_PORT
	       : port > STATIC_PORT_APART + 1024 ? port - STATIC_PORT_APART
						 : port + STATIC_PORT_APART;
	if (r->backend == SPEC_RENDEZVOUS_ETCD)
		return 0;
	if (r->backend != SPEC_RENDEZVOUS_STATIC)
		*ret = strdup(r->endpoints);
	else if (asprintf(ret, strchr(r->master_addr, ':') ? "[%s]:%d" : "%s:%d", r->master_addr,
			 port) < 0)
		*ret = NULL;
	return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}
