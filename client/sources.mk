# SPDX-License-Identifier: Apache-2.0
client_SRC :=
