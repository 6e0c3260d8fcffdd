/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An error that says what went wrong, where, what was expected and what was found.
 * The caller owns the struct; functions fill it and return its code, so that one line
 * reports and forwards: return error_set(err, -EINVAL, "roles[1].replicas: expected ...").
 */

struct error {
	int code;	 /* negative errno; 0 while nothing was set */
	char field[192]; /* path of the offending field, or "" */
	char text[1024]; /* one line for people, no newline at its end */
};

/* Sets code and text (field becomes ""). err may be NULL. Returns code. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for bad input: also names the field; text becomes "field: message". A field of
 * NULL or "" is left out. Returns code. */
int error_field(struct error *err, int code, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "prefix: " before the text that is there. Returns err's code. */
int error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts more text behind the text that is there. */
void error_append(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
