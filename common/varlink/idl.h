/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses a varlink interface's text into types (varlink.org, "Interface Definition"). Pure. The
 * result borrows nothing and does not change.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum varlink_kind {
	VARLINK_BOOL,
	VARLINK_INT,
	VARLINK_FLOAT,
	VARLINK_STRING,
	VARLINK_OBJECT, /* any JSON object */
	VARLINK_ENUM,
	VARLINK_STRUCT,
	VARLINK_ARRAY,
	VARLINK_MAP,
	VARLINK_NAMED,
};

struct varlink_field;

struct varlink_type {
	enum varlink_kind kind;
	bool nullable;
	struct varlink_type *element; /* of an array or a map */
	struct varlink_field *fields; /* of a struct; of an enum: its values, names only */
	size_t n_fields;
	char *name; /* of a named type */
	const struct varlink_type *target;
	int line, column; /* of a named type's use */
};

struct varlink_field {
	char *name;
	struct varlink_type type;
};

enum varlink_member_kind { VARLINK_TYPE, VARLINK_METHOD, VARLINK_ERROR };

struct varlink_member {
	enum varlink_member_kind kind;
	char *name;
	struct varlink_type type; /* the type, the method's parameters, the error's parameters */
	struct varlink_type out;  /* the method's reply */
};

struct varlink_idl {
	char *name;
	struct varlink_member *members; /* in the text's order; names differ within a kind */
	size_t n_members;
};

/* Returns 0 and an owned interface, -EINVAL with "line L, column C: expected ..., got ...", or
 * -ENOMEM. */
_must_check_ int varlink_idl_parse(const char *text, struct varlink_idl **ret, struct error *err);
struct varlink_idl *varlink_idl_free(struct varlink_idl *idl);
DEFINE_CLEANUP(struct varlink_idl *, varlink_idl_free)

/* The member of that kind and name, or NULL. Returns borrowed for the life of idl. */
const struct varlink_member *varlink_idl_member(
	const struct varlink_idl *idl, enum varlink_member_kind kind, const char *name);
