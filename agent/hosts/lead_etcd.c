/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/private.h"
#include "common/base/file.h"
#include "common/text/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The client of etcd, from the section `rendezvous` of the specification. */

/* The endpoints apart: n strings, and a NULL, in one block. NULL without memory. */
static char **etcd_split(const char *text, size_t *ret_n)
{
	size_t n = 1, k = 0, room;
	char **list, *copy, *rest;

	for (const char *p = text; *p; p++)
		n += *p == ',';
	room = (n + 1) * sizeof(char *);
	list = calloc(1, room + strlen(text) + 1);
	if (!list)
		return NULL;
	copy = (char *)list + room;
	strcpy(copy, text);
	while (k < n && (list[k] = strtok_r(k ? NULL : copy, ",", &rest)))
		k++;
	*ret_n = k;
	return list;
}

static int etcd_password(const char *file, char **ret, struct error *err)
{
	enum { PASSWORD_MAX = 4096 };
	int r = file_read(file, PASSWORD_MAX, ret, NULL);

	if (r < 0)
		return error_field(
			err, r, "rendezvous.password_file", "%s: %s", file, strerror(-r));
	(*ret)[strcspn(*ret, "\r\n")] = '\0';
	return 0;
}

int lead_etcd_new(struct lead *l, struct error *err)
{
	const struct spec_rendezvous *z = &l->hosts->spec->rendezvous;
	_cleanup_free_ char *password = NULL;
	size_t n = 0;
	_cleanup_free_ char **endpoints = etcd_split(z->endpoints, &n);
	struct etcd_options o = { .endpoints = (const char *const *)endpoints,
		.n = n,
		.tls = z->tls_ca || z->tls_cert,
		.ca = z->tls_ca,
		.cert = z->tls_cert,
		.key = z->tls_key,
		.user = z->user };
	int r;

	if (!endpoints)
		return error_set(err, -ENOMEM, "out of memory");
	if (z->password_file && (r = etcd_password(z->password_file, &password, err)) < 0)
		return r;
	o.password = password;
	r = etcd_new(supervisor_loop(l->hosts->sv), &o, &l->etcd, err);
	if (password)
		explicit_bzero(password, strlen(password));
	return r;
}

int lead_endpoint(struct lead *l, struct endpoint *ret, struct error *err)
{
	size_t n = 0;
	_cleanup_free_ char **endpoints = etcd_split(l->hosts->spec->rendezvous.endpoints, &n);

	if (!endpoints)
		return error_set(err, -ENOMEM, "out of memory");
	return endpoint_parse(endpoint_without_scheme(endpoints[l->endpoint % n]),
		"rendezvous.endpoints", ret, err);
}
