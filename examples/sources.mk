# SPDX-License-Identifier: Apache-2.0
# Each program's main() is in the .c of its name; what else it consists of is in its _SRC.
example_PROGRAMS := examples/digits
examples/digits_SRC := $(addprefix examples/digits/,checkpoint.c crash.c dataset.c distort.c \
	fail.c net.c ring.c wire.c)

library_EXAMPLES := examples/digits
