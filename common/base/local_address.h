/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The address under which other hosts reach this one, as a user names it (rendezvous.address). */

#include "common/base/error.h"

#include <stdbool.h>
#include <sys/socket.h>

/* Whether text is a network, such as "10.1.0.0/16". */
bool local_address_is_network(const char *text);

/* text: an address of this host or a name, which are taken as they are; a network
 * ("10.1.0.0/16"), of which this host's address is taken; or an interface ("eth0"), of which the
 * first address is; NULL: *ret becomes NULL. Returns 0 and an owned ret, -ENOMEM, or -EINVAL with
 * err, which lists this host's addresses. */
int local_address_find(const char *text, char **ret, struct error *err)
	__attribute__((warn_unused_result));

/* The address from which this host reaches to, with any port. Sends nothing. Returns 0 or a
 * negative errno. */
int local_address_towards(const struct sockaddr *to, struct sockaddr_storage *ret)
	__attribute__((warn_unused_result));
