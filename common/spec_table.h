/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of spec.c: every key of the specification is one row of a table that says where its
 * value lives and of which type it is; a type parses and formats. The tables drive parsing, the
 * document with defaults, and the test that the manual names every key. Included by spec_*.c and
 * tests.
 */

#include "common/error.h"
#include "common/spec.h"

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

/* Where the parser is, and what it has spent. */
struct spec_ctx {
	struct error *err;
	struct spec_problems
		*all;	 /* where errors are kept while it goes on; NULL: the first ends it */
	size_t n_fields; /* of them were found in fields, before what holds between them */
	bool failed;	 /* something does not hold between fields */
	char path[sizeof(((struct error *)0)->field)];
	size_t len;
	size_t bytes;
};

struct spec_key;

struct spec_type {
	const char *expected; /* "a string": what errors ask for */
	/* Stores value in field (embedded in a struct that spec_free() frees, also half-filled). */
	int (*parse)(
		struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field);
	/* Gives an owned value, or NULL when the field is not set. Returns 0 or -ENOMEM. */
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

extern const struct spec_key spec_keys_top[];
extern const struct spec_key spec_keys_role[];
extern const struct spec_key spec_keys_restart[];
extern const struct spec_key spec_keys_preemption[];
extern const struct spec_key spec_keys_queue[];
extern const char *const spec_whom_names[]; /* spec_keys.c: by enum spec_whom, NULL-ended */

/* spec_scalar.c, spec_string.c */
extern const struct spec_type spec_type_bool, spec_type_int, spec_type_int64, spec_type_duration,
	spec_type_size, spec_type_enum, spec_type_string, spec_type_path, spec_type_name,
	spec_type_role_name, spec_type_umask, spec_type_signal, spec_type_maybe, spec_type_variable;
/* spec_list.c */
extern const struct spec_type spec_type_command, spec_type_texts, spec_type_args, spec_type_env,
	spec_type_env_list;
/* spec_policy.c, spec_limits.c */
extern const struct spec_type spec_type_replicas, spec_type_std_map, spec_type_ranks,
	spec_type_prefix, spec_type_limits, spec_type_codes, spec_type_signals, spec_type_nodes;
/* spec_pattern.c, spec_devices.c */
extern const struct spec_type spec_type_pattern, spec_type_task_path, spec_type_devices,
	spec_type_device_object;
/* spec_preemption.c */
extern const struct spec_type spec_type_notices, spec_type_notice_command;
/* spec_keys.c */
extern const struct spec_type spec_type_object;
/* spec_role.c */
extern const struct spec_type spec_type_roles, spec_type_role_restart;

/* spec_walk.c: the path, errors, and objects by table. */

/* Appends ".name" or "[i]"; spec_leave() goes back to the length that they return. */
size_t spec_enter(struct spec_ctx *ctx, const char *name);
size_t spec_enter_index(struct spec_ctx *ctx, size_t i);
void spec_leave(struct spec_ctx *ctx, size_t len);

/* spec_problems.c: whether the parser goes on after what returned r: what is wrong is kept then.
 * The caller goes back to its own path. */
bool spec_go_on(struct spec_ctx *ctx, int r);
/* What does not hold between fields, of which path is one; kept, or, where the first ends it, the
 * error. Left out beside an error in a field of the same object: it may be its consequence. */
void spec_note(struct spec_ctx *ctx, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether a field at path, or below it, is wrong. */
bool spec_wrong_below(const struct spec_ctx *ctx, const char *path);

/* "<path>: <text>"; returns -EINVAL. */
int spec_refuse(struct spec_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "<path>: expected <expected>, got <value>"; returns -EINVAL. */
int spec_expected(struct spec_ctx *ctx, const char *expected, const json_t *value);
int spec_no_memory(struct spec_ctx *ctx);
/* Refuses a text in which a variable, "${name}", is none of these, NULL-ended; in expected they are
 * named for people. "$$" is a dollar sign, so that "$${name}" is no variable. */
int spec_check_variables(
	struct spec_ctx *ctx, const char *text, const char *const *known, const char *expected);

/* Fills base from the object value: no unknown keys, all required ones. */
int spec_walk_object(
	struct spec_ctx *ctx, const struct spec_key *keys, const json_t *value, void *base);
int spec_format_object(const struct spec_key *keys, const void *base, json_t **ret);

/*
 * The text of a string (checked against the limits), borrowed from value; NULL after having refused
 * it, also when it is no string.
 */
const char *spec_text(struct spec_ctx *ctx, const char *expected, const json_t *value);

/* Hands an owned value on; NULL, from a constructor without memory, is -ENOMEM. */
static inline int spec_give(json_t *value, json_t **ret)
{
	*ret = value;
	return value ? 0 : -ENOMEM;
}

/* The same, and the text of an integer, which is written to buf. */
const char *spec_text_or_number(
	struct spec_ctx *ctx, const char *expected, const json_t *value, char buf[32]);

/* The format function of every type that is kept as a char *, NULL where it is not set. */
int spec_format_text(const struct spec_key *key, const void *field, json_t **ret);

/* Stores a copy in *field, which is freed first. */
int spec_set_string(struct spec_ctx *ctx, const char *text, char **field);

/* Frees a NULL-ended array of strings; accepts NULL. */
void spec_free_words(char **words);

/* spec_check.c: what holds between fields. 0, or -EINVAL where something does not. */
int spec_check(struct spec_ctx *ctx, const struct spec *s);

/* The same for devices; those of "auto" are counted once they are known. */
void spec_check_devices(struct spec_ctx *ctx, const struct spec *s);

/* spec_role.c: restart rules in which nothing is given, to be freed by spec_restart_free() (heap)
 * or with their codes. -ENOMEM. */
int spec_restart_init(struct spec_restart *r);
struct spec_restart *spec_restart_free(struct spec_restart *r);
/* Lays what doc says in each role's `restart` over the job's, once that is read. */
int spec_roles_inherit(struct spec_ctx *ctx, const json_t *doc, struct spec *s);

/* spec_hint.c: what a key may be that is not in keys: "unknown key, did you mean `x`?". ret_meant:
 * the key of keys that is, or NULL. Returns buf. */
enum { SPEC_HINT_MAX = 256 };
const char *spec_hint(const struct spec_key *keys, const char *name, const char **ret_meant,
	char buf[SPEC_HINT_MAX]);

/* spec_preemption.c: a section in which nothing is given; -ENOMEM. */
int spec_preemption_init(struct spec_preemption *p);
void spec_preemption_fini(struct spec_preemption *p);
void spec_check_preemption(struct spec_ctx *ctx, const struct spec_preemption *p);

/* spec_queue.c: a section in which nothing is given, and what holds between it and roles. */
void spec_queue_init(struct spec_queue *q);
void spec_check_queue(struct spec_ctx *ctx, const struct spec *s);

/* spec_resolve.c: GPUs that the files below root show; visible is CUDA_VISIBLE_DEVICES or NULL. */
int spec_count_gpus(const char *root, const char *visible);
/* The same of Intel's GPUs, and of what ZE_AFFINITY_MASK leaves; tiles: each of a GPU's is one. */
int spec_count_xpus(const char *root, const char *visible, bool tiles);
/* Devices that a list such as "0,2" leaves visible: up to the first bad one. */
int spec_count_visible(const char *list);
/* spec_devices.c: turns "auto" into what the devices' variable, or else the files below root, show.
 */
int spec_find_devices(struct spec *s, const char *root, struct error *err);
