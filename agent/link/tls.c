/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/tls.h"

#include "agent/link/tls_module.h"
#include "common/base/file.h"
#include "common/base/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define MODULE "link_tls.so"

struct link_tls {
	const struct link_tls_module *module;
	void *context;
	bool by_token;
};

struct link_tls_session {
	const struct link_tls *tls;
	void *session;
};

#if HAVE_OPENSSL

static const struct link_tls_module *loaded;

static int load_file(struct error *err)
{
	_cleanup_free_ char *path = paths_module(MODULE);
	void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
	const struct link_tls_module *m;

	if (!path)
		return error_set(err, -EOPNOTSUPP,
			"the module for TLS, " MODULE
			", was found neither beside this program nor in " LIBEXECDIR);
	if (!handle)
		return error_set(
			err, -EOPNOTSUPP, "the module for TLS cannot be loaded: %s", dlerror());
	m = dlsym(handle, "link_tls_module");
	if (!m || m->version != LINK_TLS_VERSION)
		return error_set(err, -EOPNOTSUPP, "%s: expected version %d of the module for TLS",
			path, LINK_TLS_VERSION);
	loaded = m;
	return 0;
}

static int load_module(const struct link_tls_module **ret, struct error *err)
{
	int r = loaded ? 0 : load_file(err);

	if (r == 0)
		*ret = loaded;
	return r;
}

#else

static int load_module(const struct link_tls_module **ret, struct error *err)
{
	return error_set(err, -EOPNOTSUPP,
		"a token or a certificate was given, but this elasticd was built without OpenSSL");
}

#endif

/* Without the newline at its end. */
static int check_token(char *token, const char *from, struct error *err)
{
	size_t len = strlen(token);

	while (len && (token[len - 1] == '\n' || token[len - 1] == '\r'))
		token[--len] = '\0';
	if (len < LINK_TOKEN_LEAST)
		return error_field(err, -EINVAL, LINK_TOKEN_FIELD,
			"%s: expected at least %d bytes, got %zu", from, LINK_TOKEN_LEAST, len);
	return 0;
}

static int read_token(const struct link_tls_options *o, char **ret, struct error *err)
{
	const char *file = o->token_file;
	const char *variable = getenv(LINK_TOKEN_VARIABLE);
	_cleanup_free_ char *token = NULL;
	size_t len;
	int r;

	if (o->token) {
		*ret = strdup(o->token);
		return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	if (!file && !variable)
		return 0;
	if (file) {
		r = file_read(file, LINK_TOKEN_MOST, &token, &len);
		if (r < 0)
			return error_field(err, -EINVAL, LINK_TOKEN_FIELD, "%s: %s", file,
				r == -EFBIG ? "expected at most 4096 bytes" : strerror(-r));
	} else {
		token = strdup(variable);
		if (!token)
			return error_set(err, -ENOMEM, "out of memory");
	}
	r = check_token(token, file ? file : LINK_TOKEN_VARIABLE, err);
	if (r == 0)
		*ret = TAKE_PTR(token);
	return r;
}

static int check_options(const struct link_tls_options *o, const char *token, struct error *err)
{
	int files = !!o->cert + !!o->key + !!o->ca;

	if (files != 0 && files != 3)
		return error_field(
			err, -EINVAL, "rendezvous.tls", "expected cert, key and ca together");
	if (files && token)
		return error_field(err, -EINVAL, "rendezvous.tls",
			"expected a token or certificates, got both");
	return 0;
}

int link_tls_new(const struct link_tls_options *o, struct link_tls **ret, struct error *err)
{
	_cleanup_(link_tls_freep) struct link_tls *t = calloc(1, sizeof(*t));
	_cleanup_free_ char *token = NULL;
	char text[512];
	int r = t ? read_token(o, &token, err) : error_set(err, -ENOMEM, "out of memory");

	if (r == 0)
		r = check_options(o, token, err);
	if (r < 0)
		return r;
	if (!token && !o->cert) {
		*ret = NULL;
		return 0;
	}
	r = load_module(&t->module, err);
	if (r < 0)
		return r;
	t->by_token = token;
	r = t->module->context_new(
		&(struct link_tls_settings){
			.token = token, .cert = o->cert, .key = o->key, .ca = o->ca },
		&t->context, text, sizeof(text));
	if (token)
		explicit_bzero(token, strlen(token));
	if (r < 0)
		return error_field(err, r, token ? LINK_TOKEN_FIELD : "rendezvous.tls", "%s", text);
	*ret = TAKE_PTR(t);
	return 0;
}

struct link_tls *link_tls_free(struct link_tls *t)
{
	if (!t)
		return NULL;
	if (t->context)
		t->module->context_free(t->context);
	free(t);
	return NULL;
}

struct link_tls_session *link_tls_session_new(const struct link_tls *t, const char *host)
{
	struct link_tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->tls = t;
	s->session = t->module->session_new(t->context, host);
	return s->session ? s : link_tls_session_free(s);
}

struct link_tls_session *link_tls_session_free(struct link_tls_session *s)
{
	if (!s)
		return NULL;
	if (s->session)
		s->tls->module->session_free(s->session);
	free(s);
	return NULL;
}

int link_tls_put(struct link_tls_session *s, const void *data, size_t len)
{
	return s->tls->module->put(s->session, data, len);
}

ssize_t link_tls_get(struct link_tls_session *s, void *data, size_t len, struct error *err)
{
	char text[256];
	bool was_ready = link_tls_ready(s);
	ssize_t n = s->tls->module->get(s->session, data, len, text, sizeof(text));

	if (n != -EPROTO)
		return n;
	error_field(err, -EPROTO, s->tls->by_token ? LINK_TOKEN_FIELD : "rendezvous.tls",
		was_ready	   ? "%s"
		: s->tls->by_token ? "expected the token of the other side, got another (%s)"
				   : "expected certificates of one authority (%s)",
		text);
	return n;
}

int link_tls_write(struct link_tls_session *s, const void *data, size_t len)
{
	return s->tls->module->write(s->session, data, len);
}

size_t link_tls_take(struct link_tls_session *s, void *data, size_t len)
{
	return s->tls->module->take(s->session, data, len);
}

bool link_tls_ready(struct link_tls_session *s)
{
	return s->tls->module->ready(s->session);
}
