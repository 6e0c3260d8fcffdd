/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/natural.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Not isdigit(): hosts may have different locales, but must agree on the order. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t count_digits(const char *s)
{
	size_t n = 0;

	while (is_digit(s[n]))
		n++;
	return n;
}

/* Compares the numbers that a and b begin with, however long they are, and steps over them. */
static int compare_leading_numbers(const char **a, const char **b)
{
	size_t na, nb;
	int r;

	while (**a == '0')
		(*a)++;
	while (**b == '0')
		(*b)++;
	na = count_digits(*a);
	nb = count_digits(*b);
	r = na != nb ? (na < nb ? -1 : 1) : memcmp(*a, *b, na);
	*a += na;
	*b += nb;
	return r;
}

int natural_compare(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		if (is_digit(*x) && is_digit(*y)) {
			int r = compare_leading_numbers(&x, &y);

			if (r)
				return r;
		} else if (*x != *y) {
			break;
		} else {
			x++;
			y++;
		}
	}
	if (*x != *y)
		return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
	return strcmp(a, b);
}
