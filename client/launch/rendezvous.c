/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"
#include "common/base/scan.h"
#include "common/spec/spec.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

/*
 * The flags that say how many hosts there are and where they meet. On one host they name what
 * workers find in MASTER_ADDR and MASTER_PORT; with more they become the section `rendezvous`. The
 * number of hosts is known only when all flags were read, so each flag checks its form alone.
 */

/* "N" or "MIN:MAX" with 0 < MIN <= MAX, or "auto". */
int launch_nnodes(struct launch_state *s, enum launch_id id, const char *text)
{
	const char *p = text;
	uint64_t min, max;
	char nodes[32];
	int r;

	if (!strcmp(text, "auto"))
		return launch_auto(s);
	r = scan_u64(&p, &min);
	max = min;
	if (r == 0 && *p == ':') {
		p++;
		r = scan_u64(&p, &max);
	}
	if (r < 0 || *p || !min || min > max)
		return launch_expected(s, id, "N or MIN:MAX with 0 < MIN <= MAX", text);
	if (max > SPEC_NODES_MAX)
		return launch_expected(s, id, "at most 16384 hosts", text);
	snprintf(nodes, sizeof(nodes), "%d:%d", (int)min, (int)max);
	return launch_set(s, "rendezvous", "nodes", json_string(nodes));
}

int launch_rdzv_backend(struct launch_state *s, enum launch_id id, const char *text)
{
	static const char *const known[] = { "static", "c10d", "direct", "etcd", "etcd-v2",
		"etcd-v3" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i]))
			return 0;
	return launch_expected(s, id, "static, c10d, direct, etcd, etcd-v2 or etcd-v3", text);
}

/* The port may be 0, which says on one host that any is right. */
static bool is_endpoint(const char *text)
{
	const char *colon = strrchr(text, ':'), *bracket = strchr(text, ']');
	bool bad = false;
	uint64_t port;

	/* A bare IPv6 address has colons of its own and no port; in brackets it may have one. */
	if (*text == '[') {
		bad = !bracket || (bracket[1] && bracket[1] != ':');
		colon = bad || !bracket[1] ? NULL : bracket + 1;
	} else if (colon && memchr(text, ':', colon - text)) {
		colon = NULL;
	}
	return !bad && colon != text && (!colon || scan_whole(colon + 1, 65535, &port) == 0);
}

/* etcd has several, each perhaps with a scheme; the specification knows which backend it is. */
int launch_rdzv_endpoint(struct launch_state *s, enum launch_id id, const char *text)
{
	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		_cleanup_free_ char *one = strndup(p, len);

		if (!one)
			return launch_no_memory(s);
		if (!is_endpoint(endpoint_without_scheme(one)))
			return launch_expected(s, id, ENDPOINT_EXPECTED, text);
		p += len;
		if (!*p)
			return 0;
	}
}

int launch_master_port(struct launch_state *s, enum launch_id id, const char *text)
{
	uint64_t port;

	if (scan_whole(text, 65535, &port) < 0)
		return launch_expected(s, id, "a port from 0 to 65535", text);
	return 0;
}

/* The value of a flag; NULL where it is not given, or empty. */
static const char *get_given(const struct launch_state *s, enum launch_id id)
{
	return s->values[id] && *s->values[id] ? s->values[id] : NULL;
}

static int set_master(
	struct launch_state *s, enum launch_id id, const char *addr, size_t len, const char *port)
{
	_cleanup_free_ char *host = strndup(addr, len);
	uint64_t number = 0;
	int r = launch_set(s, "rendezvous", "backend", json_string("static"));

	if (!host)
		return launch_no_memory(s);
	if (r == 0 && *host)
		r = launch_set(s, "rendezvous", "master_addr", launch_text_json(s, id, host));
	if (r == 0 && port && scan_whole(port, 65535, &number) == 0)
		r = launch_set(s, "rendezvous", "master_port", json_integer((json_int_t)number));
	return r;
}

/* HOST, HOST:PORT or [HOST]:PORT; launch_rdzv_endpoint() checked it. */
static int set_endpoint(struct launch_state *s, const char *text)
{
	const char *colon = strrchr(text, ':'), *end;

	if (*text == '[') {
		end = strchr(text, ']');
		return set_master(s, OPT_RDZV_ENDPOINT, text + 1, end - text - 1,
			end[1] == ':' ? end + 2 : NULL);
	}
	if (!colon || memchr(text, ':', colon - text))
		return set_master(s, OPT_RDZV_ENDPOINT, text, strlen(text), NULL);
	return set_master(s, OPT_RDZV_ENDPOINT, text, colon - text, colon + 1);
}

/*
 * On one host every backend but static means: an address of this host and a free port. So does
 * static, unless something names the address or the port, as in newer versions of torchrun.
 */
static int set_one_host(struct launch_state *s)
{
	const char *const *v = s->values;
	bool is_static = !v[OPT_STANDALONE] &&
			 (!v[OPT_RDZV_BACKEND] || !strcmp(v[OPT_RDZV_BACKEND], "static"));
	uint64_t rank;
	int r = 0;

	if (v[OPT_NODE_RANK] && scan_whole(v[OPT_NODE_RANK], 0, &rank) < 0)
		return launch_expected(
			s, OPT_NODE_RANK, "0, as there is one host", v[OPT_NODE_RANK]);
	if (v[OPT_RDZV_ID] && *v[OPT_RDZV_ID] && !v[OPT_STANDALONE])
		r = launch_set(
			s, "rendezvous", "id", launch_text_json(s, OPT_RDZV_ID, v[OPT_RDZV_ID]));
	if (r < 0)
		return r;
	if (is_static && v[OPT_RDZV_ENDPOINT] && *v[OPT_RDZV_ENDPOINT])
		return set_endpoint(s, v[OPT_RDZV_ENDPOINT]);
	if (is_static && (v[OPT_MASTER_ADDR] || v[OPT_MASTER_PORT]))
		return set_master(s, OPT_MASTER_ADDR, v[OPT_MASTER_ADDR] ? v[OPT_MASTER_ADDR] : "",
			v[OPT_MASTER_ADDR] ? strlen(v[OPT_MASTER_ADDR]) : 0, v[OPT_MASTER_PORT]);
	if (v[OPT_LOCAL_ADDR])
		return launch_set(s, "rendezvous", "master_addr",
			launch_text_json(s, OPT_LOCAL_ADDR, v[OPT_LOCAL_ADDR]));
	return 0;
}

static int set_text(struct launch_state *s, enum launch_id id, const char *key)
{
	const char *text = get_given(s, id);

	return text ? launch_set(s, "rendezvous", key, launch_text_json(s, id, text)) : 0;
}

/* Sets the backend that a flag names, and says in ret which one it is: by the flag or the job file;
 * "": by what is given. */
static int set_backend(struct launch_state *s, const char **ret)
{
	const json_t *section = json_object_get(s->doc, "rendezvous");
	const char *backend = get_given(s, OPT_RDZV_BACKEND);
	int r = 0;

	if (backend && !strcmp(backend, "c10d"))
		backend = "direct";
	if (backend && !strncmp(backend, "etcd", 4))
		backend = "etcd";
	if (backend)
		r = launch_set(s, "rendezvous", "backend", json_string(backend));
	else
		backend = json_get_string(section, "backend", NULL);
	if (!backend)
		*ret = "";
	else if (!strcmp(backend, "c10d"))
		*ret = "direct";
	else
		*ret = strncmp(backend, "etcd", 4) ? backend : "etcd";
	return r;
}

/* As torchrun's c10d, direct and etcd choose the master's address and port themselves. */
static int set_given_master(struct launch_state *s, const char *backend)
{
	bool chooses = !strcmp(backend, "direct") || !strcmp(backend, "etcd");
	const char *port = get_given(s, OPT_MASTER_PORT);
	uint64_t number;
	int r;

	if (chooses && !get_given(s, OPT_MASTER_ADDR) && !port)
		return 0;
	if (chooses)
		return launch_warn(s,
			"--master-addr and --master-port have no effect with the backend %s",
			backend);
	r = set_text(s, OPT_MASTER_ADDR, "master_addr");
	if (r == 0 && port && scan_whole(port, 65535, &number) == 0)
		r = launch_set(s, "rendezvous", "master_port", json_integer((json_int_t)number));
	return r;
}

static int set_node_rank(struct launch_state *s, int hosts)
{
	const char *text = get_given(s, OPT_NODE_RANK);
	char expected[80];
	uint64_t rank;

	if (!text)
		return 0;
	snprintf(expected, sizeof(expected), "a rank from 0 to %d, as there are %d hosts",
		hosts - 1, hosts);
	if (scan_whole(text, (uint64_t)hosts - 1, &rank) < 0)
		return launch_expected(s, OPT_NODE_RANK, expected, text);
	return launch_set(s, "rendezvous", "node_rank", json_integer((json_int_t)rank));
}

/* Names the flags that would help where the number of hosts came from one. */
static int check_place(const struct launch_state *s, int hosts)
{
	static const char *const keys[] = { "backend", "endpoints", "node_rank", "master_addr" };
	const json_t *section = json_object_get(s->doc, "rendezvous");

	if (!s->values[OPT_NNODES])
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(section, keys[i]))
			return 0;
	return launch_refuse(s, OPT_NNODES,
		"%d hosts need something to meet at: --rdzv-endpoint, or --node-rank and "
		"--master-addr, or --nnodes=auto in a step of Slurm",
		hosts);
}

static int set_several_hosts(struct launch_state *s, int hosts)
{
	const char *endpoint = get_given(s, OPT_RDZV_ENDPOINT);
	char origin[LAUNCH_PET_MAX];
	const char *backend = "";
	struct endpoint e;
	int r;

	if (s->values[OPT_STANDALONE])
		return launch_refuse(s, OPT_STANDALONE, "is for one host, and there are %d", hosts);
	r = set_backend(s, &backend);
	if (r == 0 && endpoint && strcmp(backend, "etcd") != 0)
		r = endpoint_parse(
			endpoint, launch_origin(s, OPT_RDZV_ENDPOINT, origin), &e, s->err);
	if (r == 0)
		r = set_text(s, OPT_RDZV_ENDPOINT, "endpoints");
	if (r == 0)
		r = set_text(s, OPT_RDZV_ID, "id");
	if (r == 0)
		r = set_text(s, OPT_LOCAL_ADDR, "address");
	if (r == 0)
		r = set_given_master(s, backend);
	if (r == 0)
		r = launch_conf(s, hosts);
	if (r == 0)
		r = set_node_rank(s, hosts);
	if (r == 0)
		r = launch_auto_complete(s);
	return r < 0 ? r : check_place(s, hosts);
}

/* The most hosts that the document names. */
static int hosts_of(const json_t *doc)
{
	const json_t *nodes = json_object_get(json_object_get(doc, "rendezvous"), "nodes");
	int min, max = 1;

	if (json_is_integer(nodes))
		return json_integer_value(nodes) <= SPEC_NODES_MAX ? (int)json_integer_value(nodes)
								   : 1;
	if (!json_is_string(nodes) || spec_nodes_parse(json_string_value(nodes), &min, &max) < 0)
		return 1;
	return max;
}

int launch_rendezvous(struct launch_state *s)
{
	int hosts = hosts_of(s->doc), r;

	if (hosts > 1)
		return set_several_hosts(s, hosts);
	if (s->from->hosts_only && get_given(s, OPT_RDZV_ENDPOINT) && !s->values[OPT_STANDALONE])
		return launch_refuse(
			s, OPT_NNODES, "expected how many hosts meet at the endpoint, two or more");
	r = set_one_host(s);
	return r < 0 || s->values[OPT_STANDALONE] ? r : launch_auto_complete(s);
}
