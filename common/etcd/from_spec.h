/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the client of etcd that the section `rendezvous` of a job specification describes. */

#include "common/etcd/etcd.h"
#include "common/spec/spec.h"

/* Splits a list at its commas: n strings and a NULL, in one block. Returns owned, NULL without
 * memory. */
char **etcd_endpoints(const char *text, size_t *ret_n);

/* Also reads the file of the password. Returns as etcd_new(), or file_read()'s error with err. */
_must_check_ int etcd_new_from_spec(
	struct loop *loop, const struct spec_rendezvous *z, struct etcd **ret, struct error *err);
