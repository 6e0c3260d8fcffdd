/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directories in which no other user can add or replace anything: sockets are made and searched by
 * name only in such ones. Called by daemon, agent and clients.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

/*
 * Checks that dir and all directories above it belong to root or the caller, and that only they may
 * write there. Above dir others may write if the sticky bit keeps them from renaming. Returns 0,
 * -ENOENT (also for -ENOTDIR) if dir does not exist, or -EPERM with err, which names the owner and
 * the expected one.
 */
_must_check_ int private_dir_check(const char *dir, struct error *err);
