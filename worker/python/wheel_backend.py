# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel and the source archive of the package (PEP 517) with the standard library alone."""

import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "elasticd"
LIBRARY = "libelasticd.so.0"
PROGRAMS = ("elasticctl", "elasticd")
BESIDE = ("elastic-agent", "link_tls.so")  # where the programs and the library look for them

# Runs a program that lies in the package, which may be any on the path of this Python.
SCRIPT = """#!python
import os
import sys

for d in sys.path:
    program = os.path.join(d, "{package}", "{program}")
    if os.access(program, os.X_OK):
        os.execv(program, sys.argv)
sys.exit("{program}: its program is in no package {package} of " + sys.executable)
"""


def _version():
    text = (HERE / NAME / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.*)"$', text, re.M)[1]


def _metadata():
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {_version()}\n"
            "Summary: Lets the workers of a group share keys, barriers, results and errors\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\n").encode()


def _package():
    return sorted([*HERE.glob(f"{NAME}/*.py"), HERE / NAME / "py.typed"])


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """config_settings: "library" is a built library to be put beside the package, "build" a directory of
    which the library and all programs are."""
    settings = config_settings or {}
    built = [HERE / settings["library"]] if "library" in settings else []
    scripts = f"{NAME}-{_version()}.data/scripts"
    files = {f"{NAME}/{f.name}": f.read_bytes() for f in _package()}
    if "build" in settings:
        build = HERE / settings["build"]
        built = [build / LIBRARY, *(f for f in (build / n for n in (*PROGRAMS, *BESIDE)) if f.exists())]
        files.update({f"{scripts}/{n}": SCRIPT.format(package=NAME, program=n).encode() for n in PROGRAMS})
    programs = {f"{NAME}/{f.name}": f.read_bytes() for f in built}
    files.update(programs)
    tag = "py3-none-" + (re.sub(r"[-.]", "_", sysconfig.get_platform()) if built else "any")
    info = f"{NAME}-{_version()}.dist-info"
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: {NAME}\n"
                              f"Root-Is-Purelib: {'false' if built else 'true'}\nTag: {tag}\n").encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    wheel = f"{NAME}-{_version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980, so that a build can be repeated
            runs = name in programs or name.startswith(scripts)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16  # pip looks for a regular file
            archive.writestr(entry, data)
    return wheel


def _record(files, own):
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{own},,\n"]).encode()


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{_version()}"
    name = f"{base}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as archive:
        for f in [HERE / "pyproject.toml", pathlib.Path(__file__).resolve(), *_package()]:
            archive.add(f, f"{base}/{f.relative_to(HERE)}")
        metadata = os.path.join(sdist_directory, "PKG-INFO")
        pathlib.Path(metadata).write_bytes(_metadata())
        archive.add(metadata, f"{base}/PKG-INFO")
        os.unlink(metadata)
    return name
