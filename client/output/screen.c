/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/screen.h"

#include "common/base/cleanup.h"
#include "common/base/printable.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* stdout or stderr: the stream that verbs print to, and the one behind it. */
struct screen {
	FILE *shown, *real;
	struct printable_stream text;
	bool exact;
};

static struct screen out, errors;

static ssize_t on_write(void *arg, const char *data, size_t len)
{
	struct screen *s = arg;

	if (s->exact)
		fwrite(data, 1, len, s->real);
	else
		printable_pass(&s->text, s->real, data, len);
	/* stdio expects 0 for a failed write; errno says why. */
	return fflush(s->real) == 0 && !ferror(s->real) ? (ssize_t)len : 0;
}

static FILE *screen_new(struct screen *s, FILE *real, int mode)
{
	const cookie_io_functions_t functions = { .write = on_write };

	*s = (struct screen){ .real = real, .shown = fopencookie(s, "w", functions) };
	if (!s->shown || setvbuf(s->shown, NULL, mode, BUFSIZ) != 0)
		abort();
	/* One write() for each write that comes in. */
	setvbuf(real, NULL, _IOFBF, 2 * BUFSIZ);
	return s->shown;
}

void screen_begin(void)
{
	stdout = screen_new(&out, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
	stderr = screen_new(&errors, stderr, _IONBF);
}

void screen_exact(FILE *f)
{
	struct screen *s = f == out.shown ? &out : &errors;

	if (f == s->shown && s->shown && !isatty(fileno(s->real)))
		s->exact = true;
}

void screen_redraw(const char *line)
{
	char text[512];

	printable_copy(text, sizeof(text), line);
	fprintf(errors.real, "\r%s\033[K", text);
	fflush(errors.real);
}
