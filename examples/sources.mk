# SPDX-License-Identifier: Apache-2.0
example_PROGRAMS :=
