/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/match.h"

#include <errno.h>
#include <string.h>

int log_match_init(struct log_match *m, const char *text)
{
	*m = (struct log_match){ .text = text, .len = text ? strlen(text) : 0 };
	if (m->len > 1)
		m->end = malloc(2 * m->len);
	return m->len > 1 && !m->end ? -ENOMEM : 0;
}

void log_match_fini(struct log_match *m)
{
	free(m->end);
	*m = (struct log_match){ 0 };
}

/* Appends n bytes at data to the kept end, which stays shorter than two texts. */
static void match_append(struct log_match *m, const char *data, size_t n)
{
	memcpy(m->end + m->n_end, data, n);
	m->n_end += n;
}

/* Keeps the last bytes of the line: the text may begin there. */
static void match_keep_end(struct log_match *m, const char *data, size_t n)
{
	size_t most = m->len - 1;

	if (n >= most) {
		m->n_end = 0;
		match_append(m, data + n - most, most);
	} else if (m->n_end + n > most) {
		size_t drop = m->n_end + n - most;

		memmove(m->end, m->end + drop, m->n_end - drop);
		m->n_end -= drop;
		match_append(m, data, n);
	} else {
		match_append(m, data, n);
	}
}

/* True when the text begins in earlier pieces and ends in this one. */
static bool match_across(struct log_match *m, const char *data, size_t n)
{
	size_t before = m->n_end;
	bool found;

	if (before == 0)
		return false;
	match_append(m, data, n < m->len - 1 ? n : m->len - 1);
	found = memmem(m->end, m->n_end, m->text, m->len) != NULL;
	m->n_end = before;
	return found;
}

bool log_match_piece(struct log_match *m, const char *data, size_t n, bool first)
{
	if (first) {
		m->found = m->len == 0;
		m->n_end = 0;
	}
	if (m->found)
		return true;
	m->found = memmem(data, n, m->text, m->len) || match_across(m, data, n);
	if (!m->found && m->len > 1)
		match_keep_end(m, data, n);
	return m->found;
}
