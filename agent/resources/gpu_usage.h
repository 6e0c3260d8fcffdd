/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of its own that tells which processes use the GPUs: elastic-agent --gpu-usage, for
 * elasticctl top. The driver's library may hang there; the caller then goes on without figures, and
 * kills the process.
 */

/*
 * For each byte of standard input, prints a line of JSON: an object whose member gpus has for each
 * GPU its number (gpu), how busy it is (percent, where known) and its processes: bytes, where
 * known, and pids: the process and its ancestors. Ends with the input. Returns the exit status: 0,
 * or 2 where there is no driver.
 */
int gpu_usage_run(void);
