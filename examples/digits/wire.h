/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TCP with a deadline on every wait and the peer's name in every error. Sockets are non-blocking
 * and close-on-exec. A peer that is lost or silent ends the worker (fail()).
 */

#include <stdint.h>
#include <sys/types.h>

/* Room for a host name or address. */
#define WIRE_HOST 256

/* Milliseconds of the monotonic clock. */
int64_t wire_now_ms(void);

/* Listens on host:port ("0" for any free one). Returns an owned descriptor. */
int wire_listen(const char *host, const char *port);

/* Listens on any free port of the address that the connected socket like has. */
int wire_listen_like(int like);

/* The port that the socket is bound to. */
uint16_t wire_port(int fd);

/* The address of the connected peer as a number, in host. */
void wire_peer_host(int fd, char host[WIRE_HOST]);

/* Connects, and tries again while no process listens there. who names the peer in errors. Returns
 * owned. */
int wire_connect(const char *host, const char *port, const char *who, int64_t deadline_ms);

/* The next connection, owned, or -1 when none came before the deadline. */
int wire_accept(int fd, int64_t deadline_ms);

/* Sends all n bytes; who names the peer in errors. */
void wire_send(int fd, const void *p, size_t n, const char *who, int64_t deadline_ms);

/* Receives n bytes. Returns 0, -ETIMEDOUT, or another negative errno (-ECONNRESET at the end). */
int wire_try_recv(int fd, void *p, size_t n, int64_t deadline_ms);

/* The same, but fails, naming the peer. */
void wire_recv(int fd, void *p, size_t n, const char *who, int64_t deadline_ms);

/* Sends and receives at the same time, so that a ring in which all send first cannot lock up.
 * Fails when nothing moves for timeout_ms. */
void wire_exchange(int to_fd, const void *out, size_t n_out, const char *to, int from_fd, void *in,
	size_t n_in, const char *from, int timeout_ms);
