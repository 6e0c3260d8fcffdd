/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/private.h"

#include "common/base/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define ENDPOINT_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:%"

static int parse_endpoint(const char *text, bool tls, struct etcd_endpoint *ret, struct error *err)
{
	char host[ENDPOINT_TEXT_MAX], quoted[QUOTE_MAX];
	const char *rest = text;
	struct endpoint e;
	size_t len;

	ret->tls = tls;
	if (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) {
		ret->tls = text[4] == 's';
		rest = strstr(text, "//") + 2;
	}
	len = strlen(rest);
	len -= len && rest[len - 1] == '/';
	if (len < sizeof(host)) {
		memcpy(host, rest, len);
		host[len] = '\0';
		if (endpoint_parse(host, NULL, &e, NULL) == 0 &&
			strspn(e.host, ENDPOINT_LETTERS) == strlen(e.host)) {
			e.port = e.has_port ? e.port : ETCD_PORT;
			endpoint_text(&e, ret->name);
			return 0;
		}
	}
	return error_set(err, -EINVAL,
		"expected an endpoint of etcd, HOST or HOST:PORT, with http:// or https:// before "
		"it or not, got %s",
		quote_text(text, quoted));
}

static int parse_endpoints(struct etcd *e, const struct etcd_options *o, struct error *err)
{
	unsigned random = 0;
	int r = 0;

	if (!o->n || o->n > ETCD_ENDPOINTS_MAX)
		return error_set(err, -EINVAL, "expected 1 to %d endpoints of etcd, got %zu",
			ETCD_ENDPOINTS_MAX, o->n);
	for (size_t i = 0; i < o->n && !r; i++)
		r = parse_endpoint(o->endpoints[i], o->tls, &e->endpoints[i], err);
	e->n = o->n;
	/* Early after the boot there may be none: then any will do. */
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	e->at = random % e->n;
	return r;
}

static int copy_user(struct etcd *e, const struct etcd_options *o, struct error *err)
{
	if (!o->user)
		return 0;
	e->user = strdup(o->user);
	if (!e->user)
		return error_set(err, -ENOMEM, "out of memory");
	if (etcd_encode_user(&e->login, o->user, o->password ? o->password : "") < 0)
		return error_set(err, -EINVAL, "etcd's user and password must be UTF-8");
	return e->login.failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int copy_file(const char *from, char **to)
{
	if (from && !(*to = strdup(from)))
		return -ENOMEM;
	return 0;
}

static int copy_files(struct etcd *e, const struct etcd_options *o, struct error *err)
{
	if (copy_file(o->ca, &e->ca) < 0 || copy_file(o->cert, &e->cert) < 0 ||
		copy_file(o->key, &e->key) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (!o->cert != !o->key)
		return error_set(err, -EINVAL,
			"a client certificate and its key belong together: name both, or none");
	return 0;
}

int etcd_new(struct loop *loop, const struct etcd_options *o, struct etcd **ret, struct error *err)
{
	_cleanup_(etcd_freep) struct etcd *e = calloc(1, sizeof(*e));
	struct etcd_wire_options files;
	int r;

	if (!e)
		return error_set(err, -ENOMEM, "out of memory");
	e->loop = loop;
	e->took_ms = -1;
	TAILQ_INIT(&e->calls);
	TAILQ_INIT(&e->writes);
	TAILQ_INIT(&e->watches);
	r = parse_endpoints(e, o, err);
	if (!r)
		r = copy_user(e, o, err);
	if (!r)
		r = copy_files(e, o, err);
	files = (struct etcd_wire_options){ .ca = e->ca, .cert = e->cert, .key = e->key };
	if (!r)
		r = etcd_wire_new(loop, &files, &e->wire, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(e);
	return 0;
}

int64_t etcd_took_ms(const struct etcd *e)
{
	return e->took_ms;
}

struct etcd *etcd_free(struct etcd *e)
{
	if (!e)
		return NULL;
	etcd_calls_fini(e);
	etcd_watches_fini(e);
	etcd_wire_free(e->wire);
	json_writer_fini(&e->login);
	free(e->token);
	free(e->user);
	free(e->ca);
	free(e->cert);
	free(e->key);
	free(e);
	return NULL;
}

void etcd_leave(struct etcd *e, size_t endpoint)
{
	if (e->at != endpoint || e->n == 1)
		return;
	e->at = (e->at + 1) % e->n;
	etcd_watches_leave(e, endpoint);
}

void etcd_forget_token(struct etcd *e, unsigned serial)
{
	e->no_users = false;
	if (e->token_serial != serial)
		return;
	free(e->token);
	e->token = NULL;
}
