/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recursive descent over tokens. Names of types may be used before they are declared, so they are
 * resolved once the whole text was read.
 */
#include "common/varlink/idl.h"

#include "common/base/array.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* The deepest nesting of anonymous types. */
#define NESTING_MAX 32

struct parser {
	const char *at;		/* behind the token */
	const char *line_start; /* of the line that at is in */
	int line;

	const char *token; /* the present token; len 0 at the end */
	size_t len;
	int token_line, token_column;

	int depth;
	struct error *err;
};

static int error_expected(const struct parser *p, const char *what)
{
	if (!p->len)
		return error_set(p->err, -EINVAL, "line %d, column %d: expected %s, got the end",
			p->token_line, p->token_column, what);
	return error_set(p->err, -EINVAL, "line %d, column %d: expected %s, got '%.*s'",
		p->token_line, p->token_column, what, p->len > 40 ? 40 : (int)p->len, p->token);
}

static int no_memory(const struct parser *p)
{
	return error_set(p->err, -ENOMEM, "out of memory");
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void skip_space(struct parser *p)
{
	for (;; p->at++) {
		if (*p->at == '#')
			p->at += strcspn(p->at, "\n");
		if (*p->at == '\n') {
			p->line++;
			p->line_start = p->at + 1;
		} else if (!*p->at || !strchr(" \t\r", *p->at)) {
			return;
		}
	}
}

static void begin_token(struct parser *p)
{
	skip_space(p);
	p->token = p->at;
	p->token_line = p->line;
	p->token_column = p->at - p->line_start + 1;
}

static void next_token(struct parser *p)
{
	begin_token(p);
	if (is_word(*p->at))
		while (is_word(*p->at))
			p->at++;
	else if (p->at[0] == '-' && p->at[1] == '>')
		p->at += 2;
	else if (*p->at)
		p->at++;
	p->len = p->at - p->token;
}

static bool token_is(const struct parser *p, const char *token)
{
	return p->len == strlen(token) && !memcmp(p->token, token, p->len);
}

static bool take_token(struct parser *p, const char *token)
{
	if (!token_is(p, token))
		return false;
	next_token(p);
	return true;
}

static int need_token(struct parser *p, const char *token)
{
	char what[16];

	if (take_token(p, token))
		return 0;
	snprintf(what, sizeof(what), "'%s'", token);
	return error_expected(p, what);
}

static int take_word(struct parser *p, char **ret)
{
	*ret = strndup(p->token, p->len);
	if (!*ret)
		return no_memory(p);
	next_token(p);
	return 0;
}

/* [A-Z][A-Za-z0-9]* */
static int member_name(struct parser *p, char **ret)
{
	bool ok = p->len && isupper((unsigned char)*p->token) && is_word(*p->token) &&
		  !memchr(p->token, '_', p->len);

	return ok ? take_word(p, ret) : error_expected(p, "a name that begins with a capital");
}

/* [A-Za-z](_?[A-Za-z0-9])* */
static int field_name(struct parser *p, char **ret)
{
	bool ok = p->len && isalpha((unsigned char)*p->token) && p->token[p->len - 1] != '_';

	for (size_t i = 1; ok && i < p->len; i++)
		ok = p->token[i] != '_' || p->token[i - 1] != '_';
	return ok ? take_word(p, ret) : error_expected(p, "a field's name");
}

/* At least two parts between dots, each of [A-Za-z0-9-] without a dash at its ends, the first
 * beginning with a letter. */
static bool is_interface_name(const char *s, size_t len)
{
	int parts = 1;

	if (!len || !isalpha((unsigned char)*s))
		return false;
	for (size_t i = 0; i < len; i++) {
		bool edge = i == 0 || i + 1 == len || s[i - 1] == '.' || s[i + 1] == '.';

		if (s[i] == '.' ? edge : s[i] == '-' ? edge : !isalnum((unsigned char)s[i]))
			return false;
		parts += s[i] == '.';
	}
	return parts > 1;
}

static int interface_name(struct parser *p, char **ret)
{
	/* The present word is only the beginning of this token: read it again. */
	p->at = p->token;
	while (is_word(*p->at) || *p->at == '.' || *p->at == '-')
		p->at++;
	p->len = p->at - p->token;
	if (!is_interface_name(p->token, p->len))
		return error_expected(p, "an interface's name such as org.example.thing");
	return take_word(p, ret);
}

static int parse_type(struct parser *p, struct varlink_type *t);

static struct varlink_field *add_field(struct varlink_type *t)
{
	size_t n = t->n_fields;
	struct varlink_field *grown = array_grow(t->fields, n, n + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	t->fields = grown;
	return &grown[t->n_fields++];
}

static int parse_field(struct parser *p, struct varlink_type *t)
{
	struct parser before = *p;
	struct varlink_field *f = add_field(t);
	int r = f ? field_name(p, &f->name) : no_memory(p);

	if (r < 0)
		return r;
	for (size_t i = 0; i + 1 < t->n_fields; i++)
		if (!strcmp(t->fields[i].name, f->name))
			return error_expected(&before, "another name than the one that is taken");
	if (t->n_fields == 1)
		t->kind = token_is(p, ":") ? VARLINK_STRUCT : VARLINK_ENUM;
	if (t->kind == VARLINK_ENUM)
		return 0;
	r = need_token(p, ":");
	return r < 0 ? r : parse_type(p, &f->type);
}

/* "(" a: type, ... ")" or "(" a, b ")"; the empty one is a struct. */
static int parse_group(struct parser *p, struct varlink_type *t)
{
	int r = need_token(p, "(");

	if (r < 0)
		return r;
	t->kind = VARLINK_STRUCT;
	if (take_token(p, ")"))
		return 0;
	for (;;) {
		r = parse_field(p, t);
		if (r < 0)
			return r;
		if (take_token(p, ")"))
			return 0;
		if (!take_token(p, ","))
			return error_expected(p, "',' or ')'");
	}
}

static int parse_element(struct parser *p, struct varlink_type *t)
{
	int r;

	next_token(p);
	t->kind = VARLINK_ARRAY;
	if (take_token(p, "string"))
		t->kind = VARLINK_MAP;
	r = need_token(p, "]");
	if (r < 0)
		return r;
	t->element = calloc(1, sizeof(*t->element));
	return t->element ? parse_type(p, t->element) : no_memory(p);
}

static int parse_plain(struct parser *p, struct varlink_type *t)
{
	static const char *const names[] = {
		[VARLINK_BOOL] = "bool",
		[VARLINK_INT] = "int",
		[VARLINK_FLOAT] = "float",
		[VARLINK_STRING] = "string",
		[VARLINK_OBJECT] = "object",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (take_token(p, names[i])) {
			t->kind = i;
			return 0;
		}
	}
	if (!p->len || !isupper((unsigned char)*p->token))
		return error_expected(p, "a type");
	t->kind = VARLINK_NAMED;
	t->line = p->token_line;
	t->column = p->token_column;
	return member_name(p, &t->name);
}

static int parse_type(struct parser *p, struct varlink_type *t)
{
	int r;

	if (++p->depth > NESTING_MAX)
		return error_set(p->err, -EINVAL,
			"line %d, column %d: types are nested deeper than %d", p->token_line,
			p->token_column, NESTING_MAX);
	t->nullable = take_token(p, "?");
	if (token_is(p, "["))
		r = parse_element(p, t);
	else if (token_is(p, "("))
		r = parse_group(p, t);
	else
		r = parse_plain(p, t);
	p->depth--;
	return r;
}

static struct varlink_member *add_member(struct varlink_idl *idl)
{
	size_t n = idl->n_members;
	struct varlink_member *grown = array_grow(idl->members, n, n + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	idl->members = grown;
	return &grown[idl->n_members++];
}

static int parse_struct(struct parser *p, struct varlink_type *t)
{
	struct parser before = *p;
	int r = parse_group(p, t);

	if (r == 0 && t->kind != VARLINK_STRUCT)
		return error_expected(&before, "fields with their types");
	return r;
}

static int parse_member(struct parser *p, struct varlink_idl *idl)
{
	struct varlink_member *m = add_member(idl);
	struct parser before;
	char *name;
	int r;

	if (!m)
		return no_memory(p);
	if (take_token(p, "type"))
		m->kind = VARLINK_TYPE;
	else if (take_token(p, "method"))
		m->kind = VARLINK_METHOD;
	else if (take_token(p, "error"))
		m->kind = VARLINK_ERROR;
	else
		return error_expected(p, "'type', 'method' or 'error'");
	before = *p;
	r = member_name(p, &name);
	if (r < 0)
		return r;
	if (varlink_idl_member(idl, m->kind, name)) {
		free(name);
		return error_expected(&before, "another name than the one that is taken");
	}
	m->name = name;
	r = m->kind == VARLINK_TYPE ? parse_group(p, &m->type) : parse_struct(p, &m->type);
	if (r < 0 || m->kind != VARLINK_METHOD)
		return r;
	r = need_token(p, "->");
	return r < 0 ? r : parse_struct(p, &m->out);
}

static int resolve_type(const struct varlink_idl *idl, struct varlink_type *t, struct error *err)
{
	const struct varlink_member *m;
	int r = 0;

	if (t->kind == VARLINK_NAMED) {
		m = varlink_idl_member(idl, VARLINK_TYPE, t->name);
		if (!m)
			return error_set(err, -EINVAL, "line %d, column %d: there is no type '%s'",
				t->line, t->column, t->name);
		t->target = &m->type;
	}
	if (t->element)
		return resolve_type(idl, t->element, err);
	for (size_t i = 0; r == 0 && i < t->n_fields; i++)
		r = resolve_type(idl, &t->fields[i].type, err);
	return r;
}

int varlink_idl_parse(const char *text, struct varlink_idl **ret, struct error *err)
{
	_cleanup_(varlink_idl_freep) struct varlink_idl *idl = calloc(1, sizeof(*idl));
	struct parser p = { .at = text, .line_start = text, .line = 1, .err = err };
	int r;

	if (!idl)
		return no_memory(&p);
	next_token(&p);
	r = need_token(&p, "interface");
	if (r == 0)
		r = interface_name(&p, &idl->name);
	while (r == 0 && p.len)
		r = parse_member(&p, idl);
	for (size_t i = 0; r == 0 && i < idl->n_members; i++) {
		r = resolve_type(idl, &idl->members[i].type, err);
		if (r == 0)
			r = resolve_type(idl, &idl->members[i].out, err);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(idl);
	return 0;
}

static void type_fini(struct varlink_type *t)
{
	if (t->element) {
		type_fini(t->element);
		free(t->element);
	}
	for (size_t i = 0; i < t->n_fields; i++) {
		free(t->fields[i].name);
		type_fini(&t->fields[i].type);
	}
	free(t->fields);
	free(t->name);
}

struct varlink_idl *varlink_idl_free(struct varlink_idl *idl)
{
	if (!idl)
		return NULL;
	for (size_t i = 0; i < idl->n_members; i++) {
		free(idl->members[i].name);
		type_fini(&idl->members[i].type);
		type_fini(&idl->members[i].out);
	}
	free(idl->members);
	free(idl->name);
	free(idl);
	return NULL;
}

const struct varlink_member *varlink_idl_member(
	const struct varlink_idl *idl, enum varlink_member_kind kind, const char *name)
{
	for (size_t i = 0; i < idl->n_members; i++) {
		const struct varlink_member *m = &idl->members[i];

		if (m->kind == kind && m->name && !strcmp(m->name, name))
			return m;
	}
	return NULL;
}
