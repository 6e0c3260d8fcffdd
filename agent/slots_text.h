/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts about members that are slots. They never tear a UTF-8 sequence. */

#include <stddef.h>

/* Borrowed text "role:index" of a slot, until the next call. */
typedef const char *(*slots_name_fn)(void *arg, int slot);

/* Appends text to what is in buf (size bytes with its NUL), cut where it does not fit. */
void slots_append(char *buf, size_t size, const char *text);
/* The same with at most max bytes of text, "..." in place of what is cut. */
void slots_append_cut(char *buf, size_t size, const char *text, size_t max);
/* Appends "worker:0, ps:1 and 3 more": as many names as there is room for. */
void slots_append_names(
	char *buf, size_t size, const int *slots, size_t n, slots_name_fn name, void *arg);
