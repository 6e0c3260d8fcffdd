/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the table is the order of the hooks.
 *
 *   sharing   first: others have their place by its slots, and hear what ends mean after those who
 *             wait at barriers; a worker's connections close before the queue knows of its end
 *   watchdog  watches what sharing has begun
 *   preempt   asks who may still save, after sharing has read what an ended worker had said
 *   attach    signals and ends what is not below the agent
 *   queue     gives workers to workers of which all others know
 *   api       the last: it shows what the others have done, and its server outlives their calls
 */
#include "agent/features.h"

#include "agent/api/methods.h"
#include "agent/attach/attach.h"
#include "agent/preempt/service.h"
#include "agent/queue/service.h"
#include "agent/sharing/service.h"
#include "agent/watchdog/watchdog.h"

#include <stddef.h>

const struct feature *const agent_features[] = {
	&sharing_feature,
	&watchdog_feature,
	&preempt_feature,
	&attach_feature,
	&queue_feature,
	&api_feature,
	NULL,
};

const struct feature *const agent_features_alone[] = {
	&sharing_feature,
	&preempt_feature,
	&queue_feature,
	NULL,
};
