/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocations that fail where a test says so, of the whole program. Address sanitizer and valgrind
 * have an allocator of their own, which this cannot stand before: there none fails. Included once
 * by each test program.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum { ALONE, ALL };

static long allocations, fail_at; /* since it was set to 0; fail_at 0: none fails */
static int which;		  /* that one ALONE, or ALL from it on */

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static bool fails(void)
{
	if (!fail_at)
		return false;
	allocations++;
	if (which == ALL ? allocations < fail_at : allocations != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}
#endif
