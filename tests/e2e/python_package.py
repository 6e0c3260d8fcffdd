# SPDX-License-Identifier: Apache-2.0
"""The package elasticd for tests: where it is, and scripts that use it as workers.

Builds with a sanitizer have a library without one, which any Python loads as it is.
"""

import json
import os
import shutil
import sys
import textwrap

import pytest

from harness import BUILD, ROOT, SANITIZED, SLOWER

PACKAGE = ROOT / "worker/python"
LIBRARY = BUILD / "libelasticd.so.0"
ENV = {"PYTHONPATH": str(PACKAGE), "ELASTICD_LIBRARY": str(LIBRARY)}

needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no {LIBRARY}")


def python_with(box, module, variable, *places):
    """An interpreter that has the module, or a skip."""
    if SANITIZED:
        pytest.skip("the framework is not what is instrumented")
    for python in [os.environ.get(variable), *places, shutil.which("python3"), "/usr/bin/python3"]:
        if python and os.path.exists(python):
            find = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
            if box.sh(python, "-c", find, timeout=300 * SLOWER).rc == 0:
                return python
    pytest.skip(f"no python with {module} (set {variable})")
    return None


def write_script(box, text, name="worker.py"):
    """A program of the box, whose text may be indented as a whole."""
    path = box.path("work", name)
    path.write_text(textwrap.dedent(text))
    return path


def by_hand(box, text, *args, python=sys.executable, timeout=None, **env):
    """Runs a script without elasticd; a harness.Result."""
    return box.sh(python, write_script(box, text), *args, env={**ENV, **env}, timeout=timeout)


def spec_of(box, script, replicas=1, **top):
    """A specification whose workers run the script (a text) with the package."""
    role = {"name": "worker", "replicas": replicas, "env": dict(ENV),
            "command": [sys.executable, "-u", str(write_script(box, script))]}
    role.update(top.pop("role", {}))
    return {"roles": [role], "cwd": str(box.path("work")), "logs": {"redirects": "3"}, **top}


def outputs(daemon, job, attempt=0, stream="stdout"):
    """What each worker wrote, by local rank."""
    ranks = sorted(int(p.name) for p in daemon.log(job, attempt, 0).parents[1].iterdir())
    return [daemon.log(job, attempt, r, stream).read_text() for r in ranks]


def told(daemon, job, attempt=0):
    """What each worker printed as a line of JSON, its last one, by local rank; None for nothing."""
    return [json.loads(text.splitlines()[-1]) if text else None for text in outputs(daemon, job, attempt)]
