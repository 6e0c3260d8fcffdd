# SPDX-License-Identifier: Apache-2.0
"""Jobs whose second worker reports, and waits that end their job."""

from harness import BUILD, puppet


def reporter(*steps, others=("hang",), **top):
    """A job whose second task uses the library; the first is a puppet."""
    library = str(BUILD / "tests/tools/libworker")
    return {"roles": [{"name": "puppet", "command": puppet(*others)},
                      {"name": "reporter", "command": [library, *steps]}], **top}


def wait_and_end(daemon, job, timeout_ms=0):
    with daemon.connect(600) as v:
        return v.call("Wait", job=job, timeout_ms=timeout_ms, kill=True)["job"]
