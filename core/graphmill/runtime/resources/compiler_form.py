"""Let variables hold their values in a compiler's form until somebody reads them.

A program that replaces many variables would otherwise convert each new value, although often only
its own next call uses it. Such a variable has a class whose `value` converts the form, so that
readers of other variables pay nothing. It keeps that class when it is assigned an ordinary value,
which is then returned as it is.

Threads: the caller of `set_forms` holds the variables' locks. A reader needs no lock: it sees the
old value or the new one. That needs the GIL, as a variable's class and value do not change at once;
without it, and while the process forks, values are converted when they are set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from graphmill.runtime.process import effects, fork
from graphmill.runtime.resources.variables import Ref, Variable, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_get: Final = slot_of  # past the properties below
_set: Final[Any] = Variable.__dict__["value"].__set__
_converters: Final[dict[type[Any], Callable[[Any], Any]]] = {}


def _read(variable: Variable) -> Any:
    held = _get(variable)
    if type(variable) not in _KINDS:  # it is being overwritten, so that reading it waits
        return variable.value
    convert = _converters.get(type(held))
    return held if convert is None else convert(held)


class _Holder(Variable):
    """A variable that may hold a compiler's form of its value."""

    __slots__ = ()
    value = property(_read, _set)


class _RefHolder(Ref):
    """A ref variable that may hold a compiler's form of its value."""

    __slots__ = ()
    value = property(_read, _set)


_HOLDERS: Final[dict[type[Variable], type[Variable]]] = {Variable: _Holder, Ref: _RefHolder}
"""The classes of variables that may hold a form, by their ordinary classes."""
_KINDS: Final[dict[type[Any], type[Any]]] = {holder: kind for kind, holder in _HOLDERS.items()}
for _holder, _kind in _KINDS.items():
    _holder.__name__ = _kind.__name__  # in messages it is an ordinary variable
_made: Final[WeakSet[Variable]] = WeakSet()
_made_lock: Final = fork.fork_safe_lock()
_is_suspended = False


def kind_of(resource: object) -> type[Any]:
    """Return the ordinary class of a resource, which may be a variable that holds a form."""
    return _KINDS.get(type(resource), type(resource))


def register_form(form: type[Any], convert: Callable[[Any], Any]) -> None:
    """Register a type whose objects variables may hold, and the function that returns their values.

    Args:
        form: the type itself, not a base of it. Its objects have the attribute `shape`.
        convert: returns the value of an object, which never changes later. Any thread may call it.
    """
    _converters[form] = convert


def set_forms(variables: Iterable[Variable], forms: Iterable[Any]) -> None:
    """Set the values of variables, whose locks the caller holds, to those of forms.

    Args:
        variables: variables that are not acquired (see `exclusive_update`).
        forms: for each an object of a registered type, whose value has been computed.
    """
    for variable, form in zip(variables, forms, strict=True):
        if not _is_suspended and (type(variable) in _KINDS or _make_holder(variable)):
            _set(variable, form)
        else:
            variable.value = _converters[type(form)](form)


def _make_holder(variable: Variable) -> bool:
    """Let a variable hold forms, and return True, if that is possible."""
    holder = _HOLDERS.get(type(variable))
    if holder is None or not effects.has_gil():
        return False
    with _made_lock:
        _made.add(variable)
    variable.__class__ = holder
    return True


def drop_form(variable: Variable) -> None:
    """Replace a form that a variable holds by its value; the caller holds the variable's lock."""
    held = _get(variable)
    convert = _converters.get(type(held))
    if convert is None or type(variable) not in _KINDS:
        return
    value = convert(held)
    if _get(variable) is held:
        _set(variable, value)


def forms_of(variables: Iterable[Variable], form: type[Any]) -> list[Any]:
    """Return the compiler's forms of variables' values; None for those that have none.

    Args:
        variables: the variables.
        form: the type of the forms. A variable holds one, or its `compiler_cache` refers to one.
    """
    forms = []
    for variable in variables:
        if type(variable) is not Variable:  # the class of most: comparing it saves a call
            held = _get(variable)
            if type(held) is form:
                forms.append(held)
                continue
        cached = variable.compiler_cache
        is_current = cached is not None and cached[0]() is variable.value
        forms.append(cached[1]() if is_current else None)  # type: ignore[index]
    return forms


def _suspend() -> None:
    """Convert all forms before a fork: compilers do not work in the child.

    A variable that a step is replacing is not waited for: the child does not continue that step.
    """
    global _is_suspended
    _is_suspended = True
    with _made_lock:
        made = list(_made)
    for variable in made:
        if variable.lock.acquire(blocking=False):
            try:
                drop_form(variable)
            finally:
                variable.lock.release()


def _resume() -> None:
    global _is_suspended
    _is_suspended = False


fork.suspend_during_forks(_suspend, _resume)
