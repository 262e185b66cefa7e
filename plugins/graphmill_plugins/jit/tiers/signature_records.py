"""The records of signatures that `explain` shows; no decision reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import COMPILED, STRAIGHT_LINE, SignatureRecord
from graphmill.spi.process import INFO, log_event
from graphmill_plugins.jit.tiers.states import SERVED_COMPILED, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ClusterRecord
    from graphmill_plugins.jit.ir.signature import Inputs

_MAX_SHOWN: Final = 8
_MAX_VALUE_LENGTH: Final = 40
_MAX_RECORDS: Final = 64
_NO_SLOT: Final = State.NO_SLOT.text
_SUSPENDED: Final = (State.TRIAL_SUSPENDED, State.SUSPENDED)


class SignatureRecords:
    """The records of one cluster's signatures, bounded in number.

    Threads: the caller holds the lock of the cluster's tiers.

    Args:
        cluster: the record of the cluster.
    """

    def __init__(self, cluster: ClusterRecord) -> None:
        self._cluster = cluster.name
        self._records = cluster.signatures
        self._shared: dict[str, SignatureRecord] = {}
        self._dropped: list[SignatureRecord] = []
        self._last = ""

    def new(self, text: str) -> SignatureRecord:
        """Return the record of a signature that will be compiled."""
        record = self._keep(SignatureRecord(text))
        record.difference = signature_difference(self._last, text) if self._last else ""
        self._last = text
        return record

    def shared(self, reason: str) -> SignatureRecord:
        """Return the record shared by all signatures that are not compiled for one reason."""
        existing = self._shared.get(reason)
        if existing is None:
            text = "others" if self._records else "all"
            existing = self._shared[reason] = self._keep(SignatureRecord(text, reason=reason))
        return existing

    def without_slot(self, cause: str) -> SignatureRecord:
        """Return the record shared by all signatures that have no slot; the first one is logged."""
        if _NO_SLOT not in self._shared:
            fields = {"cluster": self._cluster, "cause": cause}
            log_event("jit", INFO, "too many signatures", **fields)
        return self.shared(_NO_SLOT)

    def retire(self, record: SignatureRecord) -> None:
        """Mark the record of an evicted signature; it is dropped when there are too many."""
        self._dropped.append(record)

    def _keep(self, record: SignatureRecord) -> SignatureRecord:
        records = self._records
        if len(records) >= _MAX_RECORDS:
            dropped = {id(one) for one in self._dropped}
            records[:] = [one for one in records if id(one) not in dropped]
            self._dropped.clear()
        records.append(record)
        return record


def show_state(record: SignatureRecord, state: State, cause: str, *, is_wanted: bool) -> None:
    """Record the state of a signature, and the reason if it is not compiled."""
    record.state = state.text
    record.is_wanted = is_wanted
    if state in SERVED_COMPILED:
        record.tier, record.reason = COMPILED, ""
    elif state in _SUSPENDED:
        record.reason = cause
    elif state is not State.AWAITING_IDLE:  # that state lasts only some milliseconds
        record.tier, record.reason = STRAIGHT_LINE, cause


def signature_difference(before: str, text: str) -> str:
    """Return how a signature differs from the one before it: `input 1 is int32[3], was int32[2]`.

    Args:
        before, text: the signatures as `signature_text` returns them.
    """
    old, new = before.split(", "), text.split(", ")
    if len(old) != len(new):
        return f"it is {text}, was {before}"
    parts = [
        f"input {position} is {now}, was {then}"
        for position, (then, now) in enumerate(zip(old, new, strict=True))
        if then != now
    ]
    return "; ".join(parts) or "a value or variable that the description abbreviates differs"


def signature_text(inputs: Inputs, values: Sequence[Any]) -> str:
    """Return a signature as text: `float32[2,3], int32[2]=[4 5], 12 variables`.

    Args:
        inputs: describes the cluster's inputs.
        values: one for each input.
    """
    parts = [
        _array(values[index], is_static=index in inputs.static)
        for index in inputs.arrays[:_MAX_SHOWN]
    ]
    more = len(inputs.arrays) - _MAX_SHOWN
    if more > 0:
        parts.append(f"{more} more")
    parts += [_pytree(values[index]) for index in inputs.pytrees[:_MAX_SHOWN]]
    count = len(inputs.handles)
    if count:
        parts.append(f"{count} variable{'s' if count > 1 else ''}")
    return ", ".join(parts) or "no inputs"


def _pytree(value: Any) -> str:
    # Imported here: most clusters have no pytrees.
    from graphmill_plugins.jit.ir.pytrees import flatten

    leaves = ", ".join(_array(leaf, is_static=False) for leaf in flatten(value).leaves)
    return f"{type(value).__name__}({leaves})"


def _array(value: Any, *, is_static: bool) -> str:
    array = np.asarray(value)
    text = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if not is_static:
        return text
    shown = np.array2string(array, threshold=8, edgeitems=2).replace("\n", "")
    return f"{text}={shown[:_MAX_VALUE_LENGTH]}"
