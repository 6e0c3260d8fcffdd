#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The smallest worker: prints its rank, works for a number of seconds (0), and ends with a status (0),
# both of which are arguments:
#
#     elasticctl run --nproc-per-node 4 --tee 3 examples/hello.sh 2
#
echo "hello from rank ${RANK:-0} of ${WORLD_SIZE:-1}, process $$, attempt" \
	"${TORCHELASTIC_RESTART_COUNT:-0}"
sleep "${1:-0}"
exit "${2:-0}"
