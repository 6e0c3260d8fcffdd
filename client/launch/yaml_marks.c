/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml_marks.h"

#include "client/launch/yaml.h"

#include <errno.h>
#include <string.h>

void yaml_marks_fini(struct yaml_marks *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->items[i].path);
	free(m->items);
	*m = (struct yaml_marks){ 0 };
}

const char *yaml_marks_path(const struct yaml_marks *m, size_t line, size_t column)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].line == line && m->items[i].column == column && *m->items[i].path)
			return m->items[i].path;
	return NULL;
}

const struct yaml_mark *yaml_marks_find(const struct yaml_marks *m, const char *path)
{
	const struct yaml_mark *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < m->n; i++) {
		const char *own = m->items[i].path;
		size_t len = strlen(own);

		if (strncmp(path, own, len) || (path[len] && len && !strchr(".[", path[len])))
			continue;
		if (best && len <= most)
			continue;
		best = &m->items[i];
		most = len;
	}
	return best;
}

#if HAVE_YAML

#include "common/spec/table.h"

#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	struct spec_ctx at; /* the path, spelt as in errors */
	struct yaml_marks marks;
	size_t room;
};

static int next_event(struct reader *r, yaml_event_t *event)
{
	return yaml_parser_parse(&r->parser, event) ? 0 : -EINVAL;
}

static int add_mark(struct reader *r, const yaml_mark_t *where)
{
	struct yaml_marks *m = &r->marks;
	char *path;

	if (m->n == YAML_NODES_MAX)
		return -EINVAL;
	if (m->n == r->room) {
		size_t room = r->room ? 2 * r->room : 64;
		struct yaml_mark *items = reallocarray(m->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		m->items = items;
		r->room = room;
	}
	path = strdup(r->at.path);
	if (!path)
		return -ENOMEM;
	m->items[m->n++] = (struct yaml_mark){ path, where->line + 1, where->column + 1 };
	return 0;
}

static int read_node(struct reader *r, const yaml_event_t *event, int depth);

/* Reads the members of a mapping or sequence up to the event end. */
static int read_members(struct reader *r, bool mapping, yaml_event_type_t end, int depth)
{
	for (size_t i = 0;; i++) {
		size_t len = r->at.len;
		yaml_event_t event, value;
		int result = next_event(r, &event);

		if (result < 0)
			return result;
		if (event.type == end) {
			yaml_event_delete(&event);
			return 0;
		}
		if (mapping && event.type != YAML_SCALAR_EVENT)
			result = -EINVAL;
		else if (mapping)
			spec_enter(&r->at, (const char *)event.data.scalar.value);
		else
			spec_enter_index(&r->at, i);
		if (result == 0)
			result = add_mark(r, &event.start_mark);
		if (result == 0 && !mapping)
			result = read_node(r, &event, depth);
		yaml_event_delete(&event);
		if (result == 0 && mapping) {
			result = next_event(r, &value);
			if (result == 0) {
				result = read_node(r, &value, depth);
				yaml_event_delete(&value);
			}
		}
		if (result < 0)
			return result;
		spec_leave(&r->at, len);
	}
}

/* The value that begins with event. An alias gets a mark here, for a value that is elsewhere. */
static int read_node(struct reader *r, const yaml_event_t *event, int depth)
{
	if (depth > YAML_DEPTH_MAX)
		return -EINVAL;
	if (event->type == YAML_SEQUENCE_START_EVENT)
		return read_members(r, false, YAML_SEQUENCE_END_EVENT, depth + 1);
	if (event->type == YAML_MAPPING_START_EVENT)
		return read_members(r, true, YAML_MAPPING_END_EVENT, depth + 1);
	return event->type == YAML_SCALAR_EVENT || event->type == YAML_ALIAS_EVENT ? 0 : -EINVAL;
}

static int read_document(struct reader *r)
{
	yaml_event_t event;
	int result = 0;

	for (int i = 0; i < 2 && result == 0; i++) {
		result = next_event(r, &event);
		if (result == 0)
			yaml_event_delete(&event); /* the start of the stream or document */
	}
	if (result == 0)
		result = next_event(r, &event);
	if (result < 0)
		return result;
	result = add_mark(r, &event.start_mark);
	if (result == 0)
		result = read_node(r, &event, 0);
	yaml_event_delete(&event);
	return result;
}

int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret)
{
	struct reader r = { 0 };
	int result;

	if (!yaml_parser_initialize(&r.parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	result = read_document(&r);
	yaml_parser_delete(&r.parser);
	if (result == -ENOMEM)
		yaml_marks_fini(&r.marks);
	else
		*ret = r.marks;
	return result == -ENOMEM ? result : 0;
}

#else

int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret)
{
	*ret = (struct yaml_marks){ 0 };
	return 0;
}

#endif
