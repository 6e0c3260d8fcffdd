# SPDX-License-Identifier: Apache-2.0
"""Payloads and values as bytes, and structures that contain handles."""

from __future__ import annotations

import copy
import dataclasses
import json
import operator
from typing import Any, Callable, Optional

from ._errors import InvalidArgument

Encoded = tuple[bytes, Optional[bytes]]  # and its format

JSON, TEXT = b"json", b"text"
_NONE: Encoded = (b"null", JSON)
_decode = json.JSONDecoder().decode


class Held:
    """The base of objects that stand for a value which is not there yet."""

    __slots__ = ()


def _refuse(value: Any) -> Any:
    if isinstance(value, Held):
        raise TypeError("a handle cannot be part of a payload: fetch() it first")
    raise TypeError(f"{type(value).__name__} is not JSON-able")


# JSON has no NaN and no infinity: other readers would fail.
_encode = json.JSONEncoder(separators=(",", ":"), default=_refuse, allow_nan=False).encode


def encode(value: Any, what: str = "payload") -> Encoded:
    """bytes as they are, str as text, anything else as JSON."""
    if value is None:
        return _NONE
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), TEXT
    try:
        return _encode(value).encode(), JSON
    except TypeError as e:
        raise TypeError(f"{what}{_where(value)}: {e}") from None
    except ValueError as e:
        if "ircular" in str(e):
            raise
        raise InvalidArgument(f"{what}{_where(value)}: nan and infinities are not JSON-able") from None


def decode(data: bytes, form: bytes) -> Any:
    if form == JSON:
        return None if data == b"null" else _decode(data.decode())
    if form == TEXT:
        return data.decode("utf-8", "surrogatepass")
    return data


def _where(value: Any, path: str = "", depth: int = 0) -> str:
    """The place in value of the first object that cannot be JSON."""
    if depth > 100:
        return path
    if isinstance(value, dict):
        for key, item in value.items():
            if key is not None and not isinstance(key, (str, int, float)):
                return f"{path} (a key, {key!r:.100})"
            if not _fits(item):
                return _where(item, f"{path}[{key!r:.100}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            if not _fits(item):
                return _where(item, f"{path}[{i}]", depth + 1)
    return path


def _fits(value: Any) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError):
        return False
    return True


def held_in(value: Any, found: list[Any]) -> None:
    """Adds all Held objects of a structure, in its order."""
    if isinstance(value, Held):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            held_in(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, Held):
                found.append(item)
            else:
                held_in(item, found)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            held_in(getattr(value, field.name, None), found)


def filled(value: Any, fill: Callable[[Any], Any]) -> Any:
    """A structure of the same types, with fill(held) in place of each Held object. A part without any stays
    the same object."""
    if isinstance(value, Held):
        return fill(value)
    if isinstance(value, dict):
        return _filled_dict(value, fill)
    if isinstance(value, (list, tuple)):
        items = [fill(item) if isinstance(item, Held) else filled(item, fill) for item in value]
        if all(map(operator.is_, items, value)):
            return value
        if isinstance(value, tuple):
            make = getattr(type(value), "_make", None)  # of a named tuple
            return type(value)(items) if make is None else make(items)
        if type(value) is list:
            return items
        changed = copy.copy(value)
        changed[:] = items
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _filled_dataclass(value, fill)
    return value


def _filled_dict(value: dict[Any, Any], fill: Callable[[Any], Any]) -> dict[Any, Any]:
    items = {key: filled(item, fill) for key, item in value.items()}
    if all(items[key] is value[key] for key in items):
        return value
    if type(value) is dict:
        return items
    changed = copy.copy(value)
    for key, item in items.items():
        changed[key] = item
    return changed


def _filled_dataclass(value: Any, fill: Callable[[Any], Any]) -> Any:
    changed = value
    for field in dataclasses.fields(value):
        before = getattr(value, field.name, None)
        after = filled(before, fill)
        if after is not before:
            if changed is value:
                changed = copy.copy(value)
            object.__setattr__(changed, field.name, after)  # frozen ones, too
    return changed
