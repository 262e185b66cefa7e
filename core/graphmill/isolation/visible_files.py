"""List the files that an isolated process may open: libraries, the model, files under rules."""

from __future__ import annotations

import glob
import importlib.util
import os
import site
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

from graphmill import files
from graphmill.access.rules import LIST, READ, WRITE, AccessRules, local_path
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.plugin.discovery import entry_point_plugins, environment_plugins
from graphmill.runtime.process.sandbox.file_access import FileAccess

if TYPE_CHECKING:
    from collections.abc import Iterator

_SYSTEM_LIBRARIES: Final = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"),
    *("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"),
)
_MACHINE: Final = (
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm", "/proc/self"),
    *("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
)
_PACKAGES: Final = ("site-packages", "dist-packages")
_MODEL_FILES: Final = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
_RULED_FILES: Final = (READ, LIST, WRITE)


def visible_files(model: str, rules: AccessRules) -> FileAccess:
    """Return the files and folders that the process of a model may open.

    Args:
        model: the path of the model.
        rules: what the model may do besides computing.

    Raises:
        InvalidArgumentError: the model is at a URL, or a rule allows what isolation never allows.
        NotFoundError: the model, or the path of a rule, does not exist.
    """
    libraries = tuple(dict.fromkeys((*_libraries(), *_SYSTEM_LIBRARIES, *_MACHINE)))
    model_files, folders = _model_files(model)
    _check_rules(rules)
    return FileAccess(
        read=(*libraries, *model_files, *_paths(rules, READ)),
        list=(*libraries, *folders, *_paths(rules, LIST)),
        write=tuple(_paths(rules, WRITE)),
    )


def _libraries() -> Iterator[str]:
    """Yield the folders of Python, of installed packages, and of graphmill and its plugins."""
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield sysconfig.get_path(name)
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix):
        yield os.path.join(prefix, "lib")  # noqa: PTH118 - texts
        yield os.path.join(prefix, "pyvenv.cfg")  # noqa: PTH118
    yield from site.getsitepackages()
    for path in sys.path:  # .pth files add the packages of other environments
        if os.path.basename(path) in _PACKAGES:  # noqa: PTH119 - texts
            yield path
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    plugins = [candidate.module for candidate in (*entry_point_plugins(), *environment_plugins())]
    for module in ("graphmill", *plugins):
        yield from _package_folders(module.partition(":")[0].partition(".")[0])


def _package_folders(package: str) -> list[str]:
    """Return the folders of an installed package, or its file; nothing if it is not found."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # the host reports a plugin that cannot be imported
        return []
    if spec is None:
        return []
    folders = list(spec.submodule_search_locations or ())
    return [os.path.realpath(path) for path in folders or filter(None, [spec.origin])]


def _model_files(model: str) -> tuple[list[str], list[str]]:
    """Return the files of a model to read, and the folders to list."""
    path = local_path(files.as_path(model))
    if path is None:
        raise InvalidArgumentError(
            f"{model} is not a local path: an isolated model cannot use the network; copy the "
            "model to this machine"
        )
    path = os.path.realpath(path)
    if os.path.isdir(path):  # noqa: PTH112 - texts
        return [path], [path]
    folder, name = os.path.split(path)
    if not os.path.exists(path):  # noqa: PTH110
        raise NotFoundError(f"{model} does not exist")
    if name in _MODEL_FILES:
        return [folder], [folder]
    if name.endswith(".meta"):  # its checkpoint is beside it
        prefix = glob.escape(path.removesuffix(".meta"))
        parts = glob.glob(f"{prefix}.data-?????-of-?????")  # noqa: PTH207 - texts
        return [path, f"{path.removesuffix('.meta')}.index", *parts], [folder]
    return [path], []


def _check_rules(rules: AccessRules) -> None:
    """Raise if a rule allows an effect that an isolated process cannot have."""
    for rule in rules.rules:
        if rule.effect not in _RULED_FILES:
            raise InvalidArgumentError(
                f"the rule {rule} cannot be combined with isolation: the process of an isolated "
                "model has no network, starts no processes, and has no Python functions of the "
                "program; leave the rule out, or run the model without isolation"
            )
        if rule.path and not os.path.exists(rule.path):  # noqa: PTH110 - texts
            raise NotFoundError(
                f"the rule {rule} names a path that does not exist; create it before the model "
                "is isolated"
            )


def _paths(rules: AccessRules, effect: str) -> list[str]:
    """Return the paths of the rules for an effect; a rule without a path is for all files."""
    return [rule.path or "/" for rule in rules.rules if rule.effect == effect]
