/* SPDX-License-Identifier: Apache-2.0 */
#define NCURSES_WIDECHAR 1
#include "client/top/terminal.h"

#include "common/base/cleanup.h"

#include <errno.h>

#if HAVE_NCURSES

#include "client/output/table.h"

#include <curses.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#undef lines /* short names of capabilities, but of members of ours, too */
#undef columns

static SCREEN *terminal_screen;
static FILE *terminal_file;
static bool terminal_color;

/* The pairs of colours, by the last digit of their codes. */
static const short terminal_colors[8] = { -1, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_BLUE,
	COLOR_MAGENTA, COLOR_CYAN, COLOR_WHITE };

static void terminal_setup(bool color)
{
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	terminal_color = color && has_colors() && start_color() == OK;
	if (terminal_color && use_default_colors() == OK)
		for (short i = 1; i < 8; i++)
			init_pair(i, terminal_colors[i], -1);
}

int terminal_check(struct error *err)
{
	const char *term = getenv("TERM");
	bool moves;
	int found;

	if (!term || !*term || setupterm(term, STDOUT_FILENO, &found) != OK)
		return error_set(
			err, -ENOTSUP, "the terminal \"%s\" is not known here", term ? term : "");
	moves = cursor_address && clear_screen;
	del_curterm(cur_term);
	if (!moves)
		return error_set(err, -ENOTSUP, "the terminal \"%s\" cannot move its cursor", term);
	return 0;
}

int terminal_open(bool color, struct error *err)
{
	static bool once;
	int fd;

	/* stdout goes through client/output/screen.c, which is no file. */
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	terminal_file = fd < 0 ? NULL : fdopen(fd, "w");
	terminal_screen = terminal_file ? newterm(NULL, terminal_file, stdin) : NULL;
	if (!terminal_screen)
		return error_set(err, -ENOTSUP, "the terminal cannot be used");
	terminal_setup(color);
	if (!once)
		atexit(terminal_close);
	once = true;
	return 0;
}

void terminal_close(void)
{
	if (!terminal_screen)
		return;
	endwin();
	delscreen(terminal_screen);
	fclose(terminal_file);
	terminal_screen = NULL;
	terminal_file = NULL;
}

void terminal_size(int *ret_rows, int *ret_columns)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 0 && ws.ws_col > 0 &&
		(ws.ws_row != LINES || ws.ws_col != COLS))
		resizeterm(ws.ws_row, ws.ws_col);
	*ret_rows = LINES;
	*ret_columns = COLS;
}

/* Applies a sequence such as ESC [ 1 ; 31 m at text; returns what is behind it. */
static const char *terminal_style(const char *text)
{
	const char *p = text + 2;

	do {
		char *end;
		long code = strtol(p, &end, 10);

		p = end;
		if (code == 0)
			attrset(A_NORMAL);
		else if (code == 1)
			attron(A_BOLD);
		else if (code == 2)
			attron(A_DIM);
		else if (code == 4)
			attron(A_UNDERLINE);
		else if (code > 30 && code < 38 && terminal_color)
			attron(COLOR_PAIR(code - 30));
	} while (*p++ == ';');
	return p;
}

static void terminal_text(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\033");

		addnstr(text, (int)n);
		text += n;
		if (*text == '\033')
			text = terminal_style(text);
	}
}

static attr_t terminal_look(enum top_look look)
{
	switch (look) {
	case TOP_HEAD:
		return A_BOLD;
	case TOP_BAD:
		return terminal_color ? A_BOLD | COLOR_PAIR(COLOR_RED) : A_BOLD;
	case TOP_TITLES:
		return A_UNDERLINE;
	case TOP_SELECTED:
		return A_REVERSE;
	default:
		return A_NORMAL;
	}
}

static void terminal_line(const struct top_line *line, int row)
{
	int width = line->text ? table_width(line->text) : 0;

	move(row, 0);
	attrset((int)terminal_look(line->look));
	terminal_text(line->text ? line->text : "");
	/* These go to the edge; a plain line has codes in its text, which have no width. */
	if (line->look == TOP_SELECTED || line->look == TOP_TITLES)
		for (int i = width; i < COLS; i++)
			addch(' ');
	attrset(A_NORMAL);
}

void terminal_paint(const struct top_frame *f, bool all)
{
	if (all)
		clear();
	else
		erase();
	for (int i = 0; i < f->n && i < LINES; i++)
		terminal_line(&f->lines[i], i);
	curs_set(f->cursor >= 0);
	if (f->cursor >= 0)
		move(f->n - 1, f->cursor);
	refresh();
}

int terminal_key(void)
{
	static const struct {
		int curses, key;
	} keys[] = { { '\r', TOP_KEY_ENTER }, { '\n', TOP_KEY_ENTER }, { KEY_ENTER, TOP_KEY_ENTER },
		{ 27, TOP_KEY_ESCAPE }, { KEY_BACKSPACE, TOP_KEY_BACKSPACE },
		{ 127, TOP_KEY_BACKSPACE }, { 8, TOP_KEY_BACKSPACE }, { KEY_UP, TOP_KEY_UP },
		{ KEY_DOWN, TOP_KEY_DOWN }, { KEY_LEFT, TOP_KEY_LEFT },
		{ KEY_RIGHT, TOP_KEY_RIGHT }, { KEY_PPAGE, TOP_KEY_PAGE_UP },
		{ KEY_NPAGE, TOP_KEY_PAGE_DOWN }, { KEY_HOME, TOP_KEY_HOME },
		{ KEY_END, TOP_KEY_END }, { KEY_F(1), TOP_KEY_HELP }, { KEY_F(6), TOP_KEY_SORT },
		{ KEY_F(10), 'q' }, { 12, TOP_KEY_REDRAW }, { KEY_RESIZE, TOP_KEY_REDRAW } };
	int c = getch();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].curses == c)
			return keys[i].key;
	return c == ERR || c > 255 ? 0 : c;
}

#else

int terminal_check(struct error *err)
{
	return error_set(err, -ENOTSUP, "this elasticctl was built without ncurses");
}

int terminal_open(bool color, struct error *err)
{
	return terminal_check(err);
}

void terminal_close(void)
{
}

void terminal_size(int *ret_rows, int *ret_columns)
{
	*ret_rows = 24;
	*ret_columns = 80;
}

void terminal_paint(const struct top_frame *f, bool all)
{
}

int terminal_key(void)
{
	return 0;
}

#endif
