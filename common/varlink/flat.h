/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fast way from a message to a method's flat handler, for calls with nothing but a method and
 * flat parameters (see common/text/json_flat.h) that fit the interface. All other calls go the
 * general way to the same handler, with the same values. Pure.
 */

#include "common/text/json_flat.h"
#include "common/varlink/idl.h"
#include "common/varlink/server.h"

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

/* methods may be NULL. Borrows idl and methods for the life of ret. Returns 0, -ENOMEM, or -EINVAL
 * for a method that idl lacks, or that has too many parameters. */
_must_check_ int varlink_flat_init(struct varlink_flat *ret, const struct varlink_idl *idl,
	const struct varlink_flat_method *methods, const struct varlink_range *ranges);
void varlink_flat_fini(struct varlink_flat *f);

/* The method of that name, len bytes; NULL: it has no flat handler. */
const struct varlink_flat_target *varlink_flat_find(
	const struct varlink_flat *f, const char *name, size_t len);

/* text is a whole message with its NUL. Returns the method and, in ret, its parameters, which point
 * into text (changed); or NULL with text unchanged. */
const struct varlink_flat_target *varlink_flat_match(
	const struct varlink_flat *f, char *text, size_t len, struct flat *ret);
