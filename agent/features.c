/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the table is the order of the hooks.
 *
 *   sharing   first: other features use its slots; it answers workers at barriers before others
 *             learn of an end, and closes a worker's connections before the queue learns of its end
 *   watchdog  after sharing, whose board it watches
 *   speed     after sharing, too; it adds to the event of an end how far the worker was
 *   preempt   after sharing has read the last calls of an ended worker, which say how it left
 *   attach    signals and ends workers that are not below the agent
 *   ready     its calls need the slots of sharing; api shows what it finds
 *   resources chooses the CPUs of workers that the features before it know
 *   queue     gives tasks to workers that the features before it know
 *   hosts     reports ends to the head after the features before it have handled them
 *   api       it shows the state of all before it, and its server outlives their calls
 *   hooks     last: callers have their answers before the agent waits for programs
 */
#include "agent/features.h"

#include "agent/api/methods.h"
#include "agent/attach/attach.h"
#include "agent/hooks/hooks.h"
#include "agent/hosts/hosts.h"
#include "agent/preempt/service.h"
#include "agent/queue/service.h"
#include "agent/ready/ready.h"
#include "agent/resources/resources.h"
#include "agent/sharing/service.h"
#include "agent/speed/speed.h"
#include "agent/watchdog/watchdog.h"

#include <stddef.h>

const struct feature *const agent_features[] = {
	&sharing_feature,
	&watchdog_feature,
	&speed_feature,
	&preempt_feature,
	&attach_feature,
	&ready_feature,
	&resources_feature,
	&queue_feature,
	&hosts_feature,
	&api_feature,
	&hooks_feature,
	NULL,
};

const struct feature *const agent_features_alone[] = {
	&sharing_feature,
	&preempt_feature,
	&queue_feature,
	NULL,
};
