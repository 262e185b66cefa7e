"""Update a variable's value in place if nothing else references it, else copy it first.

Values are normally not written in place, because readers keep the arrays that they read. So a
sparse update of a few rows would copy a whole table. No copy is needed if only the variable
references the array. The reference count proves that, provided that no new reader can come:
meanwhile the variable has a class whose `value` waits for the lock, so that other readers pay
nothing. `writable` does all of this. A compiler, whose programs write into memory of their own,
uses `acquire` and `release`.

Threads: the caller holds the variable's lock. Where reference counts prove nothing (free-threaded
Python), and while the process forks, each update makes a copy.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.runtime.process import fork
from graphmill.runtime.process.references import counts_prove_ownership, references_from
from graphmill.runtime.resources.compiler_form import drop_form, kind_of
from graphmill.runtime.resources.variables import Ref, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUE: Final[Any] = Variable.__dict__["value"]  # the slot, past the properties below


def _wait_and_read(variable: Variable) -> Any:
    with variable.lock:
        return variable.value  # by its class then: it may hold a compiler's form already


def _wait_and_write(variable: Variable, value: Any) -> None:
    with variable.lock:
        _VALUE.__set__(variable, value)


class _AcquiredVariable(Variable):
    """A variable whose value is being overwritten: readers wait for the lock."""

    __slots__ = ()
    value = property(_wait_and_read, _wait_and_write)


class _AcquiredRef(Ref):
    """A ref variable whose value is being overwritten: readers wait for the lock."""

    __slots__ = ()
    value = property(_wait_and_read, _wait_and_write)


_ACQUIRED: Final[dict[type[Variable], type[Variable]]] = {
    Variable: _AcquiredVariable,
    Ref: _AcquiredRef,
}
_RELEASED: Final = {acquired: kind for kind, acquired in _ACQUIRED.items()}
_held: Final[dict[int, Variable]] = {}
_is_suspended = False


@contextmanager
def writable(variable: Variable) -> Iterator[np.ndarray[Any, Any]]:
    """Yield an array that holds the variable's value, to be updated in place.

    The caller holds the variable's lock, does not refer to its value, does not read `value`, and
    has checked everything that may fail: an error in the block may leave the value half written.

    Args:
        variable: a variable whose value is a NumPy array.
    """
    if not acquire(variable):
        yield from _written_copy(variable)
        return
    try:
        if is_sole_holder(variable) and _owns_memory(value_of(variable)):
            yield value_of(variable)
        else:
            yield from _written_copy(variable)
    finally:
        release(variable)


def _written_copy(variable: Variable) -> Iterator[np.ndarray[Any, Any]]:
    changed = np.array(value_of(variable))
    yield changed
    set_value(variable, changed)


def acquire(variable: Variable) -> bool:
    """Make other readers and writers of the value wait for the lock, which the caller holds.

    In any case the variable then holds its value, not a compiler's form of it.

    Returns:
        Whether that was possible; if not, nothing else has changed.
    """
    drop_form(variable)
    acquired = _ACQUIRED.get(kind_of(variable))
    if acquired is None or _is_suspended or not counts_prove_ownership():
        return False
    _held[id(variable)] = variable
    variable.__class__ = acquired
    return True


def release(variable: Variable) -> None:
    """Undo `acquire`; the caller releases the lock afterwards."""
    variable.__class__ = _RELEASED[type(variable)]
    del _held[id(variable)]


def value_of(variable: Variable) -> Any:
    """Return the value of a variable that the caller has acquired."""
    return _VALUE.__get__(variable)


def set_value(variable: Variable, value: Any) -> None:
    """Set the value of a variable that the caller has acquired."""
    _VALUE.__set__(variable, value)


def is_sole_holder(variable: Variable) -> bool:
    """Return whether only the variable, which is acquired, references its value."""
    return references_from(_VALUE, variable) <= _ONLY_THE_VARIABLE


def _owns_memory(value: Any) -> bool:
    return type(value) is np.ndarray and value.flags.owndata and value.flags.writeable


def _count_own() -> int:
    """Return the reference count of a value that only its variable references."""
    from graphmill import dtypes

    variable = Variable(dtypes.float64)
    variable.value = np.empty(2)
    return references_from(_VALUE, variable)


_ONLY_THE_VARIABLE: Final = _count_own()


def _suspend() -> None:
    """Start no more exclusive updates, and wait for those in progress, before a fork."""
    global _is_suspended
    _is_suspended = True
    for variable in list(_held.values()):
        if variable.lock.acquire(timeout=fork.MAX_FORK_DELAY_SECONDS):
            variable.lock.release()


def _resume() -> None:
    global _is_suspended
    _is_suspended = False


fork.suspend_during_forks(_suspend, _resume)
