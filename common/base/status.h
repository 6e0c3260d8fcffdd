/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The canonical status codes (those of gRPC and of TensorFlow's coordination service), with the
 * names that the errors of io.elasticd.Worker have. Numbers and names never change.
 */

#define STATUS_CODES(X)                                 \
	X(OK, 0, "OK")                                  \
	X(CANCELLED, 1, "Cancelled")                    \
	X(UNKNOWN, 2, "Unknown")                        \
	X(INVALID_ARGUMENT, 3, "InvalidArgument")       \
	X(DEADLINE_EXCEEDED, 4, "DeadlineExceeded")     \
	X(NOT_FOUND, 5, "NotFound")                     \
	X(ALREADY_EXISTS, 6, "AlreadyExists")           \
	X(PERMISSION_DENIED, 7, "PermissionDenied")     \
	X(RESOURCE_EXHAUSTED, 8, "ResourceExhausted")   \
	X(FAILED_PRECONDITION, 9, "FailedPrecondition") \
	X(ABORTED, 10, "Aborted")                       \
	X(OUT_OF_RANGE, 11, "OutOfRange")               \
	X(UNIMPLEMENTED, 12, "Unimplemented")           \
	X(INTERNAL, 13, "Internal")                     \
	X(UNAVAILABLE, 14, "Unavailable")               \
	X(DATA_LOSS, 15, "DataLoss")                    \
	X(UNAUTHENTICATED, 16, "Unauthenticated")

enum status {
#define X(name, number, text) STATUS_##name = number,
	STATUS_CODES(X)
#undef X
};

/* "DeadlineExceeded"; "Unknown" for a number that is none of these. */
const char *status_name(enum status s);
/* The code of a name, also with "io.elasticd.Worker." before it or in the style of C and Python
 * ("DEADLINE_EXCEEDED"); -1 where it is none. */
int status_from_name(const char *name);
