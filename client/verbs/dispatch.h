/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds and runs the verb that a command line names. */

struct args;
struct ctl;
struct verb;

/* Runs the verb of table that args->argv[0] names, with the words after it, and sets ctl->verb.
 * Returns an exit status. */
int dispatch(struct ctl *ctl, struct args *args, const struct verb *table);

/* Prints that the verb does not exist, and which one the user may have meant. ctl->verb: the group
 * that would contain it. */
int dispatch_unknown(struct ctl *ctl, const struct verb *table, const char *word);
