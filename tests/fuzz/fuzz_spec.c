/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/spec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Specifications. A text that parses has to be written back as a document that parses to the same,
 * and what does not has to be refused with a line of text.
 */

static void check_error(const struct error *err)
{
	if (!err->code || !err->text[0] || strchr(err->text, '\n'))
		abort();
}

static void check_same(const struct spec *s)
{
	_cleanup_json_ json_t *full = spec_to_json(s), *again = NULL;
	_cleanup_(spec_freep) struct spec *back = NULL;
	_cleanup_free_ char *line = spec_command_line(s);
	struct error err = { 0 };

	if (!full || !line || strchr(line, '\n') || !*spec_entrypoint(s))
		abort();
	/* The written text may be longer than the one read, by defaults, and so over a limit. */
	if (spec_parse(full, &back, &err) < 0) {
		if (!strstr(err.text, "bytes"))
			abort();
		return;
	}
	again = spec_to_json(back);
	if (!again || !json_equal(full, again))
		abort();
}

/* The parser that goes on after an error finds one where the other one does, and the same first. */
static void check_all(const char *text, size_t size, const struct error *first)
{
	_cleanup_(spec_freep) struct spec *s = NULL;
	_cleanup_json_ json_t *doc =
		json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	struct spec_problems all = { 0 };

	if (!doc)
		return;
	if ((spec_parse_all(doc, &s, &all, NULL) < 0) != (first->code != 0))
		abort();
	if (first->code && (!all.n || strcmp(all.items[0].text, first->text)))
		abort();
	for (size_t i = 0; i < all.n; i++)
		check_error(&all.items[i]);
	spec_problems_fini(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(spec_freep) struct spec *s = NULL;
	struct error err = { 0 };

	if (spec_parse_text((const char *)data, size, &s, &err) < 0)
		check_error(&err);
	else
		check_same(s);
	check_all((const char *)data, size, &err);
	return 0;
}
