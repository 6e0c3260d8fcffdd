#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A group of all nodes of an allocation, which is queued again when it was preempted or its time is over:
#
#     sbatch slurm.sh
#
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the end each step gets SIGTERM, which train.yaml takes for a notice.
#SBATCH --signal=TERM@120

# auto: hosts, endpoint, order and identifier are those of the step.
srun --ntasks-per-node=1 elasticctl run --nnodes=auto --spec=train.yaml
status=$?

# 42: workers have saved and left, and continue in the job's next allocation. All other ends are final.
if [ "$status" -eq 42 ]; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
