# SPDX-License-Identifier: Apache-2.0
agent_SRC :=
