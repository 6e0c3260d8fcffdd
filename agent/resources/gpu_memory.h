/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of its own that reads the memory of GPUs: elastic-agent --gpu-memory. The driver's
 * library may hang there, and the agent then kills the process.
 */

/*
 * gpus: numbers or UUIDs, joined by commas; "": all. Where before is NULL, prints how many MiB of
 * each are in use. Else before is such a line: waits at most limit_ms until no GPU has notably more
 * in use, or prints which one has, and the processes that hold it. Returns the exit status: 0; 1
 * where the time is over; 2 where it cannot read GPUs, with the reason on standard error.
 */
int gpu_memory_run(const char *gpus, const char *before, int limit_ms);
