/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The protocol between a private agent (elastic-agent --alone) and the library that starts it. */

/* The descriptor of the agent's end of the channel. */
#define ALONE_FD 3

/* The agent's first message: this one byte with the descriptor of the board, or a text that says
 * why there is none. The library's messages are this byte with a connected socket. */
#define ALONE_BYTE '+'

/* Of the one worker, as the board has it. */
#define ALONE_TOKEN UINT64_C(1)
