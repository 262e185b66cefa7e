"""`RestrictedBroker`: opens the files that the rules of a session allow.

Each path is resolved (symbolic links, `..`, repeated slashes, `file://`) and compared with the
rules; the result is then opened without following links (`graphmill.access.folder`), so a link that
appears in between is not followed. Hard links cannot be distinguished from other files.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import stat
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, cast

from graphmill import files
from graphmill.access.broker import Broker
from graphmill.access.folder import Folder, canonical_path, split
from graphmill.access.rules import LIST, READ, WRITE, local_path
from graphmill.errors import FailedPreconditionError, RefusedEffectError
from graphmill.files.base import Writer
from graphmill.files.local import LocalReader, temporary_name
from graphmill.files.status import typed_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from graphmill.access.rules import AccessRules
    from graphmill.files.append import Appender
    from graphmill.files.base import Chunk, Reader

_MEANINGS: Final = {
    READ: "read",
    LIST: "list",
    WRITE: "write",
    "net": "communicate with other machines",
    "process": "start or end a process",
    "python": "call Python functions",
}
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_CREATING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_APPENDING: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)


class Policy(Protocol):
    """The current rules of a session, which a broker reads for each request.

    Attributes:
        rules: sets of rules, each of which has to allow an effect; None for no rules.
    """

    rules: tuple[AccessRules, ...] | None


class RestrictedBroker(Broker):
    """The broker of one node in a session with rules.

    Args:
        policy: has the rules that apply now.
        node, op: the node, for errors; None for none.
        subject: who opens the files, for messages; by default the op.
    """

    __slots__ = ("_node", "_op", "_policy", "_subject")

    is_restricted = True

    def __init__(self, policy: Policy, node: str | None, op: str | None, subject: str = "") -> None:
        self._policy = policy
        self._node, self._op = node, op
        self._subject = subject or f"the op {op}"

    @property
    def _rules(self) -> tuple[AccessRules, ...]:
        return self._policy.rules or ()

    def require(self, effect: str, path: str = "") -> None:
        """Check that the node may have an effect; for an effect on files, on this path.

        Raises:
            RefusedEffectError: the rules do not allow it.
        """
        if path:
            self._resolve(effect, path)
        elif not all(rules.allows(effect) for rules in self._rules):
            self._refuse(effect, _MEANINGS[effect], effect)

    def open_reader(self, path: str) -> Reader:
        """Open a file for reading at any offset."""
        local = self._resolve(READ, path)
        if local is None:
            return files.open_reader(path)
        folder, name = split(local)
        with typed_errors(path), Folder(folder) as opened:
            return LocalReader(path, opened.open(name, _READING))

    def open_writer(self, path: str) -> Writer:
        """Open a file for atomic writing, creating missing folders."""
        local = self._resolve(WRITE, path)
        return files.open_writer(path) if local is None else _SafeWriter(path, local)

    def open_appender(self, path: str) -> Appender:
        """Open a file that others read while it grows, creating missing folders."""
        from graphmill.files.append import Appender

        local = self._resolve(WRITE, path)
        if local is None:
            return Appender(path)
        folder, name = split(local)
        with typed_errors(path), Folder(folder, create=True) as opened:
            fd = opened.open(name, _APPENDING)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise _not_regular(path)
            return Appender(path, cast("BinaryIO", os.fdopen(fd, "ab")))

    def write_new(self, path: str, content: bytes) -> str:
        """Write a file that does not exist yet; return its path, possibly with a suffix."""
        local = self._resolve(WRITE, path)
        if local is None:
            return files.write_new(path, content)
        folder, name = split(local)
        with typed_errors(path), Folder(folder, create=True) as opened:
            suffix = 0
            while True:
                ending = f"-{suffix}" if suffix else ""
                try:
                    fd = opened.open(name + ending, _CREATING, 0o644)
                except FileExistsError:
                    suffix += 1
                    continue
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
                return path + ending

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        local = self._resolve(READ, path)
        return files.exists(path) if local is None else self._status(path, local) is not None

    def is_dir(self, path: str) -> bool:
        """Return whether a path is a folder."""
        local = self._resolve(READ, path)
        if local is None:
            return files.is_dir(path)
        status = self._status(path, local)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        local = self._resolve(LIST, path)
        if local is None:
            return files.list_dir(path)
        with typed_errors(path), Folder(local) as opened:
            return opened.names()

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a pattern; see `graphmill.files.matching`."""
        plain = local_path(pattern)
        if plain is None:
            self._resolve(LIST, pattern)
            return files.matching(pattern)
        if not glob.has_magic(plain):
            return [pattern] if self.exists(plain) else []
        components = plain.split("/")
        first = next(i for i, part in enumerate(components) if glob.has_magic(part))
        start = "/".join(components[:first])
        return sorted(self._matching(f"{start}/" if first else "", components[first:]))

    def _matching(self, start: str, components: list[str]) -> list[str]:
        """Return the paths that begin with `start` and match the components after it."""
        component, *rest = components
        if not rest and not component:  # a pattern that ends with a slash matches folders
            return [start] if self.is_dir(start) else []
        if not glob.has_magic(component):
            if rest:
                return self._matching(f"{start}{component}/", rest)
            return [start + component] if self.exists(start + component) else []
        folder = start or "."
        if not self._is_listable(folder):
            return []
        names = fnmatch.filter(self.list_dir(folder), component)
        if not rest:
            return [start + name for name in names]
        return [path for name in names for path in self._matching(f"{start}{name}/", rest)]

    def _is_listable(self, folder: str) -> bool:
        """Return whether a path is a folder, which the node must be allowed to list."""
        local = self._resolve(LIST, folder)
        status = None if local is None else self._status(folder, local)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def make_dirs(self, path: str) -> None:
        """Create a folder and missing parents."""
        local = self._resolve(WRITE, path or ".")
        if local is None:
            files.make_dirs(path)
            return
        with typed_errors(path), Folder(local, create=True):
            pass

    def rename(self, source: str, target: str) -> None:
        """Move a file; one at the target is replaced."""
        old, new = self._resolve(WRITE, source), self._resolve(WRITE, target)
        if old is None or new is None:
            files.rename(source, target)
            return
        (old_folder, old_name), (new_folder, new_name) = split(old), split(new)
        with typed_errors(source), Folder(old_folder) as start, Folder(new_folder) as end:
            start.rename(old_name, end, new_name)

    def remove(self, path: str) -> None:
        """Delete a file."""
        local = self._resolve(WRITE, path)
        if local is None:
            files.remove(path)
            return
        folder, name = split(local)
        with typed_errors(path), Folder(folder) as opened:
            opened.remove(name)

    def remove_empty_dir(self, path: str) -> None:
        """Delete an empty folder."""
        local = self._resolve(WRITE, path)
        if local is None:
            files.remove_empty_dir(path)
            return
        folder, name = split(local)
        with typed_errors(path), Folder(folder) as opened:
            opened.remove_folder(name)

    def _resolve(self, effect: str, path: str) -> str | None:
        """Return the canonical form of a local path that the rules allow; None for a URL.

        Raises:
            RefusedEffectError: the rules do not allow the effect on it.
        """
        plain = local_path(files.as_path(path))
        if plain is None:
            if "::" in path or ".." in path.split("/"):
                self._refuse(effect, f"{_MEANINGS[effect]} {path!r}", effect)
            canonical = path
        else:
            with typed_errors(path):
                canonical = self._canonical(effect, plain)
        if not all(rules.covers(effect, canonical) for rules in self._rules):
            where = f"{path!r}" if canonical == path else f"{path!r} ({canonical})"
            rule = _rule_for(effect, canonical)
            self._refuse(effect, f"{_MEANINGS[effect]} {where}", rule)
        return None if plain is None else canonical

    def _canonical(self, effect: str, plain: str) -> str:
        """Return a local path with all links followed; touch only what the rules allow."""
        is_below = "/." not in plain and all(rules.covers(effect, plain) for rules in self._rules)
        return canonical_path(plain) if is_below else os.path.realpath(plain)

    def _status(self, path: str, local: str) -> os.stat_result | None:
        """Return the status of a canonical path, None if it does not exist."""
        folder, name = split(local)
        try:
            with Folder(folder) as opened:
                return opened.status(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            with typed_errors(path):
                raise

    def _refuse(self, effect: str, action: str, rule: str) -> NoReturn:
        raise RefusedEffectError(
            refusal(self._subject, action, effect, rule, self._rules),
            node=self._node,
            op_type=self._op,
        )


def refusal(subject: str, action: str, effect: str, rule: str, rules: Sequence[AccessRules]) -> str:
    """Return the message of a refusal: what was refused, under which rules, and how to allow it."""
    refusing = next((some for some in rules if not some.allows_some(effect)), rules[0])
    return (
        f"{subject} may not {action} (effect {effect!r}): the model runs under rules that allow "
        f"{refusing}. If you trust it with that, allow it: allow=[{rule!r}], --allow {rule} on the "
        f"command line, or graphmill.allow in the config; trust=True or --trust allows everything"
    )


def _rule_for(effect: str, canonical: str) -> str:
    """Return a rule to suggest, which allows an effect on all files in the folder of a path."""
    if effect == LIST:
        return f"{effect}:{canonical}"
    folder = files.parent(canonical)
    is_root = folder in ("", os.sep) or folder.endswith("://")
    return f"{effect}:{canonical if is_root else folder}"


def _not_regular(path: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"{path} is a folder, pipe or device; under rules only regular files are opened"
    )


class _SafeWriter(Writer):
    """Writes a local file as `LocalWriter` does, without following links.

    Args:
        path: the path as the graph has it, for messages.
        local: the canonical path.
    """

    def __init__(self, path: str, local: str) -> None:
        self.path = path
        folder, self._name = split(local)
        with typed_errors(path):
            self._folder = Folder(folder, create=True)
            status = self._folder.status(self._name)
            if status is not None and not stat.S_ISREG(status.st_mode):
                self._folder.close()
                raise _not_regular(path)
            self._temporary = temporary_name(self._name)
            fd = self._folder.open(self._temporary, _CREATING)
            self._file: Any = os.fdopen(fd, "wb", buffering=1 << 20)
            if status is not None and hasattr(os, "fchmod"):
                os.fchmod(fd, stat.S_IMODE(status.st_mode))

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with typed_errors(self.path):
            self._file.write(chunk)

    def flush(self) -> None:
        """Hand all bytes to the file system."""
        with typed_errors(self.path):
            self._file.flush()

    def commit(self) -> None:
        """Finish the file and move it to its path."""
        with typed_errors(self.path):
            self._file.close()
            self._folder.rename(self._temporary, self._folder, self._name)
        self._folder.close()

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        with contextlib.suppress(OSError):  # closing writes the rest, and the disk may be full
            self._file.close()
        with contextlib.suppress(OSError):  # it is gone already
            self._folder.remove(self._temporary)
        self._folder.close()
