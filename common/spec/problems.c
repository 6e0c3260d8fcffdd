/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Collects the errors of a specification: the first one, or all. */

void spec_problems_fini(struct spec_problems *p)
{
	free(p->items);
	*p = (struct spec_problems){ 0 };
}

static int add_problem(struct spec_problems *p, const struct error *err)
{
	struct error *items;

	if (p->n == SPEC_PROBLEMS_MAX)
		return -ENOSPC;
	items = reallocarray(p->items, p->n + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	p->items = items;
	p->items[p->n++] = *err;
	return 0;
}

bool spec_go_on(struct spec_ctx *ctx, int r)
{
	return r == -EINVAL && ctx->all && add_problem(ctx->all, ctx->err) == 0;
}

bool spec_wrong_below(const struct spec_ctx *ctx, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; ctx->all && i < ctx->n_fields; i++) {
		const char *field = ctx->all->items[i].field;

		if (!strncmp(field, path, len) && (!field[len] || strchr(".[", field[len])))
			return true;
	}
	return false;
}

/* The length of the path of the object that contains the key. */
static size_t object_length(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? (size_t)(dot - path) : 0;
}

static bool wrong_beside(const struct spec_ctx *ctx, const char *path)
{
	size_t len = object_length(path);

	for (size_t i = 0; ctx->all && i < ctx->n_fields; i++) {
		const char *field = ctx->all->items[i].field;

		if (object_length(field) == len && !strncmp(field, path, len))
			return true;
	}
	return false;
}

static void add_note(struct spec_ctx *ctx, const char *path, const char *fmt, va_list ap)
{
	struct error err = { 0 };
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	error_field(&err, -EINVAL, path, "%s", text);
	if (ctx->err)
		*ctx->err = err;
	if (ctx->all && add_problem(ctx->all, &err) < 0)
		return;
	ctx->failed = true;
}

void spec_note(struct spec_ctx *ctx, const char *path, const char *fmt, ...)
{
	va_list ap;

	if (ctx->all ? wrong_beside(ctx, path) : ctx->failed)
		return;
	va_start(ap, fmt);
	add_note(ctx, path, fmt, ap);
	va_end(ap);
}

void spec_note_alone(struct spec_ctx *ctx, const char *path, const char *fmt, ...)
{
	va_list ap;

	if (ctx->all ? spec_wrong_below(ctx, path) : ctx->failed)
		return;
	va_start(ap, fmt);
	add_note(ctx, path, fmt, ap);
	va_end(ap);
}
