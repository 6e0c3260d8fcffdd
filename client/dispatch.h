/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From the words of a command line to the verb that they mean. */

struct args;
struct ctl;
struct verb;

/* Runs the verb of table that args->argv[0] names, with the words behind it, and sets ctl->verb.
 * Returns an exit status. */
int dispatch(struct ctl *ctl, struct args *args, const struct verb *table);

/* Says that there is no such verb, and which one may be meant. ctl->verb: the group it would be in.
 */
int dispatch_unknown(struct ctl *ctl, const struct verb *table, const char *word);
