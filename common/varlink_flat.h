/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The short way from a message to a method's flat handler: calls whose text is just method and flat
 * parameters (see flat.h) that fit the interface. Whatever it does not take, for whatever reason,
 * goes the general way, which takes everything that is taken here, with the same values. Pure.
 */

#include "common/flat.h"
#include "common/varlink_idl.h"
#include "common/varlink_server.h"

struct varlink_flat_target {
	const struct varlink_member *member;
	size_t name_len;
	varlink_flat_fn fn;
};

struct varlink_flat {
	const struct varlink_idl *idl;
	const struct varlink_range *ranges;
	size_t interface_len;
	struct varlink_flat_target *targets;
	size_t n;
};

/* methods may be NULL. What it is made of stays with the caller, and is there for as long as ret.
 * Returns 0, -ENOMEM, or -EINVAL for a method that idl does not have. */
_must_check_ int varlink_flat_init(struct varlink_flat *ret, const struct varlink_idl *idl,
	const struct varlink_flat_method *methods, const struct varlink_range *ranges);
void varlink_flat_fini(struct varlink_flat *f);

/* text is a whole message with its NUL. Returns the method and, in ret, its parameters, of text
 * that is written to; or NULL, and text is as before. */
const struct varlink_flat_target *varlink_flat_match(
	const struct varlink_flat *f, char *text, size_t len, struct flat *ret);
