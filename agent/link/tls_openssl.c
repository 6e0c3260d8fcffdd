/* SPDX-License-Identifier: Apache-2.0 */
/* The module link_tls.so: TLS 1.3 with an external pre-shared key, or with certificates on both
 * sides, between buffers in memory. */
#include "agent/link/tls_module.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 32 };

static const unsigned char cipher_id[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */
static const char identity[] = "elasticd";

struct context {
	SSL_CTX *ssl;
	bool has_key;
	unsigned char key[KEY_BYTES];
};

struct session {
	SSL *ssl;
	BIO *in, *out;
	bool ready, must_have_key;
};

__attribute__((visibility("default"))) extern const struct link_tls_module link_tls_module;

/* Writes what failed, and the reason of OpenSSL's newest error. */
static void describe_failure(char *text, size_t size, const char *what)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e ? ERR_reason_error_string(e) : NULL;

	snprintf(text, size, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
	ERR_clear_error();
}

static SSL_SESSION *key_session(SSL *ssl)
{
	const struct context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
	SSL_SESSION *s = SSL_SESSION_new();

	if (s && cipher && SSL_SESSION_set1_master_key(s, c->key, KEY_BYTES) &&
		SSL_SESSION_set_cipher(s, cipher) &&
		SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
		return s;
	SSL_SESSION_free(s);
	return NULL;
}

static int on_use_key(
	SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len, SSL_SESSION **ret)
{
	*id = (const unsigned char *)identity;
	*id_len = sizeof(identity) - 1;
	*ret = NULL;
	if (md && !EVP_MD_is_a(md, "SHA256"))
		return 1;
	*ret = key_session(ssl);
	return *ret != NULL;
}

static int on_find_key(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **ret)
{
	*ret = NULL;
	if (id_len != sizeof(identity) - 1 || memcmp(id, identity, id_len) != 0)
		return 1;
	*ret = key_session(ssl);
	return *ret != NULL;
}

static int use_token(struct context *c, const char *token)
{
	static const char label[] = "elasticd link 1:";
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int r = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) &&
				EVP_DigestUpdate(md, label, sizeof(label) - 1) &&
				EVP_DigestUpdate(md, token, strlen(token)) &&
				EVP_DigestFinal_ex(md, c->key, NULL)
			? 0
			: -EINVAL;

	EVP_MD_CTX_free(md);
	c->has_key = true;
	SSL_CTX_set_psk_use_session_callback(c->ssl, on_use_key);
	SSL_CTX_set_psk_find_session_callback(c->ssl, on_find_key);
	/* A side that shows a certificate instead is trusted by nothing. */
	SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return r;
}

static int use_files(struct context *c, const struct link_tls_settings *s, char *text, size_t size)
{
	const char *wrong = NULL;

	if (SSL_CTX_use_certificate_chain_file(c->ssl, s->cert) != 1)
		wrong = s->cert;
	else if (SSL_CTX_use_PrivateKey_file(c->ssl, s->key, SSL_FILETYPE_PEM) != 1)
		wrong = s->key;
	else if (SSL_CTX_load_verify_locations(c->ssl, s->ca, NULL) != 1)
		wrong = s->ca;
	if (wrong) {
		describe_failure(text, size, wrong);
		return -EINVAL;
	}
	SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

static void context_free(void *context)
{
	struct context *c = context;

	if (!c)
		return;
	SSL_CTX_free(c->ssl);
	OPENSSL_cleanse(c->key, sizeof(c->key));
	free(c);
}

static int context_new(const struct link_tls_settings *s, void **ret, char *text, size_t size)
{
	struct context *c = calloc(1, sizeof(*c));
	int r = -EINVAL;

	snprintf(text, size, "out of memory");
	if (!c)
		return r;
	c->ssl = SSL_CTX_new(TLS_method());
	if (c->ssl && SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) &&
		SSL_CTX_set_ciphersuites(c->ssl, "TLS_AES_128_GCM_SHA256")) {
		SSL_CTX_set_app_data(c->ssl, c);
		SSL_CTX_set_num_tickets(c->ssl, 0);
		SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
		/* An idle link keeps no buffers. */
		SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
		r = s->token ? use_token(c, s->token) : use_files(c, s, text, size);
	}
	if (r < 0) {
		context_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static void session_free(void *session)
{
	struct session *s = session;

	if (!s)
		return;
	SSL_free(s->ssl); /* and its buffers */
	free(s);
}

/* A name, or an address, that the server's certificate must be for. */
static bool expect_host(SSL *ssl, const char *host)
{
	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host))
		return true;
	ERR_clear_error();
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

static bool prepare(struct session *s, const struct context *c, const char *host)
{
	if (!host) {
		SSL_set_accept_state(s->ssl);
		/* OpenSSL wants a context of a server that verifies its peers, but not of a client.
		 */
		return SSL_set_session_id_context(
			s->ssl, (const unsigned char *)identity, sizeof(identity) - 1);
	}
	SSL_set_connect_state(s->ssl);
	return c->has_key || expect_host(s->ssl, host);
}

static void *session_new(void *context, const char *host)
{
	struct context *c = context;
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->must_have_key = c->has_key;
	s->ssl = SSL_new(c->ssl);
	s->in = BIO_new(BIO_s_mem());
	s->out = BIO_new(BIO_s_mem());
	if (!s->ssl || !s->in || !s->out) {
		BIO_free(s->in);
		BIO_free(s->out);
		SSL_free(s->ssl);
		free(s);
		return NULL;
	}
	SSL_set_bio(s->ssl, s->in, s->out);
	if (!prepare(s, c, host)) {
		session_free(s);
		return NULL;
	}
	if (host)
		(void)!SSL_do_handshake(s->ssl); /* its first bytes */
	ERR_clear_error();
	return s;
}

static int session_put(void *session, const void *data, size_t len)
{
	struct session *s = session;

	return BIO_write(s->in, data, (int)len) == (int)len ? 0 : -ENOMEM;
}

static int shake_hands(struct session *s, char *text, size_t size)
{
	int r = SSL_do_handshake(s->ssl);

	if (r != 1 && SSL_get_error(s->ssl, r) == SSL_ERROR_WANT_READ)
		return 0;
	if (r == 1 && (!s->must_have_key || SSL_session_reused(s->ssl))) {
		s->ready = true;
		return 1;
	}
	describe_failure(text, size, "the handshake of TLS failed");
	return -EPROTO;
}

static ssize_t session_get(void *session, void *data, size_t len, char *text, size_t size)
{
	struct session *s = session;
	int r;

	ERR_clear_error();
	if (!s->ready) {
		r = shake_hands(s, text, size);
		if (r <= 0)
			return r;
	}
	r = SSL_read(s->ssl, data, (int)len);
	if (r > 0)
		return r;
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		return -ECONNRESET;
	default:
		describe_failure(text, size, "TLS failed");
		return -EPROTO;
	}
}

static int session_write(void *session, const void *data, size_t len)
{
	struct session *s = session;

	ERR_clear_error();
	if (!s->ready)
		return -EPROTO;
	return SSL_write(s->ssl, data, (int)len) == (int)len ? 0 : -EPROTO;
}

static size_t session_take(void *session, void *data, size_t len)
{
	struct session *s = session;
	int n = BIO_read(s->out, data, (int)len);

	return n > 0 ? (size_t)n : 0;
}

static bool session_ready(void *session)
{
	return ((struct session *)session)->ready;
}

const struct link_tls_module link_tls_module = {
	.version = LINK_TLS_VERSION,
	.context_new = context_new,
	.context_free = context_free,
	.session_new = session_new,
	.session_free = session_free,
	.put = session_put,
	.get = session_get,
	.write = session_write,
	.take = session_take,
	.ready = session_ready,
};
