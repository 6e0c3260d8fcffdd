/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The private agent of a program that runs outside elasticd: serves io.elasticd.Worker and
 * io.elasticd.Queue to that program's threads and children, which are its one worker, worker:0. It
 * starts, watches, signals and ends nothing, writes no file and has no name in the file system.
 *
 * Its channel is one end of a SOCK_SEQPACKET pair whose other end the program and its children
 * have. The agent's first message passes its board, or says why it cannot serve; after that each
 * message to it passes a connected socket to serve (common/base/alone.h). The agent ends when the
 * last copy of the other end is closed, so at the latest with the last of these processes.
 */

/* Takes channel; returns the exit status. */
int alone_run(int channel);
