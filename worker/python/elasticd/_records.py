# SPDX-License-Identifier: Apache-2.0
"""How objects of an interface become records: frozen dataclasses, whose members have the interface's names.

A member that the interface marks with "?" is None where it is left out. Members that this package does not
know, of a newer elasticd, are left out.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar, Optional, TypeVar

from ._errors import DataLoss

_R = TypeVar("_R", bound="Record")


class Record:
    """An object of an interface."""

    kinds: ClassVar[dict[str, tuple[type[Record], bool]]] = {}  # members that are records, or lists of them

    @classmethod
    def of(cls: type[_R], data: dict[str, Any]) -> _R:
        fields: dict[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
        known = {k: v for k, v in data.items() if k in fields}
        try:
            for name, (kind, several) in cls.kinds.items():
                value = known.get(name)
                if value is not None:
                    known[name] = [kind.of(v) for v in value] if several else kind.of(value)
            return cls(**known)
        except (TypeError, AttributeError) as e:
            raise DataLoss(f"elasticd gave a {cls.__name__} that cannot be used: {e}") from None


class LineData:
    """What Line has beside the members of the interface."""

    if TYPE_CHECKING:
        text: Optional[str]
        base64: Optional[str]

    @property
    def data(self) -> bytes:
        """The bytes that the worker wrote, without the newline."""
        return base64.b64decode(self.base64) if self.base64 is not None else (self.text or "").encode()


class JobState:
    """What Job has beside the members of the interface."""

    if TYPE_CHECKING:
        state: str

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "stopped", "preempted")
