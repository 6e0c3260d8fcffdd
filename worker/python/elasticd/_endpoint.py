# SPDX-License-Identifier: Apache-2.0
"""Where elasticd is, and connections to it: a socket of this host, or one of another host through ssh.

The rules are those of elasticctl: only root and the own user may listen at the other end, besides one that
the program names, and a socket that was not named is not used where others could have put it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import socket
import stat
import struct
import subprocess
from typing import Any, Optional, Union

from ._errors import DataLoss, Error, InvalidArgument, PermissionDenied, Status, Unavailable, error_of
from ._library import text_argument

SYSTEM_SOCKET = "/run/elasticd/control.sock"
ANSWER_MAX = 16 << 20
STANDARD = "org.varlink.service."
_ADDRESS_MAX = 107
# ssh must not take the terminal's Ctrl-C: the program decides what it ends.
_UNINTERRUPTED = ("/bin/sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh")


class Disconnected(Unavailable):
    """The connection to elasticd broke, or there is none to be had. Where a call was under way, elasticd may
    or may not have done it."""


# --- messages ----------------------------------------------------------------------------------------------


def _check(value: Any) -> None:
    """elasticd would close the connection of one that sends more than its JSON can hold."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"{value!r} has a zero byte")
    if isinstance(value, int) and not -1 << 63 <= value < 1 << 63:
        raise ValueError(f"{value} has more than 64 bits")
    if isinstance(value, (list, tuple)):
        for v in value:
            _check(v)
    if isinstance(value, dict):
        for k, v in value.items():
            _check(k)
            _check(v)


def encode(method: str, parameters: dict[str, Any], more: bool) -> bytes:
    call: dict[str, Any] = {"method": method, "parameters": parameters}
    if more:
        call["more"] = True
    try:
        text = json.dumps(call, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        _check(parameters)
        return text.encode() + b"\0"
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidArgument(f"cannot be sent as JSON: {e}") from None


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> Optional[bytes]:
        end = self._data.find(0, self._seen)
        if end < 0:
            self._seen = len(self._data)
            if self._seen > ANSWER_MAX:
                raise Disconnected("elasticd gave an answer that is too long")
            return None
        message = bytes(self._data[:end])
        del self._data[:end + 1]
        self._seen = 0
        return message


def decode(message: bytes) -> tuple[dict[str, Any], bool]:
    """The parameters of an answer, and whether others follow; raises the error that it is."""
    try:
        answer = json.loads(message)
        parameters = answer.get("parameters") or {}
        name, more = answer.get("error"), bool(answer.get("continues"))
        if not isinstance(parameters, dict) or not isinstance(name, (str, type(None))):
            raise ValueError("expected an object")
    except (ValueError, AttributeError, RecursionError) as e:
        raise DataLoss(f"elasticd gave an answer that cannot be used: {e}") from None
    if name:
        raise answered(name, parameters)
    return parameters, more


_STANDARD_CODES = {"InvalidParameter": Status.INVALID_ARGUMENT, "InterfaceNotFound": Status.UNIMPLEMENTED,
                   "MethodNotFound": Status.UNIMPLEMENTED, "MethodNotImplemented": Status.UNIMPLEMENTED,
                   "PermissionDenied": Status.PERMISSION_DENIED}


def answered(name: str, parameters: dict[str, Any]) -> Error:
    """The exception for an error of the service."""
    brief = name.rsplit(".", 1)[-1]
    if name.startswith(STANDARD):
        code = _STANDARD_CODES.get(brief, Status.INTERNAL)
    else:
        try:
            code = Status.of(brief)
        except InvalidArgument:
            code = Status.UNKNOWN
    message = parameters.get("message")
    about = {k: v for k, v in parameters.items() if k != "message"}
    text = message if isinstance(message, str) and message else f"{brief} {about or ''}".rstrip()
    error = error_of(int(code), text)
    error.about = about
    return error


# --- connections -------------------------------------------------------------------------------------------


class Link:
    """A connected socket, and the ssh behind it, if any."""

    def __init__(self, sock: socket.socket, place: str, ssh: Optional[subprocess.Popen[bytes]] = None,
                 said: int = -1) -> None:
        self.sock, self.place = sock, place
        self._ssh, self._said = ssh, said

    def lost(self, why: str = "the connection was closed") -> Disconnected:
        """The exception for a connection that broke: where ssh said why, its last line."""
        said = b""
        if self._ssh is not None and self._said >= 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._ssh.wait(1)
            size = os.fstat(self._said).st_size
            said = os.pread(self._said, 4096, max(0, size - 4096))
        lines = [line for line in said.decode(errors="replace").split("\n") if line.strip()]
        return Disconnected(f"{self.place}: {_brief(lines[-1]) if lines else why}")

    def is_remote(self) -> bool:
        """Whether there is an ssh, for which lost() and close() may wait."""
        return self._ssh is not None

    def quiet(self) -> bool:
        """Whether the other end has neither closed nor said anything."""
        try:
            self.sock.settimeout(0)
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def shutdown(self) -> None:
        """Ends the reads of another thread."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.sock.close()
        ssh, self._ssh = self._ssh, None
        if ssh is not None:
            ssh.terminate()
            try:
                ssh.wait(5)
            except subprocess.TimeoutExpired:
                ssh.kill()
                ssh.wait()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


def _brief(line: str) -> str:
    line = line.strip()
    return line[len("elasticctl: "):] if line.startswith("elasticctl: ") else line


class Endpoint:
    """Where to connect to."""

    def __init__(self, path: Union[str, os.PathLike[str], None], host: Optional[str],
                 trust_uid: Optional[int]) -> None:
        named = None if path is None else text_argument(os.fspath(path), "socket").decode()
        if host is None and named is None:
            host = os.environ.get("ELASTICD_HOST")
        if trust_uid is not None and named is None:
            raise InvalidArgument("trust_uid is for the elasticd that socket names")
        self.host = host or None
        self.trust_uid, self.found = trust_uid, False
        if self.host is not None:
            self.path = named or ""
            check_host(self.host)
        else:
            self.path, self.found = (os.path.abspath(named), False) if named else find_socket()

    def __str__(self) -> str:
        return self.host or self.path

    def connect(self) -> Link:
        if self.host is not None:
            return self._connect_ssh(self.host)
        if self.found:
            check_private(os.path.dirname(self.path))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            _connect(sock, self.path)
            self._check_peer(sock)
        except BaseException:
            sock.close()
            raise
        return Link(sock, self.path)

    def _check_peer(self, sock: socket.socket) -> None:
        data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("=iII", data)[1]
        if uid not in (0, os.geteuid(), self.trust_uid):
            raise PermissionDenied(
                f"{self.path}: user {_user(uid)} listens there, expected root or {_user(os.geteuid())}; "
                "nothing was sent there")

    def _connect_ssh(self, host: str) -> Link:
        words = ["elasticctl"]
        if self.path:
            words.append("--socket=" + self.path)
        if self.trust_uid is not None:
            words.append(f"--trust-uid={self.trust_uid}")
        command = " ".join(shlex.quote(w) for w in [*words, "__bridge"])
        program = os.environ.get("ELASTICD_SSH") or "ssh"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        said = os.memfd_create("elasticd-ssh", os.MFD_CLOEXEC)
        try:
            ssh = subprocess.Popen([*_UNINTERRUPTED, program, "-xT", "--", host, command],
                                   stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said)
        except OSError as e:
            ours.close()
            os.close(said)
            raise Disconnected(f"{host}: cannot execute {program}: {e.strerror}") from None
        finally:
            theirs.close()
        return Link(ours, host, ssh, said)


def check_host(host: str) -> None:
    """Refuses what ssh or a shell would take for something else than a host."""
    text_argument(host, "host")
    if host.startswith("-") or any(c.isspace() or not c.isprintable() for c in host):
        raise InvalidArgument(f"host: expected HOST or USER@HOST, got {host!r:.200}")


def _connect(sock: socket.socket, path: str) -> None:
    """A path too long for a socket's address is reached through its directory's descriptor."""
    directory, address = -1, path
    try:
        if len(os.fsencode(path)) > _ADDRESS_MAX:
            directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            address = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        raise Disconnected(f"no elasticd listens on {path}") from None
    except PermissionError:
        raise PermissionDenied(f"{path}: permission denied; its mode, and that of its directory, says who "
                               "may use this elasticd") from None
    except OSError as e:
        raise Disconnected(f"{path}: {e.strerror or e}") from None
    finally:
        if directory >= 0:
            os.close(directory)


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)


# --- the usual places --------------------------------------------------------------------------------------


def find_socket() -> tuple[str, bool]:
    """elasticd's socket, and whether it was found by the usual rules rather than named."""
    named = os.environ.get("ELASTICD_SOCKET")
    if named:
        return os.path.abspath(named), False
    if os.geteuid() == 0:
        return SYSTEM_SOCKET, True
    own = os.path.join(_runtime_dir(), "control.sock")
    return (SYSTEM_SOCKET if not os.path.exists(own) and os.path.exists(SYSTEM_SOCKET) else own), True


def _runtime_dir() -> str:
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if base.startswith("/"):
            with contextlib.suppress(PermissionDenied, OSError):
                check_private(base, missing=False)
                return os.path.join(base, "elasticd")
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            home = pwd.getpwuid(os.geteuid()).pw_dir
        state = os.path.join(home, ".local/state")
    return os.path.join(state, "elasticd/run")


def check_private(path: str, missing: bool = True) -> None:
    """Refuses a directory where another user could put a socket, or that such a user could replace.
    missing: one that is not there is none of these."""
    try:
        real = os.path.realpath(path)
        names = [real]
        while names[-1] != "/":
            names.append(os.path.dirname(names[-1]))
        for name in reversed(names):
            _check_one(name, os.stat(name), last=name == real)
    except PermissionDenied:
        raise
    except OSError:
        if not missing:
            raise


def _check_one(path: str, st: os.stat_result, last: bool) -> None:
    if not stat.S_ISDIR(st.st_mode):
        raise NotADirectoryError(path)
    if st.st_uid not in (0, os.geteuid()) and not (not last and st.st_uid == 65534 and _has_unmapped()):
        raise PermissionDenied(f"{path}: belongs to user {_user(st.st_uid)}, expected root or "
                               f"{_user(os.geteuid())}")
    if st.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (last or not st.st_mode & stat.S_ISVTX):
        raise PermissionDenied(f"{path}: other users may write there (mode {stat.S_IMODE(st.st_mode):03o}), "
                               f"expected only user {_user(os.geteuid())}")


def _has_unmapped() -> bool:
    """Whether all users outside of this user namespace, even root, show as one here."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/uid_map", encoding="ascii") as f:
        first = f.read().split()
        return len(first) == 3 and int(first[2]) != 0xffffffff
    return False
