/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/screen.h"

#include "client/output/pager.h"
#include "client/output/table.h"
#include "common/base/cleanup.h"
#include "common/base/printable.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

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

	if (f == s->shown && s->shown && !isatty(fileno(s->real)) && !pager_runs())
		s->exact = true;
}

/* How many rows a page may have; 0: any number, since nothing can be drawn over. */
static int page_rows(void)
{
	const char *term = getenv("TERM");
	struct winsize ws;

	if (!isatty(fileno(out.real)) || !term || !*term || !strcmp(term, "dumb"))
		return 0;
	return ioctl(fileno(out.real), TIOCGWINSZ, &ws) == 0 && ws.ws_row > 1 ? ws.ws_row - 1 : 23;
}

void screen_page(const char *text, bool last)
{
	int rows = page_rows();
	const char *end = text;

	if (rows == 0) {
		fprintf(stdout, "%s\n", text);
		fflush(stdout);
		return;
	}
	for (int i = 0; (i < rows || last) && *end; i++)
		end = strchrnul(end, '\n') + (*strchrnul(end, '\n') == '\n');
	fputs("\033[H\033[J", out.real);
	fwrite(text, 1, (size_t)(end - text), stdout);
	if (*end)
		fputs("(the terminal has no room for more)", stdout);
	fflush(stdout);
	fflush(out.real);
}

void screen_redraw(const char *line)
{
	char text[512];
	struct winsize ws;
	int width, columns = 80;

	if (ioctl(fileno(errors.real), TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
		columns = ws.ws_col;
	printable_copy(text, sizeof(text), line);
	text[table_fitting(text, columns - 1, &width)] = '\0';
	fprintf(errors.real, "\r%s\033[K", text);
	fflush(errors.real);
}
