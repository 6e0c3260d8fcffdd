/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of its own that says who uses the GPUs: elastic-agent --gpu-usage, for elasticctl top.
 * The library of the driver may hang there; its caller then goes on without figures, and kills it.
 */

/*
 * For each byte of standard input, prints a line of JSON: an object whose member gpus has for each
 * GPU its number (gpu), how busy it is (percent, where that is known) and its processes: bytes,
 * where known, and pids, the process and those above it. Ends with the input. Returns its exit
 * status: 0, or 2 where there is no driver.
 */
int gpu_usage_run(void);
