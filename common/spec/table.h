/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of spec.c: every key of the specification is one row of a table, which has the place
 * of its value and its type; a type parses and formats. The tables drive parsing, the
 * document with defaults, and the test that the manual names every key. Included by the files of
 * this room and tests.
 */

#include "common/base/error.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_DEVICES_AUTO "auto" /* the only entry of ids until spec_resolve() */

enum {
	SPEC_ROLES_MAX = 64,
	SPEC_STRING_MAX = 128 * 1024,	/* with its NUL: what the kernel takes as one argument */
	SPEC_BYTES_MAX = 1024 * 1024,	/* of all strings together */
	SPEC_TEXT_MAX = 4 * 1024 * 1024 /* of a JSON document */
};

/* The parser's position, and the memory that it has used. */
struct spec_ctx {
	struct error *err;
	struct spec_problems
		*all;	 /* collects errors while the parser goes on; NULL: it stops at the first */
	size_t n_fields; /* errors before the checks between fields */
	bool failed;	 /* a check between fields failed */
	bool part;	 /* flags follow, which may say where several hosts meet */
	char path[sizeof(((struct error *)0)->field)];
	size_t len;
	size_t bytes;
};

struct spec_key;

struct spec_type {
	const char *expected; /* "a string": for errors */
	/* Stores value in field (in a struct that spec_free() frees, also half-filled). */
	int (*parse)(
		struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field);
	/* Gives an owned value, or NULL if the field is not set. Returns 0 or -ENOMEM. */
	int (*format)(const struct spec_key *key, const void *field, json_t **ret);
};

struct spec_key {
	const char *name; /* NULL ends a table */
	const struct spec_type *type;
	size_t offset;
	bool required;
	int64_t min, max; /* numbers, durations, sizes; max 0: none. Smaller than min means unset */
	const char *const *names;    /* spec_type_enum: by value, NULL-ended */
	const struct spec_key *keys; /* spec_type_object */
};

/* Rows of a table: KEY("name", spec_type_ without its prefix, struct, member, more fields). */
#define KEY(key, kind, in, member, ...)                                                        \
	{                                                                                      \
		.name = key, .type = &spec_type_##kind, .offset = offsetof(struct in, member), \
		##__VA_ARGS__                                                                  \
	}
#define SECTION(key, table, member)                                                              \
	{                                                                                        \
		.name = key, .type = &spec_type_object, .offset = offsetof(struct spec, member), \
		.keys = table                                                                    \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

/* The struct in whose member field points to. */
#define SPEC_STRUCT_OF(field, in, member) \
	((struct in *)((char *)(field)-offsetof(struct in, member)))

extern const struct spec_key spec_keys_top[];
extern const struct spec_key spec_keys_role[];
extern const struct spec_key spec_keys_restart[];
extern const struct spec_key spec_keys_preemption[];
extern const struct spec_key spec_keys_queue[];
extern const struct spec_key spec_keys_rendezvous[];
extern const char *const spec_whom_names[]; /* keys.c: by enum spec_whom, NULL-ended */

/* scalar.c, string.c */
extern const struct spec_type spec_type_bool, spec_type_int, spec_type_int64, spec_type_duration,
	spec_type_size, spec_type_enum, spec_type_string, spec_type_path, spec_type_name,
	spec_type_role_name, spec_type_umask, spec_type_signal, spec_type_signals, spec_type_maybe,
	spec_type_variable;
/* list.c */
extern const struct spec_type spec_type_command, spec_type_optional_command, spec_type_texts,
	spec_type_args, spec_type_env, spec_type_env_list;
/* ranks.c, template.c, exit_codes.c */
extern const struct spec_type spec_type_std_map, spec_type_ranks, spec_type_prefix,
	spec_type_worker_path, spec_type_codes;
/* limits.c, pattern.c, devices.c */
extern const struct spec_type spec_type_limits, spec_type_pattern, spec_type_devices;
/* keys.c */
extern const struct spec_type spec_type_object;
/* role.c */
extern const struct spec_type spec_type_roles;

/* walk.c: the path, errors, and objects by table. */

/* Appends ".name" or "[i]"; spec_leave() goes back to the length that they return. */
size_t spec_enter(struct spec_ctx *ctx, const char *name);
size_t spec_enter_index(struct spec_ctx *ctx, size_t i);
void spec_leave(struct spec_ctx *ctx, size_t len);

/* problems.c: whether the parser can go on after r; if so, keeps the error. The caller resets its
 * path. */
bool spec_go_on(struct spec_ctx *ctx, int r);
/* Reports a failed check between fields, path being one of them: keeps the error, or stops with it.
 * Says nothing if a field of the same object is wrong, which may be the cause. */
void spec_note(struct spec_ctx *ctx, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a check that no other field than path takes part in, so that none is the cause. */
void spec_note_alone(struct spec_ctx *ctx, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether path, or a field below it, has an error. */
bool spec_wrong_below(const struct spec_ctx *ctx, const char *path);

/* Fails with "<path>: <text>"; returns -EINVAL. */
int spec_refuse(struct spec_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fails with "<path>: expected <expected>, got <value>"; returns -EINVAL. */
int spec_expected(struct spec_ctx *ctx, const char *expected, const json_t *value);
int spec_no_memory(struct spec_ctx *ctx);

/* Fills base from the object value: refuses unknown keys, requires the required ones. */
int spec_walk_object(
	struct spec_ctx *ctx, const struct spec_key *keys, const json_t *value, void *base);
int spec_format_object(const struct spec_key *keys, const void *base, json_t **ret);

/*
 * The text of a string (checked against the limits), borrowed from value; NULL after an error, also
 * if it is not a string.
 */
const char *spec_text(struct spec_ctx *ctx, const char *expected, const json_t *value);

/* Stores an owned value; NULL, from a constructor without memory, is -ENOMEM. */
static inline int spec_give(json_t *value, json_t **ret)
{
	*ret = value;
	return value ? 0 : -ENOMEM;
}

/* As spec_text(), but also takes an integer, whose text is written to buf. */
const char *spec_text_or_number(
	struct spec_ctx *ctx, const char *expected, const json_t *value, char buf[32]);

/* The format function of types that are kept as a char *, NULL if not set. */
int spec_format_text(const struct spec_key *key, const void *field, json_t **ret);

/* Stores a copy in *field and frees the old text. */
int spec_set_string(struct spec_ctx *ctx, const char *text, char **field);

/* check.c: checks between fields. 0, or -EINVAL if one fails. */
int spec_check(struct spec_ctx *ctx, const struct spec *s);

/* The checks of devices; with "auto" again when they are known. */
void spec_check_devices(struct spec_ctx *ctx, const struct spec *s);

/* role.c: empty restart rules, to be freed by spec_restart_free() (heap) or with their codes.
 * -ENOMEM. */
int spec_restart_init(struct spec_restart *r);
struct spec_restart *spec_restart_free(struct spec_restart *r);
/* Applies each role's `restart` in doc over the job's, once that is parsed. */
int spec_roles_inherit(struct spec_ctx *ctx, const json_t *doc, struct spec *s);

/* exit_codes.c: the code with which a worker leaves that was preempted. */
enum { SPEC_PREEMPTED_EXIT_CODE = 42 };
/* Makes code free, unless there is a rule for it. -ENOMEM. */
_must_check_ int spec_free_code(struct spec_restart *restart, int code);

/* hint.c: the hint for an unknown key: "unknown key, did you mean `x`?". ret_meant: the key of keys
 * that was meant, or NULL. Returns buf. */
enum { SPEC_HINT_MAX = 256 };
const char *spec_hint(const struct spec_key *keys, const char *name, const char **ret_meant,
	char buf[SPEC_HINT_MAX]);

/* preemption.c: an empty section; -ENOMEM. */
int spec_preemption_init(struct spec_preemption *p);
void spec_preemption_fini(struct spec_preemption *p);
void spec_check_preemption(struct spec_ctx *ctx, const struct spec_preemption *p);

/* queue.c: an empty section, and the checks between it and roles. */
void spec_queue_init(struct spec_queue *q);
void spec_check_queue(struct spec_ctx *ctx, const struct spec *s);

/* rendezvous.c: an empty section; the checks between its keys; and the values that depend on other
 * keys, once the checks have passed (-ENOMEM). */
void spec_rendezvous_init(struct spec_rendezvous *r);
void spec_rendezvous_fini(struct spec_rendezvous *r);
void spec_check_rendezvous(struct spec_ctx *ctx, const struct spec_rendezvous *r);
int spec_rendezvous_complete(struct spec_rendezvous *r);

/* resolve.c: counts GPUs by the files below root; visible is CUDA_VISIBLE_DEVICES or NULL. */
int spec_count_gpus(const char *root, const char *visible);
/* The same for Intel's GPUs and ZE_AFFINITY_MASK; tiles: counts each GPU's tiles. */
int spec_count_xpus(const char *root, const char *visible, bool tiles);
/* Counts the devices in a list such as "0,2", up to the first bad one. */
int spec_count_visible(const char *list);
/* devices.c: replaces "auto" by the devices in the devices' variable, or else the files below root.
 */
int spec_find_devices(struct spec *s, const char *root, struct error *err);
