/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/from_spec.h"

#include "common/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char **etcd_endpoints(const char *text, size_t *ret_n)
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

int etcd_new_from_spec(
	struct loop *loop, const struct spec_rendezvous *z, struct etcd **ret, struct error *err)
{
	_cleanup_free_ char *password = NULL;
	size_t n = 0;
	_cleanup_free_ char **endpoints = etcd_endpoints(z->endpoints, &n);
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
	r = etcd_new(loop, &o, ret, err);
	if (password)
		explicit_bzero(password, strlen(password));
	return r;
}
