/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of its own that looks at the memory of GPUs: elastic-agent --gpu-memory. The library of
 * the driver may hang there, and is killed then.
 */

/*
 * gpus: numbers or UUIDs, joined by commas; "": all. Without before it prints how many MiB of each
 * are in use. With it, such a line, it waits at most limit_ms until no GPU has notably more in use
 * than that; else it prints which has, and who holds it. Returns its exit status: 0, 1 where the
 * time is over, or 2 where there is nothing to look at (on standard error).
 */
int gpu_memory_run(const char *gpus, const char *before, int limit_ms);
