#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The smallest worker: says who it is, works for as many seconds as it is told (0), and ends with the
# given status (0):
#
#     elasticctl run --nproc-per-node 4 --tee 3 examples/hello.sh 2
#
echo "hello from rank ${RANK:-0} of ${WORLD_SIZE:-1}, process $$, attempt" \
	"${TORCHELASTIC_RESTART_COUNT:-0}"
sleep "${1:-0}"
exit "${2:-0}"
