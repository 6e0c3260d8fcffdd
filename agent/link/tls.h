/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The secrets of a group's links: a token that all hosts have, or certificates. Loads the module
 * that knows OpenSSL. Called by the owner of links, and by channel.c.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>

struct link_tls;
struct link_tls_session;

#define LINK_TOKEN_FIELD "rendezvous.token_file"
#define LINK_TOKEN_VARIABLE "ELASTICD_RDZV_TOKEN"

/* An eavesdropper could guess a shorter token from the handshake. */
enum { LINK_TOKEN_LEAST = 16, LINK_TOKEN_MOST = 4096 };

struct link_tls_options {
	const char *token;	     /* as if it stood in the file */
	const char *token_file;	     /* both NULL: $ELASTICD_RDZV_TOKEN, if that is set */
	const char *cert, *key, *ca; /* PEM; all three or none */
};

/*
 * Returns 0 and an owned ret, or NULL in it where there is no secret: links are then open.
 * -EINVAL with err for a file that cannot be used, or a token and certificates together;
 * -EOPNOTSUPP where the module is not there.
 */
_must_check_ int link_tls_new(
	const struct link_tls_options *o, struct link_tls **ret, struct error *err);
/* All sessions must have been freed. */
struct link_tls *link_tls_free(struct link_tls *t);
DEFINE_CLEANUP(struct link_tls *, link_tls_free)

/* Below: called by channel.c. host as the module's; NULL without memory. */
struct link_tls_session *link_tls_session_new(const struct link_tls *t, const char *host);
struct link_tls_session *link_tls_session_free(struct link_tls_session *s);
/* As the module's functions; text in err, with its field. */
_must_check_ int link_tls_put(struct link_tls_session *s, const void *data, size_t len);
_must_check_ ssize_t link_tls_get(
	struct link_tls_session *s, void *data, size_t len, struct error *err);
_must_check_ int link_tls_write(struct link_tls_session *s, const void *data, size_t len);
size_t link_tls_take(struct link_tls_session *s, void *data, size_t len);
bool link_tls_ready(struct link_tls_session *s);
