/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/part_counts.h"

#include "agent/files/file_system.h"
#include "agent/logs/parts.h"

#include <endian.h>

struct record {
	uint64_t number, lines, bytes;
};

void log_part_counts_add(const char *path, int number, int64_t lines, int64_t bytes)
{
	const struct record record = { htole64(number), htole64(lines), htole64(bytes) };
	char name[PATH_MAX];

	if (log_parts_beside(path, "parts", 0, name))
		log_fs_append(name, &record, sizeof(record), 0640);
}

struct log_missing log_part_counts_missing(const char *path, int after, int before)
{
	struct log_missing m = { .parts = before - after - 1 };
	_cleanup_log_fd_ int fd = -1;
	char name[PATH_MAX];
	struct record r;

	m.unknown = m.parts;
	if (m.parts > 0 && log_parts_beside(path, "parts", 0, name))
		fd = log_fs_open(name, O_RDONLY, 0);
	for (off_t at = 0; fd >= 0 && log_fs_pread(fd, &r, sizeof(r), at) == sizeof(r);
		at += sizeof(r)) {
		int64_t number = (int64_t)le64toh(r.number);

		if (number <= after || number >= before || m.unknown == 0)
			continue;
		m.unknown--;
		m.lines += (int64_t)le64toh(r.lines);
		m.bytes += (int64_t)le64toh(r.bytes);
	}
	return m;
}
