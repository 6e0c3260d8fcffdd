/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table that link_tls.so exports as link_tls_module. That module alone is linked with OpenSSL,
 * and a process loads it only for a token or a certificate. It encrypts and decrypts bytes in
 * memory, and never touches sockets or messages. Functions write text for people, without a
 * newline, into the size bytes at text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LINK_TLS_VERSION = 1 };

struct link_tls_settings {
	const char *token; /* NUL-ended; NULL: the three files, of PEM */
	const char *cert, *key, *ca;
};

struct link_tls_module {
	unsigned version; /* LINK_TLS_VERSION */
	/* Returns 0 or -EINVAL with text. */
	int (*context_new)(const struct link_tls_settings *s, void **ret, char *text, size_t size);
	void (*context_free)(void *context);
	/* host: the name that a server's certificate must have; NULL for a server. NULL without
	 * memory. */
	void *(*session_new)(void *context, const char *host);
	void (*session_free)(void *session);
	/* Takes bytes of the other side. 0 or -ENOMEM. */
	int (*put)(void *session, const void *data, size_t len);
	/* Decrypts some. Returns a length, 0 (nothing yet), -ECONNRESET at the end, or -EPROTO with
	 * text. */
	ssize_t (*get)(void *session, void *data, size_t len, char *text, size_t size);
	/* Encrypts all of it. 0, or -EPROTO before the handshake is over. */
	int (*write)(void *session, const void *data, size_t len);
	/* Takes encrypted bytes for the other side: a length, 0: there are none. */
	size_t (*take)(void *session, void *data, size_t len);
	bool (*ready)(void *session); /* the handshake is over */
};
