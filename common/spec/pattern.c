/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/quote.h"
#include "common/spec/table.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

/*
 * Regular expressions.
 *
 * The C library copies what is repeated: "((((a{1,255}){1,255}){1,255})" is a few bytes of text and
 * takes all of the memory. So a pattern is measured before it is compiled: the sum of its parts,
 * each times its repetitions.
 */

enum { PATTERN_BYTES_MAX = 1024, PATTERN_WEIGHT_MAX = 1000 };

struct measure {
	const char *at;
	int64_t sums[PATTERN_BYTES_MAX + 1]; /* of the open groups; 0 is the whole pattern */
	size_t depth;
	int64_t last; /* the size of the part that a repetition would repeat */
};

static void measure_part(struct measure *m, int64_t weight)
{
	m->last = weight;
	m->sums[m->depth] += weight;
}

static void measure_times(struct measure *m, int64_t times)
{
	int64_t more = m->last * (times > 1 ? times - 1 : 0);

	m->last += more;
	m->sums[m->depth] += more;
}

/* "[...]", in which ']' may stand first and "[:alpha:]", "[=e=]" and "[.-.]" have their own. */
static const char *bracket_end(const char *p)
{
	p++;
	if (*p == '^')
		p++;
	if (*p == ']')
		p++;
	for (; *p && *p != ']'; p++) {
		const char kind = p[1];
		const char close[] = { kind, ']', '\0' };
		const char *end;

		if (*p != '[' || !kind || !strchr(":=.", kind))
			continue;
		end = strstr(p + 2, close);
		if (!end)
			return p + strlen(p);
		p = end + 1;
	}
	return *p ? p + 1 : p;
}

/* Parses "{3}", "{3,}" or "{3,5}": the largest number; 1 for other text. */
static const char *interval_end(const char *p, int64_t *ret_times)
{
	int64_t number = 0;

	*ret_times = 1;
	for (p++; *p && strchr("0123456789,", *p); p++) {
		number = *p == ',' ? 0 : number * 10 + (*p - '0');
		if (number > PATTERN_WEIGHT_MAX + 1)
			number = PATTERN_WEIGHT_MAX + 1;
		if (number > *ret_times)
			*ret_times = number;
	}
	return *p == '}' ? p + 1 : p;
}

static void measure_step(struct measure *m)
{
	const char *p = m->at++;
	int64_t times;

	switch (*p) {
	case '\\':
		if (*m->at)
			m->at++;
		measure_part(m, 1);
		break;
	case '[':
		m->at = bracket_end(p);
		measure_part(m, 1);
		break;
	case '(':
		m->sums[++m->depth] = 1;
		m->last = 0;
		break;
	case ')':
		if (!m->depth) {
			measure_part(m, 1);
			break;
		}
		m->depth--;
		measure_part(m, m->sums[m->depth + 1]);
		break;
	case '+':
		measure_times(m, 2);
		break;
	case '{':
		m->at = interval_end(p, &times);
		measure_times(m, times);
		break;
	case '|':
		m->last = 0;
		break;
	default:
		measure_part(m, 1);
	}
}

/* Whether the pattern is small enough to compile, with its repetitions written out. */
static bool pattern_fits(const char *text)
{
	struct measure m = { .at = text };

	while (*m.at) {
		measure_step(&m);
		if (m.sums[m.depth] > PATTERN_WEIGHT_MAX)
			return false;
	}
	return true;
}

/* A back-reference can make matching take exponential time. */
static bool has_reference(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p == '[') {
			p = bracket_end(p) - 1;
		} else if (*p == '\\' && p[1]) {
			if (p[1] >= '1' && p[1] <= '9')
				return true;
			p++;
		}
	}
	return false;
}

static int pattern_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	const char *text = spec_text(ctx, key->type->expected, value);
	char q[QUOTE_MAX], why[128];
	regex_t compiled;
	int r;

	if (!text)
		return -EINVAL;
	if (!*text)
		return spec_expected(ctx, key->type->expected, value);
	if (strlen(text) > PATTERN_BYTES_MAX)
		return spec_refuse(ctx, "expected a pattern of at most %d bytes, got %zu",
			PATTERN_BYTES_MAX, strlen(text));
	if (has_reference(text))
		return spec_refuse(ctx, "expected no back-references, got %s", quote_text(text, q));
	if (!pattern_fits(text))
		return spec_refuse(ctx, "repeats too much: %s", quote_text(text, q));
	r = regcomp(&compiled, text, REG_EXTENDED | REG_NOSUB);
	if (r) {
		regerror(r, &compiled, why, sizeof(why));
		return spec_refuse(ctx, "expected %s, got %s: %s", key->type->expected,
			quote_text(text, q), why);
	}
	regfree(&compiled);
	return spec_set_string(ctx, text, field);
}

const struct spec_type spec_type_pattern = {
	.expected = "an extended regular expression",
	.parse = pattern_parse,
	.format = spec_format_text,
};
