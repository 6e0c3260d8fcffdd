/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers calls about a run that is over (archived_run_methods), on one connection, from its record
 * and its log directory. elasticd starts it as the job's user, so that elasticd need not read
 * users' files itself. Ends with the connection; takes conn_fd. Returns the exit status.
 */
int archived_run_serve(const char *record_dir, int conn_fd);
