/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Job files: a text that is read can be written as JSON and read again; others are refused. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_json_ json_t *doc = NULL, *back = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_(yaml_problems_fini) struct yaml_problems problems = { 0 };
	struct error err = { 0 };

	if (yaml_parse((const char *)data, size, "fuzz", &doc, &problems, &err) < 0) {
		if (!err.code || strncmp(err.text, "fuzz:", 5) || strchr(err.text, '\n'))
			abort();
		return 0;
	}
	text = json_dumps(doc, JSON_ENCODE_ANY | JSON_COMPACT);
	if (!text)
		abort();
	back = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (!back || !json_equal(doc, back))
		abort();
	return 0;
}
