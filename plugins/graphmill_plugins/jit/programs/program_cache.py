"""`ProgramCache`: a persistent cache of compiled programs.

The key of a program is a digest of its StableHLO text and of all that affects its compilation:
versions, CPU, options. So a program is still traced before it is found, which takes a tenth of the
time of compiling. In return, no change of a graph or kernel can lead to a wrong program. The
versions of the plugins whose kernels were traced are part of the key, too.

A program that JAX loaded from its own persistent cache is not written: JAX's folder has it, and a
loaded program cannot be serialized again (`jax_cache_hits`).

A file contains machine code and a pickle, written by `jax.experimental.serialize_executable`.
Loading it requires trust in its writer. So a folder is used only if it belongs to the user and
nobody else has access to it. See `docs/decisions/0017-program-cache.md`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import platform
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jax
import jaxlib
from jax.experimental import serialize_executable

from graphmill import __version__
from graphmill_plugins._jax import cpu_devices
from graphmill_plugins.jit.programs.jax_cache_hits import compile_with_cache_hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAGIC: Final = b"graphmill compiled program, format 1\n"
_SUFFIX: Final = ".program"
_MAX_BYTES: Final = 1 << 30
_STALE_SECONDS: Final = 3600.0  # age at which an unfinished file is considered abandoned
_MAX_HEADER_BYTES: Final = 4096
# Errors of reading a pickle and loading an executable. A file with a correct digest raises them if
# JAX has changed without a new version.
_NOT_LOADED: Final = (
    pickle.PickleError, AttributeError, EOFError, ImportError, LookupError, NotImplementedError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip


class CacheFileError(Exception):
    """A cache file is unusable, so it is written again; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Program:
    """The result of `compile_program`.

    Attributes:
        call: the program.
        is_loaded: whether it was in the cache.
        note: describes for users what the cache did; empty if there is no cache.
    """

    call: Any
    is_loaded: bool = False
    note: str = ""


class ProgramCache:
    """A folder of compiled programs.

    Threads and processes: any number may use the same folder; a file appears whole or not at all.

    Args:
        folder: the folder; it is created if necessary, accessible to the user alone.
        max_bytes: maximum size of all files together; 0 for 1 GiB. The least recently used files
            are removed first.
        device: the JAX device that programs are compiled for; by default the first CPU.
        kernels: the suppliers of the kernels that programs were traced from, as text.
    """

    def __init__(
        self, folder: str, max_bytes: int = 0, device: Any = None, kernels: str = ""
    ) -> None:
        self._folder = Path(folder).expanduser()
        self._max_bytes = max_bytes or _MAX_BYTES
        self._device = device if device is not None else cpu_devices()[0]
        self._kernels = kernels

    def for_kernels(self, suppliers: Iterable[str]) -> ProgramCache:
        """Return this cache restricted to programs traced from kernels of some suppliers.

        Args:
            suppliers: distributions with their versions. A program of one version of a plugin is
                never found by another, even where the traced text is the same.
        """
        kernels = "\n".join(sorted(suppliers))
        return ProgramCache(str(self._folder), self._max_bytes, self._device, kernels)

    def compile(self, lowered: Any, options: Mapping[str, Any]) -> Program:
        """Load a program from the folder, or compile and store it.

        A problem with the folder or a file is described in the note; it is not an error.

        Args:
            lowered: a `jax.stages.Lowered` of a function jitted with `keep_unused`; otherwise its
                text would not show which arguments it takes.
            options: XLA's options.

        Raises:
            jax.errors.JaxRuntimeError: XLA cannot compile it.
        """
        text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=False)
        why_not = "it calls back into Python" if "python_cpu_callback" in text else self._refused()
        if why_not:
            return Program(_compiled(lowered, options), note=f"not cached: {why_not}")
        key = _key(text, options, _environment(self._device), self._kernels)
        path = self._folder / (key + _SUFFIX)
        note = ""
        try:
            return Program(self._load(path, key, lowered), is_loaded=True, note="loaded")
        except FileNotFoundError:
            pass
        except (CacheFileError, OSError) as error:
            note = f"{path.name} was unusable: {error}; "
        call, is_jaxs = compile_with_cache_hit(lowered, options)
        if is_jaxs:
            return Program(call, note=f"{note}not written: it is in JAX's own cache")
        return Program(call, note=note + self._store(path, key, call))

    def _refused(self) -> str:
        """Return why the folder must not be used; empty if it may be."""
        folder = self._folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _why_not_private(folder.stat(), 0o077, f"the folder {folder}", "chmod 700")
        except OSError as error:
            return f"the folder {folder} cannot be created: {error.strerror or error}"

    def _load(self, path: Path, key: str, lowered: Any) -> Any:
        content = _unwrapped(_read(path), key)
        device = self._device
        try:
            call = serialize_executable.deserialize_and_load(
                content,
                lowered.in_tree,
                lowered.out_tree,
                backend=device.client,
                execution_devices=[device],
            )
        except _NOT_LOADED as error:
            raise CacheFileError(f"JAX cannot load it: {error}") from error
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(path)
        return call

    def _store(self, path: Path, key: str, call: Any) -> str:
        """Write a program; return a description of the outcome."""
        try:
            content, _, _ = serialize_executable.serialize(call)
        except _NOT_LOADED as error:
            return f"not written: JAX cannot serialize it: {error}"
        content = _wrapped(content, key)
        if len(content) > self._max_bytes:
            return (
                f"not written: its {len(content)} bytes exceed the cache's limit of "
                f"{self._max_bytes} bytes"
            )
        try:
            self._write(path, content)
        except OSError as error:
            return f"not written: {error.strerror or error}"
        self._evict()
        return "written"

    def _write(self, path: Path, content: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".tmp")
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    def _evict(self) -> None:
        """Remove the least recently used files until the rest fits, and unfinished files."""
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        for used, size, path in files:
            is_stale = path.suffix == ".tmp" and used < time.time() - _STALE_SECONDS
            if is_stale or (path.suffix == _SUFFIX and total > self._max_bytes):
                with contextlib.suppress(OSError):  # another process may have been faster
                    path.unlink()
                total -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the last use, size and path of each file."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.name.endswith((_SUFFIX, ".tmp")):
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime, status.st_size, Path(entry.path)


def compile_program(
    lowered: Any, options: Mapping[str, Any], cache: ProgramCache | None
) -> Program:
    """Compile a program, or load it from a cache.

    Raises:
        jax.errors.JaxRuntimeError: XLA cannot compile it.
    """
    if cache is None:
        return Program(_compiled(lowered, options))
    return cache.compile(lowered, options)


def _compiled(lowered: Any, options: Mapping[str, Any]) -> Any:
    return lowered.compile(compiler_options=dict(options))


def _key(text: str, options: Mapping[str, Any], environment: str, kernels: str) -> str:
    digest = hashlib.sha256()
    flags = os.environ.get("XLA_FLAGS", "")
    parts = (environment, kernels, repr(sorted(options.items())), flags, text)
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def _environment(device: Any) -> str:
    """Return everything besides program and options that affects compilation."""
    return json.dumps({
        "graphmill": __version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "python": sys.version,
        "platform": [device.platform, device.client.platform_version, device.device_kind],
        "system": [platform.system(), platform.machine()],
        "cpu": _cpu_features(),
        "num_cpus": _num_cpus(),
    })  # fmt: skip


def _num_cpus() -> int:
    """Return the number of available processors, by which XLA splits work."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_features() -> list[str]:
    """Return model and features of the processor that XLA generates code for."""
    names = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({line for line in lines if line.partition("\t")[0].strip(" :") in names})


def _wrapped(content: bytes, key: str) -> bytes:
    header = {"key": key, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return _MAGIC + json.dumps(header).encode() + b"\n" + content


def _unwrapped(file: bytes, key: str) -> bytes:
    """Return the contents of a cache file.

    Raises:
        CacheFileError: the file is damaged, has another format, or has another key.
    """
    stream = io.BytesIO(file)
    if stream.readline(len(_MAGIC)) != _MAGIC:
        raise CacheFileError("it is not a program of this format")
    try:
        header = json.loads(stream.readline(_MAX_HEADER_BYTES))
        expected = header["key"], header["size"], header["sha256"]
    except (ValueError, TypeError, KeyError) as error:
        raise CacheFileError("its header is damaged") from error
    content = stream.read()
    if expected != (key, len(content), hashlib.sha256(content).hexdigest()):
        raise CacheFileError("it is truncated, damaged, or another program")
    return content


def _read(path: Path) -> bytes:
    """Read a file that only the user can have written.

    Raises:
        CacheFileError: it is not a file, or others can write to it.
        OSError: it cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CacheFileError("it is not a regular file")
        reason = _why_not_private(status, 0o022, "it", "remove")
        if reason:
            raise CacheFileError(reason)
        return file.read()


def _why_not_private(status: os.stat_result, forbidden: int, subject: str, remedy: str) -> str:
    """Return why a file is not private to the user; empty if it is.

    On systems without owners and modes, such as Windows, nothing is checked.
    """
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return f"{subject} belongs to another user"
    if status.st_mode & forbidden:
        return (
            f"{subject} is accessible to other users (mode {stat.S_IMODE(status.st_mode):o}); "
            f"{remedy} it"
        )
    return ""
