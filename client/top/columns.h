/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The columns of `top`: what each shows of a job or a worker, and how it sorts. Pure. */

#include "client/top/list.h"

extern const struct top_column top_job_columns[];
extern const struct top_column top_worker_columns[];

/* Adds the cell of an item in that column. */
void top_column_cell(const struct top_column *column, struct table *t, const struct top_item *item);

/* Memory in at most five columns: "812B", "97.3M", "1.5G". Returns buf. */
const char *top_size(int64_t bytes, char buf[16]);
