# SPDX-License-Identifier: Apache-2.0
daemon_SRC :=
