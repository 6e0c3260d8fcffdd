/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ordered keys of a store: a skip list of records. Knows no revision and no watch. */

#include <stddef.h>
#include <stdint.h>

enum { MAP_LEVELS = 16 };

/* One write of a key. In the map it never changes; the history shares it. */
struct record {
	unsigned refs;
	int64_t revision;
	size_t key_len, len;
	char key[]; /* with its NUL; the value follows */
};

struct node {
	struct record *record;
	int levels;
	struct node *next[];
};

struct map {
	struct node *head[MAP_LEVELS];
	int levels;
	uint64_t random;
	size_t n;
	size_t bytes; /* as counted for the store's limit */
};

/* The links that lead to a key's place, or past it: valid until another key is inserted or removed.
 */
struct map_place {
	struct node **links[MAP_LEVELS];
};

/* A record with one reference, or NULL without memory. */
struct record *store_record_new(const char *key, const void *value, size_t len);
struct record *record_ref(struct record *r);
struct record *record_unref(struct record *r);
const char *record_value(const struct record *r);
/* The bytes that a key counts for, with its value. */
size_t record_cost(const struct record *r);

void map_init(struct map *m);
void map_fini(struct map *m);
struct node *map_find(const struct map *m, const char *key);
/* The first node whose key is not before key. */
struct node *map_from(const struct map *m, const char *key);
/* The node of key, or NULL; place is where it is or would be inserted. */
struct node *map_seek(struct map *m, const char *key, struct map_place *place);
/* Inserts a node at a place that map_seek() found empty; takes record. NULL without memory. */
struct node *map_insert(struct map *m, struct map_place *place, struct record *record);
/* Replaces the node's record; takes the new one, returns the old one. */
struct record *map_replace(struct map *m, struct node *n, struct record *record);
/* Removes the node at place and returns its record. place is then that of the next node. */
struct record *map_remove(struct map *m, struct map_place *place);
