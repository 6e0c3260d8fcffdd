/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/private.h"
#include "common/base/socket_address.h"

#include <errno.h>
#include <string.h>

/* The socket of the host that leads: at the first address of its endpoint that is this host's. */

enum { BACKLOG = 4096 };

static int listen_at(const struct sockaddr *a, int *ret)
{
	_cleanup_close_ int fd =
		socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, a, socket_address_len(a)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static int cannot_listen(const struct sockaddr *a, int code, struct error *err)
{
	char at[SOCKET_ADDRESS_MAX], here[512];

	socket_address_text(a, socket_address_len(a), at);
	if (code != -EADDRNOTAVAIL)
		return error_field(err, code, LINK_ENDPOINT_FIELD, "cannot listen on %s: %s", at,
			strerror(-code));
	socket_address_list(here, sizeof(here));
	return error_field(err, code, LINK_ENDPOINT_FIELD,
		"expected an address of this host (%s), got %s", here, at);
}

int link_bind(const struct link_addresses *addresses, int *ret, struct error *err)
{
	const struct sockaddr *a = NULL;
	int r = -EADDRNOTAVAIL;

	for (size_t i = 0; i < addresses->n && r == -EADDRNOTAVAIL; i++) {
		a = (const struct sockaddr *)&addresses->at[i];
		r = listen_at(a, ret);
	}
	if (!a)
		return error_field(err, r, LINK_ENDPOINT_FIELD, "it has no address");
	return r < 0 ? cannot_listen(a, r, err) : 0;
}
