"""Check whether this system can isolate models, and explain why it cannot."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from graphmill.distribution import install_command
from graphmill.errors import UnimplementedError
from graphmill.isolation.limits import LANDLOCK, SECCOMP
from graphmill.runtime.process.sandbox.file_access import MINIMUM_ABI, landlock_abi
from graphmill.runtime.process.sandbox.system_calls import seccomp_library

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXTRA: Final = "isolate"
_ACTIONS: Final = "/proc/sys/kernel/seccomp/actions_avail"


def check_protections(required: Iterable[str]) -> None:
    """Check that models can be isolated here, with these protections.

    Raises:
        UnimplementedError: they cannot; the message names the reason and what to do. Nothing is
            run with weaker protections than those that are required.
    """
    reason = why_not(required)
    if reason:
        raise UnimplementedError(
            f"the model cannot be isolated: {reason}. Run it in a container or a virtual machine "
            "instead, or see IsolationLimits.require for weaker isolation"
        )


def why_not(required: Iterable[str]) -> str:
    """Return why models cannot be isolated here with these protections; "" if they can."""
    fault = _system_fault()
    faults = [fault] if fault else [_FAULTS[name]() for name in dict.fromkeys(required)]
    return "; ".join(filter(None, faults))


def _system_fault() -> str:
    if not sys.platform.startswith("linux"):
        return f"isolation needs Linux, this is {sys.platform}"
    if not hasattr(os, "memfd_create"):
        return "this Python lacks os.memfd_create"
    if not sys.executable:
        return "the path of the Python interpreter is unknown (sys.executable)"
    return ""


def _landlock_fault() -> str:
    try:
        version = landlock_abi()
    except ImportError:
        return f"the package landlock is not installed; {install_command(_EXTRA)}"
    except OSError as error:
        return f"the kernel has no Landlock, or it is switched off ({error})"
    if version < MINIMUM_ABI:
        return (
            f"the kernel has version {version} of Landlock, but version {MINIMUM_ABI} (Linux 6.2) "
            "is needed"
        )
    return ""


def _seccomp_fault() -> str:
    try:
        seccomp_library()
    except ImportError:
        return f"the package pyseccomp is not installed; {install_command(_EXTRA)}"
    except RuntimeError as error:
        return (
            f"pyseccomp needs the library libseccomp 2: {error}; install it with the system's "
            "package manager (libseccomp2, libseccomp)"
        )
    if not os.path.exists(_ACTIONS):  # noqa: PTH110
        return "the kernel has no seccomp filters"
    return ""


_FAULTS: Final = {LANDLOCK: _landlock_fault, SECCOMP: _seccomp_fault}
