/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Addresses of sockets as text, and whether one is this host's. Called by links and by "doctor". */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { SOCKET_ADDRESS_MAX = 64 };

/* The address and port of a socket; text of SOCKET_ADDRESS_MAX bytes. */
void socket_address_text(const struct sockaddr *a, socklen_t len, char *text);
socklen_t socket_address_len(const struct sockaddr *a);

void socket_address_set_port(struct sockaddr_storage *a, int port);

/* Whether a is an address of this host; true as well where the kernel does not say. */
bool socket_address_is_here(const struct sockaddr *a);
/* This host's addresses with their interfaces, "127.0.0.1 (lo), 10.0.0.1 (eth0)", as far as they
 * fit. */
void socket_address_list(char *text, size_t size);
