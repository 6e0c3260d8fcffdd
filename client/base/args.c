/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/args.h"

#include "client/output/wrap.h"

#include "common/base/quote.h"
#include "common/base/scan.h"
#include "common/base/similar.h"
#include "common/text/duration.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

enum { LONG_BASE = 256 };

/* Fills getopt's tables from both of ours; val encodes table and row. */
static void fill_getopt_tables(const struct args *a, struct option *longs, char *shorts)
{
	int n = 0;

	for (int t = 0; t < 2; t++) {
		for (int i = 0; a->options[t] && a->options[t][i].name; i++) {
			const struct arg_option *o = &a->options[t][i];

			assert(i < ARGS_OPTIONS_MAX);
			longs[n++] = (struct option){ .name = o->name,
				.has_arg = o->value ? required_argument : no_argument,
				.val = LONG_BASE + t * ARGS_OPTIONS_MAX + i };
			if (o->letter) {
				*shorts++ = o->letter;
				if (o->value)
					*shorts++ = ':';
			}
		}
	}
	longs[n] = (struct option){ 0 };
	*shorts = '\0';
}

static int by_letter(const struct args *a, int c)
{
	for (int t = 0; t < 2; t++)
		for (int i = 0; a->options[t] && a->options[t][i].name; i++)
			if (a->options[t][i].letter == c)
				return LONG_BASE + t * ARGS_OPTIONS_MAX + i;
	return -1;
}

/* Reports an unknown long option: lists the options that begin with it, or else names the most
 * similar one. */
static int refuse_unknown(const struct args *a, const char *word, struct error *err)
{
	char name[SIMILAR_MAX + 1], names[160] = "", quoted[QUOTE_MAX];
	size_t best = SIMILAR_MAX, used = 0;
	const char *like = NULL;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (int t = 0; t < 2; t++) {
		for (int i = 0; a->options[t] && a->options[t][i].name; i++) {
			const char *other = a->options[t][i].name;
			size_t d = similar_distance(name, other);

			if (*name && !strncmp(other, name, strlen(name)) && used < sizeof(names))
				used += snprintf(names + used, sizeof(names) - used, "%s--%s",
					used ? ", " : "", other);
			if (d <= similar_limit(name) && d < best) {
				best = d;
				like = other;
			}
		}
	}
	quote_text(word, quoted);
	if (used)
		return error_set(err, -EINVAL, "option %s could be any of %s", quoted, names);
	if (like)
		return error_set(
			err, -EINVAL, "unknown option %s; did you mean --%s?", quoted, like);
	return error_set(err, -EINVAL, "unknown option %s", quoted);
}

static int explain_getopt(const struct args *a, char **argv, int c, struct error *err)
{
	const char *word = optind > 0 ? argv[optind - 1] : "";

	if (c == ':' && optopt < LONG_BASE)
		return error_set(err, -EINVAL, "option -%c needs a value", optopt);
	if (c == ':')
		return error_set(err, -EINVAL, "option %s needs a value", word);
	if (optopt >= LONG_BASE)
		return error_set(err, -EINVAL, "option --%s takes no value",
			a->options[(optopt - LONG_BASE) / ARGS_OPTIONS_MAX]
				  [(optopt - LONG_BASE) % ARGS_OPTIONS_MAX]
					  .name);
	if (optopt > 0)
		return error_set(err, -EINVAL, "unknown option -%c", optopt);
	return refuse_unknown(a, word, err);
}

/* Keeps the value of an option that may be given several times. Returns false if there are too
 * many.
 */
static bool add_to_many(struct args *a, const struct arg_option *o)
{
	size_t n = o->value ? strlen(o->value) : 0;

	if (n < 3 || strcmp(o->value + n - 3, "...") != 0)
		return true;
	if (a->n_many == ARGS_MANY_MAX)
		return false;
	a->many[a->n_many].option = o;
	a->many[a->n_many++].value = optarg;
	return true;
}

int args_parse(struct args *a, const struct arg_option *own, const struct arg_option *global,
	int argc, char **argv, bool stop_early, struct error *err)
{
	struct option longs[2 * ARGS_OPTIONS_MAX + 1];
	char shorts[4 * ARGS_OPTIONS_MAX + 3] = "";
	int c;

	a->options[0] = own;
	a->options[1] = global;
	memset(a->values[0], 0, sizeof(a->values[0]));
	a->n_many = 0;
	strcpy(shorts, stop_early ? "+:" : ":");
	fill_getopt_tables(a, longs, shorts + strlen(shorts));
	optind = 0; /* makes glibc start from the beginning */
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == '?' || c == ':')
			return explain_getopt(a, argv, c, err);
		if (c < LONG_BASE)
			c = by_letter(a, c);
		c -= LONG_BASE;
		a->values[c / ARGS_OPTIONS_MAX][c % ARGS_OPTIONS_MAX] = optarg ? optarg : "";
		if (!add_to_many(a, &a->options[c / ARGS_OPTIONS_MAX][c % ARGS_OPTIONS_MAX]))
			return error_set(err, -EINVAL, "an option is given more than %d times",
				ARGS_MANY_MAX);
	}
	a->argc = argc - optind;
	a->argv = argv + optind;
	return 0;
}

const char *args_get(const struct args *a, const char *name)
{
	for (int t = 0; t < 2; t++)
		for (int i = 0; a->options[t] && a->options[t][i].name; i++)
			if (!strcmp(a->options[t][i].name, name))
				return a->values[t][i];
	assert(!"an option that is in no table");
	return NULL;
}

void args_set(struct args *a, const struct arg_option *o, const char *value)
{
	for (int t = 0; t < 2; t++)
		for (int i = 0; a->options[t] && a->options[t][i].name; i++)
			if (&a->options[t][i] == o)
				a->values[t][i] = value;
}

const char *args_nth(const struct args *a, const char *name, int n)
{
	for (int i = 0; i < a->n_many; i++)
		if (!strcmp(a->many[i].option->name, name) && n-- == 0)
			return a->many[i].value;
	return NULL;
}

bool args_has(const struct args *a, const char *name)
{
	return args_get(a, name) != NULL;
}

int args_int(const struct args *a, const char *name, int64_t min, int64_t *value, struct error *err)
{
	const char *text = args_get(a, name);
	char quoted[QUOTE_MAX];
	bool bad, too_large;
	uint64_t v;

	if (!text)
		return 0;
	bad = scan_whole(text, INT32_MAX, &v) < 0;
	too_large = bad && *text && strspn(text, "0123456789") == strlen(text);
	if (bad || (int64_t)v < min)
		return error_set(err, -EINVAL, "--%s: expected an integer %s %d, got %s", name,
			too_large ? "<=" : ">=", too_large ? INT32_MAX : (int)min,
			quote_text(text, quoted));
	*value = (int64_t)v;
	return 0;
}

int args_duration(const struct args *a, const char *name, int64_t *ret_ms, struct error *err)
{
	const char *text = args_get(a, name);
	char field[64];

	if (!text)
		return 0;
	snprintf(field, sizeof(field), "--%s", name);
	return duration_parse_seconds(text, field, ret_ms, err);
}

void arg_option_print(FILE *f, const struct arg_option *o)
{
	enum { HELP_COLUMN = 36 };
	char letter[8] = "    ", left[96];

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
		o->value ? o->value : "");
	wrap_row(f, left, HELP_COLUMN, o->help);
}
