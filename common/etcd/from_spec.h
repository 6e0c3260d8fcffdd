/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The client of etcd that the section `rendezvous` of a job specification asks for. */

#include "common/etcd/etcd.h"
#include "common/spec/spec.h"

/* The endpoints of a list with commas: n strings, and a NULL, in one block. Returns owned, NULL
 * without memory. */
char **etcd_endpoints(const char *text, size_t *ret_n);

/* Reads the password's file, too. Returns as etcd_new(), or what file_read() does, with err. */
_must_check_ int etcd_new_from_spec(
	struct loop *loop, const struct spec_rendezvous *z, struct etcd **ret, struct error *err);
