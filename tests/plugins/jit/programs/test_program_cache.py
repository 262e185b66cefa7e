"""The persistent compilation cache: hits, refused folders and damaged files."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphmill.plugin.host import Host

import graphmill

jax = pytest.importorskip("jax")

from graphmill_plugins.jit.programs.program_cache import ProgramCache, compile_program  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.usefixtures("no_cache_of_jax"), pytest.mark.divided]
needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
X = np.arange(4, dtype=np.float32)


def lowered(factor: float = 2.0) -> Any:
    def program(fixed: Any, x: Any) -> Any:
        return [x * fixed[0] + factor]

    return jax.jit(program, keep_unused=True).lower((X,), X)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "programs"


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.program")
    return path


def test_the_second_time_a_program_is_loaded(folder: Path) -> None:
    first = ProgramCache(str(folder)).compile(lowered(), {})
    second = ProgramCache(str(folder)).compile(lowered(), {})
    assert (first.is_loaded, first.note) == (False, "written")
    assert (second.is_loaded, second.note) == (True, "loaded")
    assert np.array_equal(first.call((X,), X)[0], second.call((X,), X)[0])
    assert np.array_equal(second.call((X,), X)[0], X * X + 2)


def test_nothing_is_recorded_without_a_cache() -> None:
    program = compile_program(lowered(), {}, None)
    assert (program.is_loaded, program.note) == (False, "")


def test_another_constant_is_another_program(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(2.0), {})
    other = cache.compile(lowered(3.0), {})
    assert not other.is_loaded
    assert np.array_equal(other.call((X,), X)[0], X * X + 3)


def test_a_large_constant_counts_to_its_last_element(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    for last in (1.0, 2.0):
        table = np.zeros(10_000, np.float32)
        table[-1] = last
        made = cache.compile(jax.jit(functools.partial(jax.numpy.add, table)).lower(table), {})
        assert not made.is_loaded
        assert made.call(np.zeros_like(table))[-1] == last


def test_unused_differences_give_distinct_programs(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    for pick in (0, 1):
        call = cache.compile(
            jax.jit(lambda *xs, n=pick: xs[n] + 1, keep_unused=True).lower(X, X), {}
        )
        assert np.array_equal(call.call(X, X * 10), (X if not pick else X * 10) + 1)


def test_other_options_are_another_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})
    options = {"xla_cpu_enable_fast_min_max": True}
    assert not cache.compile(lowered(), options).is_loaded
    monkeypatch.setenv("XLA_FLAGS", "--something")
    assert not cache.compile(lowered(), options).is_loaded
    assert len(list(folder.glob("*.program"))) == 3


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _cut_in_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)


def _foreign(path: Path) -> None:
    path.write_bytes(b"\x80\x04N.")  # a pickle


def _other_header(path: Path) -> None:
    magic, _, rest = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join((magic, b"[1, 2]", rest)))


def _another_program(path: Path) -> None:
    cache = ProgramCache(str(path.parent))
    cache.compile(lowered(9.0), {})
    (other,) = set(path.parent.glob("*.program")) - {path}
    other.replace(path)


@pytest.mark.parametrize(
    "damage",
    [_cut, _cut_in_the_header, _empty, _flip, _foreign, _other_header, _another_program],
)
def test_damaged_file_is_reported_and_rewritten(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})
    damage(the_file(folder))
    rebuilt = cache.compile(lowered(), {})
    assert not rebuilt.is_loaded
    assert "was unusable" in rebuilt.note
    assert rebuilt.note.endswith("written")
    assert np.array_equal(rebuilt.call((X,), X)[0], X * X + 2)
    assert cache.compile(lowered(), {}).is_loaded


def test_unloadable_program_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("made for another machine")

    monkeypatch.setattr("jax.experimental.serialize_executable.deserialize_and_load", refuse)
    assert "JAX cannot load it: made for another machine" in cache.compile(lowered(), {}).note


def test_folder_in_place_of_file_is_reported(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})
    path = the_file(folder)
    path.unlink()
    path.mkdir()
    made = cache.compile(lowered(), {})
    assert not made.is_loaded
    assert "not written" in made.note
    assert [entry.name for entry in folder.iterdir()] == [path.name]  # nothing half done is left


@needs_owners
def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})
    path = the_file(folder)
    elsewhere = path.replace(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    assert "was unusable" in cache.compile(lowered(), {}).note
    assert not path.is_symlink()


@needs_owners
def test_world_writable_file_is_not_read(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(), {})
    the_file(folder).chmod(0o622)
    assert "accessible to other users" in cache.compile(lowered(), {}).note
    assert cache.compile(lowered(), {}).is_loaded


@needs_owners
def test_a_folder_is_made_for_its_owner_alone(folder: Path) -> None:
    ProgramCache(str(folder)).compile(lowered(), {})
    assert folder.stat().st_mode & 0o777 == 0o700
    assert the_file(folder).stat().st_mode & 0o777 == 0o600


@needs_owners
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_world_writable_folder_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    made = ProgramCache(str(folder)).compile(lowered(), {})
    assert made.note.startswith("not cached")
    assert f"mode {mode:o}" in made.note
    assert not list(folder.iterdir())
    assert np.array_equal(made.call((X,), X)[0], X * X + 2)


@needs_owners
def test_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to another user" in ProgramCache(str(folder)).compile(lowered(), {}).note


def test_file_in_place_of_folder_is_reported(folder: Path) -> None:
    folder.write_text("")
    assert "cannot be created" in ProgramCache(str(folder)).compile(lowered(), {}).note


def test_a_full_disk_costs_the_saving_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    made = ProgramCache(str(folder)).compile(lowered(), {})
    assert made.note == "not written: No space left on device"
    assert np.array_equal(made.call((X,), X)[0], X * X + 2)


def test_programs_calling_python_are_not_cached(folder: Path) -> None:
    def program(x: Any) -> Any:
        return jax.pure_callback(np.negative, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    made = ProgramCache(str(folder)).compile(jax.jit(program, keep_unused=True).lower(X), {})
    assert made.note == "not cached: it calls back into Python"
    assert np.array_equal(made.call(X), -X)


def test_least_recently_used_entry_is_evicted(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    cache.compile(lowered(1.0), {})
    size = the_file(folder).stat().st_size
    small = ProgramCache(str(folder), max_bytes=int(size * 2.5))
    first = the_file(folder)
    small.compile(lowered(2.0), {})
    (second,) = set(folder.glob("*.program")) - {first}
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    assert small.compile(lowered(1.0), {}).is_loaded  # and so is younger than the second
    small.compile(lowered(3.0), {})
    assert first.exists()
    assert not second.exists()
    assert len(list(folder.glob("*.program"))) == 2


def test_program_larger_than_cache_is_not_stored(folder: Path) -> None:
    made = ProgramCache(str(folder), max_bytes=10).compile(lowered(), {})
    assert "exceed the cache's limit" in made.note
    assert not list(folder.iterdir())


def test_stale_temporary_files_are_removed(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    stale, fresh = folder / ".a.tmp", folder / ".b.tmp"
    stale.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(stale, (1, 1))
    ProgramCache(str(folder)).compile(lowered(), {})
    assert not stale.exists()
    assert fresh.exists()


def test_threads_may_compile_the_same_program_at_once(folder: Path) -> None:
    together = threading.Barrier(4)

    def compile_one(_: int) -> Any:
        program = lowered()
        together.wait()
        return ProgramCache(str(folder)).compile(program, {}).call((X,), X)[0]

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(compile_one, range(4)):
            assert np.array_equal(result, X * X + 2)
    assert ProgramCache(str(folder)).compile(lowered(), {}).is_loaded
    assert not list(folder.glob(".*"))


_PROCESS = """
import os, sys, numpy, graphmill
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"  # only one of them is meant
graph = graphmill.Graph()
with graph.as_default():
    x = graph.placeholder("float32", [4], name="x")
    y = (x * 2.0 + 1.0) * x
config = {"graphmill": {"jit": "eager", "jit_cache_dir": sys.argv[1]}}
with graphmill.Session(graph=graph, config=config) as session:
    result = session.run(y, {x: numpy.arange(4)})
    (compilation,) = session.explain(y, [x]).compilations.values()
((compiled,),) = [s.compiles for c in compilation.clusters for s in c.signatures]
print(compiled.outcome, compiled.cache, result.tolist())
"""


def test_the_next_process_starts_compiled(folder: Path) -> None:
    outcomes = [
        subprocess.run(
            [sys.executable, "-c", _PROCESS, str(folder)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    values = "[0.0, 3.0, 10.0, 21.0]"
    assert outcomes == [f"compiled written {values}", f"loaded loaded {values}"]


def test_jax_cached_program_is_not_stored_twice(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that JAX loaded from its own cache is not stored again."""
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "true")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

    def run(programs: Path) -> str:
        command = [sys.executable, "-c", _PROCESS, str(programs)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    values = "[0.0, 3.0, 10.0, 21.0]"
    assert run(tmp_path / "first") == f"compiled written {values}"
    kept = f"compiled not written: it is in JAX's own cache {values}"
    assert [run(folder), run(folder)] == [kept, kept]
    assert not list(folder.iterdir())


def test_the_environment_names_a_folder_where_the_config_names_none(
    folder: Path, tmp_path: Path, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    monkeypatch.setenv("GRAPHMILL_JIT_CACHE_DIR", str(folder))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4], name="x")
        y = (x * 2.0 + 1.0) * x
    for named in ("", str(other)):
        config = {"graphmill": {"jit": "eager", "jit_cache_dir": named}}
        with graphmill.Session("", graph, config, graphmill_host) as session:
            session.run(y, {x: X})
    assert the_file(folder).name == the_file(other).name


def test_unusable_folder_only_disables_saving(folder: Path, graphmill_host: Host) -> None:
    folder.write_text("")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4], name="x")
        y = (x * 2.0 + 1.0) * x
    config = {"graphmill": {"jit": "eager", "jit_cache_dir": str(folder)}}
    with graphmill.Session("", graph, config, graphmill_host) as session:
        assert session.run(y, {x: X}).tolist() == [0.0, 3.0, 10.0, 21.0]
        (compilation,) = session.explain(y, [x]).compilations.values()
    (compiled,) = compilation.clusters[0].signatures[0].compiles
    assert compiled.outcome == "compiled"
    assert "cannot be created" in compiled.cache


def test_programs_of_another_version_of_a_plugin_are_not_found(folder: Path) -> None:
    cache = ProgramCache(str(folder))
    first = cache.for_kernels(["plugin 'mine' (mine 1.0)"])
    assert not compile_program(lowered(), {}, first).is_loaded
    assert compile_program(lowered(), {}, first).is_loaded
    assert not compile_program(
        lowered(), {}, cache.for_kernels(["plugin 'mine' (mine 1.1)"])
    ).is_loaded
