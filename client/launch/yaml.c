/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml.h"

#include "client/launch/yaml_marks.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool looks_like_json(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	return i < len && text[i] == '{';
}

void yaml_problems_fini(struct yaml_problems *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->items[i].text);
	free(p->items);
	*p = (struct yaml_problems){ 0 };
}

#if HAVE_YAML

#include "client/launch/yaml_scalar.h"
#include "common/spec/table.h"

#include <yaml.h>

#define CORE "tag:yaml.org,2002:"

/* A node with a name, which aliases copy. */
struct anchor {
	char *name;
	json_t *value;
	size_t nodes;
};

struct loader {
	yaml_parser_t parser;
	const char *name, *text, *end;
	struct error *err;
	struct anchor *anchors;
	size_t n_anchors;
	size_t nodes;
	struct yaml_problems *problems;
	struct yaml_marks *marks; /* of all values; NULL: not wanted */
	size_t marks_room;
	struct spec_ctx at; /* the path of the value, spelt as in errors; empty without marks */
};

static int loader_error(struct loader *l, int code, const yaml_mark_t *mark, const char *text)
{
	return error_set(
		l->err, code, "%s:%zu:%zu: %s", l->name, mark->line + 1, mark->column + 1, text);
}

/* The byte where a character at mark begins; 0: there is none. */
static char byte_at(const struct loader *l, const yaml_mark_t *mark)
{
	const char *p = l->text;
	size_t column = mark->column;

	for (size_t line = mark->line; line > 0 && p; line--) {
		p = memchr(p, '\n', (size_t)(l->end - p));
		p = p ? p + 1 : NULL;
	}
	for (; p && p < l->end; p++)
		if ((*p & 0xc0) != 0x80 && column-- == 0)
			return *p;
	return 0;
}

/* libyaml says of a character that is out of place no more than that: names the character. */
static int loader_token_error(struct loader *l, const yaml_mark_t *mark, const char *problem)
{
	char c = strcmp(problem, "found character that cannot start any token") ? 0
										: byte_at(l, mark);
	char text[64];

	if (c == '\t')
		problem = "found a tab, expected spaces: only they indent";
	else if (c > ' ' && c < 0x7f) {
		snprintf(text, sizeof(text), "found %c, which begins no value: write it in quotes",
			c);
		problem = text;
	}
	return loader_error(l, -EINVAL, mark, problem);
}

/* The next event; the caller deletes it. */
static int next_event(struct loader *l, yaml_event_t *event)
{
	const yaml_parser_t *p = &l->parser;

	if (yaml_parser_parse(&l->parser, event))
		return 0;
	if (p->error == YAML_MEMORY_ERROR)
		return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	/* For bytes that are not text libyaml has an offset instead of a line. */
	if (p->error == YAML_READER_ERROR)
		return error_set(l->err, -EINVAL, "%s: byte %zu: %s", l->name, p->problem_offset,
			p->problem);
	return loader_token_error(l, &p->problem_mark, p->problem);
}

static int count_nodes(struct loader *l, size_t nodes, const yaml_mark_t *mark)
{
	l->nodes += nodes;
	if (l->nodes > YAML_NODES_MAX)
		return loader_error(l, -EMSGSIZE, mark, "too many values");
	return 0;
}

/* A later anchor of the same name replaces it, as in YAML. */
static int add_anchor(struct loader *l, const yaml_char_t *name, json_t *value, size_t nodes)
{
	struct anchor *anchors;
	char *copy;

	if (!name)
		return 0;
	copy = strdup((const char *)name);
	anchors = reallocarray(l->anchors, l->n_anchors + 1, sizeof(*anchors));
	if (anchors)
		l->anchors = anchors;
	if (!copy || !anchors) {
		free(copy);
		return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	}
	l->anchors[l->n_anchors++] = (struct anchor){ copy, json_incref(value), nodes };
	return 0;
}

static int load_alias(struct loader *l, const yaml_event_t *event, json_t **ret)
{
	const char *name = (const char *)event->data.alias.anchor;

	for (size_t i = l->n_anchors; i-- > 0;) {
		int r;

		if (strcmp(l->anchors[i].name, name))
			continue;
		r = count_nodes(l, l->anchors[i].nodes, &event->start_mark);
		if (r < 0)
			return r;
		/* A copy, so that a flag that changes it here leaves the other places alone. */
		*ret = json_deep_copy(l->anchors[i].value);
		return *ret ? 0 : error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	}
	return loader_error(
		l, -EINVAL, &event->start_mark, "no anchor of that name before this alias");
}

/* The core schema's name of a tag, "" for none; NULL for a tag of another schema. */
static const char *core_tag(const yaml_char_t *tag)
{
	const char *text = (const char *)tag;

	if (!text || !strcmp(text, "!"))
		return "";
	return strncmp(text, CORE, strlen(CORE)) ? NULL : text + strlen(CORE);
}

/* Whether the scalar is neither quoted nor a block. (plain_implicit is also set for the tag "!"
 * before quotes.) */
static bool is_plain(const yaml_event_t *event)
{
	return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static int load_scalar(struct loader *l, const yaml_event_t *event, json_t **ret)
{
	const char *text = (const char *)event->data.scalar.value;
	const char *tag = core_tag(event->data.scalar.tag);
	struct yaml_scalar_why why;
	int r;

	if (!tag)
		return loader_error(l, -EINVAL, &event->start_mark, "an unknown tag");
	if (!*tag)
		tag = is_plain(event) ? NULL : "str";
	r = yaml_scalar(text, event->data.scalar.length, tag, ret, &why);
	if (r == -EINVAL)
		return loader_error(l, r, &event->start_mark, why.text);
	return r < 0 ? error_set(l->err, r, "%s: out of memory", l->name) : 0;
}

static int add_mark(struct loader *l, const yaml_mark_t *mark)
{
	struct yaml_marks *m = l->marks;
	char *path;

	if (!m)
		return 0;
	if (m->n == l->marks_room) {
		size_t room = l->marks_room ? 2 * l->marks_room : 64;
		struct yaml_mark *items = reallocarray(m->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		m->items = items;
		l->marks_room = room;
	}
	path = strdup(l->at.path);
	if (!path)
		return -ENOMEM;
	m->items[m->n++] = (struct yaml_mark){ path, mark->line + 1, mark->column + 1 };
	return 0;
}

/* Adds key, or else the index i, to the path, and its mark. */
static int enter_member(struct loader *l, const char *key, size_t i, const yaml_mark_t *mark)
{
	if (!l->marks)
		return 0;
	if (key)
		spec_enter(&l->at, key);
	else
		spec_enter_index(&l->at, i);
	return add_mark(l, mark);
}

static int load_node(struct loader *l, yaml_event_t *event, int depth, json_t **ret);

static int load_sequence(struct loader *l, int depth, json_t *array)
{
	for (size_t i = 0;; i++) {
		size_t len = l->at.len;
		yaml_event_t event;
		json_t *value = NULL;
		int r = next_event(l, &event);

		if (r < 0)
			return r;
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		r = enter_member(l, NULL, i, &event.start_mark);
		if (r == 0)
			r = load_node(l, &event, depth, &value);
		yaml_event_delete(&event);
		if (r < 0)
			return r;
		spec_leave(&l->at, len);
		if (json_add(array, value) < 0)
			return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	}
}

/* Adds a problem at mark. */
static int add_problem(struct loader *l, const yaml_mark_t *mark, const char *text)
{
	struct yaml_problems *p = l->problems;
	struct yaml_problem *items = reallocarray(p->items, p->n + 1, sizeof(*items));
	char *copy = strdup(text);

	if (items)
		p->items = items;
	if (!items || !copy) {
		free(copy);
		return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	}
	items[p->n++] = (struct yaml_problem){ mark->line + 1, mark->column + 1, copy };
	return 0;
}

/* Whether event may be a key of object. 1: object has it already, which was added to the problems.
 */
static int check_key(struct loader *l, const yaml_event_t *event, const json_t *object)
{
	const char *key = (const char *)event->data.scalar.value;

	if (event->type != YAML_SCALAR_EVENT)
		return loader_error(l, -EINVAL, &event->start_mark, "a key has to be text");
	if (event->data.scalar.anchor)
		return loader_error(
			l, -EINVAL, &event->start_mark, "a key cannot have an anchor here");
	if (strlen(key) != event->data.scalar.length)
		return loader_error(l, -EINVAL, &event->start_mark, "a key contains a NUL byte");
	if (is_plain(event) && !strcmp(key, "<<"))
		return loader_error(l, -EINVAL, &event->start_mark,
			"merge keys (<<) are not part of YAML 1.2: write the keys out");
	if (json_object_get(object, key))
		return add_problem(l, &event->start_mark, "duplicate key") < 0 ? -ENOMEM : 1;
	return 0;
}

/* The value that begins with the next event. */
static int load_next_node(struct loader *l, int depth, json_t **ret)
{
	yaml_event_t event;
	int r = next_event(l, &event);

	if (r < 0)
		return r;
	r = load_node(l, &event, depth, ret);
	yaml_event_delete(&event);
	return r;
}

static int load_mapping(struct loader *l, int depth, json_t *object)
{
	for (;;) {
		_cleanup_json_ json_t *value = NULL;
		size_t len = l->at.len;
		yaml_event_t event;
		int r = next_event(l, &event), again;
		const char *key;

		if (r < 0)
			return r;
		if (event.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		again = check_key(l, &event, object);
		key = (const char *)event.data.scalar.value;
		r = again < 0 ? again : enter_member(l, key, 0, &event.start_mark);
		if (r == 0)
			r = load_next_node(l, depth, &value);
		if (r == 0 && !again && json_put(object, key, TAKE_PTR(value)) < 0)
			r = error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
		yaml_event_delete(&event);
		if (r < 0)
			return r;
		spec_leave(&l->at, len);
	}
}

/* A sequence or a mapping, whose first event this is. */
static int load_collection(struct loader *l, const yaml_event_t *event, int depth, json_t **ret)
{
	bool is_sequence = event->type == YAML_SEQUENCE_START_EVENT;
	const char *tag = core_tag(
		is_sequence ? event->data.sequence_start.tag : event->data.mapping_start.tag);
	_cleanup_json_ json_t *value = is_sequence ? json_array() : json_object();
	int r;

	if (!tag || (*tag && strcmp(tag, is_sequence ? "seq" : "map")))
		return loader_error(l, -EINVAL, &event->start_mark, "an unknown tag");
	if (depth >= YAML_DEPTH_MAX)
		return loader_error(l, -EINVAL, &event->start_mark, "values are nested too deep");
	if (!value)
		return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	r = is_sequence ? load_sequence(l, depth + 1, value) : load_mapping(l, depth + 1, value);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(value);
	return 0;
}

/* The value that begins with event. */
static int load_node(struct loader *l, yaml_event_t *event, int depth, json_t **ret)
{
	const yaml_char_t *name = NULL;
	size_t before = l->nodes;
	int r = count_nodes(l, 1, &event->start_mark);

	if (r < 0)
		return r;
	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return load_alias(l, event, ret);
	case YAML_SCALAR_EVENT:
		name = event->data.scalar.anchor;
		r = load_scalar(l, event, ret);
		break;
	case YAML_SEQUENCE_START_EVENT:
		name = event->data.sequence_start.anchor;
		r = load_collection(l, event, depth, ret);
		break;
	case YAML_MAPPING_START_EVENT:
		name = event->data.mapping_start.anchor;
		r = load_collection(l, event, depth, ret);
		break;
	default:
		return loader_error(l, -EINVAL, &event->start_mark, "a value is missing");
	}
	if (r == 0)
		r = add_anchor(l, name, *ret, l->nodes - before);
	if (r < 0) {
		json_decref(*ret);
		*ret = NULL;
	}
	return r;
}

/* Takes the next event, which must be of that type. */
static int expect_event(struct loader *l, yaml_event_type_t type, const char *otherwise)
{
	yaml_event_t event;
	int r = next_event(l, &event);

	if (r < 0)
		return r;
	if (event.type != type)
		r = loader_error(l, -EINVAL, &event.start_mark, otherwise);
	yaml_event_delete(&event);
	return r;
}

static int load_document(struct loader *l, json_t **ret)
{
	yaml_event_t event;
	int r = expect_event(l, YAML_STREAM_START_EVENT, "not YAML");

	if (r == 0)
		r = expect_event(l, YAML_DOCUMENT_START_EVENT, "the file is empty");
	if (r == 0)
		r = next_event(l, &event);
	if (r < 0)
		return r;
	r = add_mark(l, &event.start_mark);
	if (r == 0)
		r = load_node(l, &event, 0, ret);
	yaml_event_delete(&event);
	if (r == 0)
		r = expect_event(l, YAML_DOCUMENT_END_EVENT, "not the end of the document");
	if (r == 0)
		r = expect_event(l, YAML_STREAM_END_EVENT, "a second document; one is expected");
	return r;
}

static int load(struct loader *l, const char *text, size_t len, json_t **ret)
{
	_cleanup_json_ json_t *value = NULL;
	int r;

	l->text = text;
	l->end = text + len;
	if (!yaml_parser_initialize(&l->parser))
		return error_set(l->err, -ENOMEM, "%s: out of memory", l->name);
	yaml_parser_set_input_string(&l->parser, (const unsigned char *)text, len);
	r = load_document(l, &value);
	yaml_parser_delete(&l->parser);
	for (size_t i = 0; i < l->n_anchors; i++) {
		free(l->anchors[i].name);
		json_decref(l->anchors[i].value);
	}
	free(l->anchors);
	if (r == 0)
		*ret = TAKE_PTR(value);
	return r;
}

static int load_text(const char *text, size_t len, const char *name, json_t **ret,
	struct yaml_problems *problems, struct error *err)
{
	struct loader l = { .name = name, .err = err, .problems = problems };

	return load(&l, text, len, ret);
}

int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret)
{
	_cleanup_(yaml_problems_fini) struct yaml_problems duplicates = { 0 };
	_cleanup_json_ json_t *value = NULL;
	struct yaml_marks marks = { 0 };
	struct error unused;
	struct loader l = { .name = "", .err = &unused, .problems = &duplicates, .marks = &marks };

	if (load(&l, text, len, &value) == -ENOMEM) {
		yaml_marks_fini(&marks);
		return -ENOMEM;
	}
	*ret = marks;
	return 0;
}

#else

static int load_text(const char *text, size_t len, const char *name, json_t **ret,
	struct yaml_problems *problems, struct error *err)
{
	int r;

	if (!looks_like_json(text, len))
		return error_set(err, -EINVAL,
			"%s: this elasticctl was built without YAML, it reads JSON only", name);
	r = json_parse(text, len, ret, err);
	return r < 0 ? error_prefix(err, "%s", name) : 0;
}

int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret)
{
	*ret = (struct yaml_marks){ 0 };
	return 0;
}

#endif

int yaml_parse(const char *text, size_t len, const char *name, json_t **ret,
	struct yaml_problems *problems, struct error *err)
{
	if (len > YAML_BYTES_MAX)
		return error_set(
			err, -EMSGSIZE, "%s: is larger than %d bytes", name, YAML_BYTES_MAX);
	/* libyaml does not know all of JSON's escapes. If it is not valid JSON, it may be YAML. */
	if (looks_like_json(text, len) && json_parse(text, len, ret, NULL) == 0)
		return 0;
	return load_text(text, len, name, ret, problems, err);
}

/* Reads to the end, also from pipes, as in --spec <(generate). */
static int read_all(FILE *f, char **ret, size_t *ret_len)
{
	_cleanup_free_ char *text = malloc(YAML_BYTES_MAX + 1);

	if (!text)
		return -ENOMEM;
	*ret_len = fread(text, 1, YAML_BYTES_MAX + 1, f);
	if (ferror(f))
		return errno ? -errno : -EIO;
	*ret = TAKE_PTR(text);
	return 0;
}

int yaml_read(const char *path, char **ret, size_t *ret_len, struct error *err)
{
	bool from_stdin = !strcmp(path, "-");
	_cleanup_file_ FILE *f = NULL;
	int r;

	if (!from_stdin) {
		f = fopen(path, "re");
		if (!f)
			return error_set(err, -errno, "%s: %s", path, strerror(errno));
	}
	r = read_all(from_stdin ? stdin : f, ret, ret_len);
	return r < 0 ? error_set(err, r, "%s: %s", from_stdin ? "<stdin>" : path, strerror(-r)) : 0;
}
