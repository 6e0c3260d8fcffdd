/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The features of the agent, in the order in which the core calls them; ends with NULL. */
extern const struct feature *const agent_features[];
/* The features of a private agent (alone.h). */
extern const struct feature *const agent_features_alone[];
