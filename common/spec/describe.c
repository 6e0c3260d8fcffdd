/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/quote.h"
#include "common/spec/spec.h"

#include <string.h>

/* Names what a specification runs, for people. */

char *spec_command_line(const struct spec *s)
{
	return quote_shell(s->roles[0].command);
}

/* "python", "python3", "/usr/bin/python3.11", "pypy3" */
static bool is_python(const char *program)
{
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;
	size_t n = !strncmp(name, "python", 6) ? 6 : !strncmp(name, "pypy", 4) ? 4 : 0;

	return n && strspn(name + n, "0123456789.") == strlen(name + n);
}

/* Python's own options whose argument may be the next word; -c and -m end the options. */
static bool takes_word(const char *option)
{
	return !strcmp(option, "-W") || !strcmp(option, "-X") ||
	       !strcmp(option, "--check-hash-based-pycs");
}

const char *spec_entrypoint(const struct spec *s)
{
	char *const *words = s->roles[0].command;

	if (!is_python(words[0]))
		return words[0];
	for (size_t i = 1; words[i]; i++) {
		if (!strcmp(words[i], "-m"))
			return words[i + 1] ? words[i + 1] : words[0];
		if (!strcmp(words[i], "-c") || !strcmp(words[i], "-"))
			return words[0];
		if (words[i][0] != '-')
			return words[i];
		if (takes_word(words[i]) && words[i + 1])
			i++;
	}
	return words[0];
}
