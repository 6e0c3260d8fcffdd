/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/prefix.h"

#include "common/base/memstream.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(char c, bool first)
{
	return c == '_' || isalpha((unsigned char)c) || (!first && isdigit((unsigned char)c));
}

/* Writes the value of variable name. Returns false when there is no such variable. */
static bool put_variable(FILE *f, const char *name, size_t n, const struct prefix_vars *vars)
{
	if (n == 4 && !strncmp(name, "role", n))
		fputs(vars->role, f);
	else if (n == 9 && !strncmp(name, "role_name", n))
		fputs(vars->role, f);
	else if (n == 4 && !strncmp(name, "rank", n))
		fprintf(f, "%d", vars->rank);
	else if (n == 10 && !strncmp(name, "local_rank", n))
		fprintf(f, "%d", vars->local_rank);
	else if (n == 5 && !strncmp(name, "index", n))
		fprintf(f, "%d", vars->index);
	else if (n == 4 && !strncmp(name, "host", n))
		fputs(vars->host ? vars->host : "", f);
	else
		return false;
	return true;
}

/* Expands the "$..." at p. Returns how many bytes of the template it used up. */
static size_t expand_one(FILE *f, const char *p, const struct prefix_vars *vars)
{
	bool brace = p[1] == '{';
	const char *name = p + 1 + brace;
	size_t n = 0;

	if (p[1] == '$') {
		fputc('$', f);
		return 2;
	}
	while (is_name(name[n], n == 0))
		n++;
	if (n > 0 && (!brace || name[n] == '}') && put_variable(f, name, n, vars))
		return 1 + brace + n + brace;
	fputc('$', f);
	return 1;
}

char *prefix_expand(const char *tmpl, const struct prefix_vars *vars)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	for (const char *p = tmpl ? tmpl : PREFIX_DEFAULT; *p;) {
		if (*p == '$') {
			p += expand_one(f, p, vars);
		} else {
			fputc(*p++, f);
		}
	}
	return memstream_end(f, &text);
}

char *prefix_colour(const char *prefix, int rank)
{
	static const char colours[] = { '6', '2', '3', '5', '4', '1' };
	char *text;

	if (asprintf(&text, "\033[3%cm%s\033[0m", colours[(unsigned)rank % sizeof(colours)],
		    prefix) < 0)
		return NULL;
	return text;
}
