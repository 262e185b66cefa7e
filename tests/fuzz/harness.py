"""Run a fuzz target: guided by coverage with atheris, or with a seeded mutator of our own.

    python tests/fuzz/fuzz_graph_def.py --runs 10000        the mutator of this module
    python tests/fuzz/fuzz_graph_def.py                     atheris, until it is stopped
    python tests/fuzz/fuzz_graph_def.py -max_total_time=60  atheris with options of libFuzzer

Atheris has to instrument graphmill while it is imported, so it runs in a new interpreter that
starts with this module. The result of an input is a value or an `OpError`. Every other exception is
a finding, and so are an `InternalError`, and an input that takes long or much memory. Findings are
written to `corpus/NAME`, and the run goes on.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import random
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

try:
    import resource
except ImportError:  # Windows has no such module
    resource = None  # type: ignore[assignment]

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
INPUTS = HERE.parents[1] / "build" / "fuzz"
"""The folder in which atheris keeps the inputs of each target that reach new code."""
SLOW_S = 10.0
"""An input of at most `MAX_INPUT_BYTES` that takes more processor time is also a finding."""
LARGE_MB = 1024
"""An input that makes the process grow by more is also a finding."""
ADDRESS_SPACE_MB = 16 * 1024
"""Larger allocations fail here, before the system's OOM killer ends another process."""
HANG_S = 60
"""Seconds for an input after which atheris ends the process."""
MAX_INPUT_BYTES = 1 << 14
PACKAGES = ("graphmill", "graphmill_plugins", "google.protobuf")
"""The packages that are instrumented, with protobuf's parsers of text and JSON in Python."""
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def words_of(target: str) -> list[bytes]:
    """Return the words of a target's dictionary, in libFuzzer's format."""
    path = HERE / f"{target}.dict"
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    quoted = [line.partition("=")[2].strip() for line in lines if not line.startswith("#")]
    return [
        word[1:-1].encode("ascii").decode("unicode_escape").encode("latin-1")
        for word in quoted
        if word
    ]


def inputs_of(target: ModuleType | Any, name: str, runs: int, seed: int) -> Iterator[bytes]:
    """Yield `runs` inputs for a target: its seeds, then seeds with mutations.

    Half of the inputs of a target that reads messages have changed fields, the others changed
    bytes.
    """
    seeds, words = target.seeds(), words_of(name)
    if not hasattr(target, "read_message"):
        yield from mutated(seeds, words, runs, seed)
        return
    changed = changed_messages(target, seeds, words, seed)
    for number, data in enumerate(mutated(seeds, words, runs, seed)):
        yield next(changed) if number >= min(len(seeds), runs // 2) and number % 2 else data


def changed_messages(
    target: ModuleType | Any, seeds: Sequence[bytes], words: Sequence[bytes], seed: int
) -> Iterator[bytes]:
    """Yield inputs with changed fields for a target that reads messages, without end."""
    rng = random.Random(seed)
    pairs = [(target.read_message(data), data) for data in seeds]
    pairs = [(message, data) for message, data in pairs if message is not None]
    mutator = load_module("message_mutator").MessageMutator(
        [message for message, _ in pairs], words, rng
    )
    while True:
        index = rng.randrange(len(pairs))
        yield target.write_message(mutator.mutated(index), pairs[index][1])


def mutated(
    seeds: Sequence[bytes], words: Sequence[bytes], runs: int, seed: int
) -> Iterator[bytes]:
    """Yield `runs` inputs: seeds, then seeds with one to eight mutations of their bytes."""
    rng = random.Random(seed)
    unchanged = seeds[: runs // 2]
    yield from unchanged
    for _ in range(runs - len(unchanged)):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            _damage(data, seeds, words, rng)
        yield bytes(data[:MAX_INPUT_BYTES])


def _damage(
    data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random
) -> None:
    start = rng.randint(0, len(data))
    stop = min(len(data), start + rng.choice((1, 2, 4, 16, 64)))
    kind = rng.randrange(7)
    if kind == 0 and start < len(data):
        data[start] ^= 1 << rng.randrange(8)
    elif kind == 1 and start < len(data):
        data[start] = rng.choice(_INTERESTING)
    elif kind == 2:
        del data[start:stop]
    elif kind == 3:
        data[start:start] = data[start:stop]
    elif kind == 4 and words:
        data[start:start] = rng.choice(words)
    elif kind == 5:
        other = rng.choice(seeds)
        begin = rng.randint(0, len(other))
        data[start:stop] = other[begin : begin + rng.randint(1, 64)]
    else:
        data[start:start] = rng.randbytes(rng.randint(1, 8))


class Findings:
    """Calls a target, and keeps the inputs that it fails for, one for each cause.

    Attributes:
        inputs: the number of inputs that were tried.
        causes: the distinct places of failures.
    """

    def __init__(self, fuzz: Callable[[bytes], None], name: str, label: str) -> None:
        self.inputs = 0
        self.causes: set[str] = set()
        self._fuzz = fuzz
        self._name = name
        self._label = label

    def try_input(self, data: bytes) -> None:
        """Call the target with an input."""
        self.inputs += 1
        cause = fault_of(self._fuzz, data)
        place = cause.partition(": ")[0]
        if not cause or place in self.causes:
            return
        self.causes.add(place)
        folder = CORPUS / self._name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"find_{self._label}_{len(self.causes)}.bin").write_bytes(data)
        print(f"{self._name}: {cause}", flush=True)

    def report(self) -> None:
        """Print the line that `tools/fuzz_nightly.py` reads."""
        print(f"{self._name}: {self.inputs} inputs, {len(self.causes)} findings", flush=True)


def main(target: ModuleType | Any) -> None:
    """Run the target whose script was started; exit with 1 if something was found."""
    name = Path(target.__file__).stem.removeprefix("fuzz_")
    if "--runs" not in " ".join(sys.argv[1:]):
        os.execv(sys.executable, [sys.executable, __file__, name, *sys.argv[1:]])
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    limit_address_space()
    findings = Findings(target.fuzz, name, str(options.seed))
    for data in inputs_of(target, name, options.runs, options.seed):
        findings.try_input(data)
    findings.report()
    sys.exit(1 if findings.causes else 0)


def main_with_atheris(name: str, arguments: Sequence[str]) -> None:
    """Run a target guided by the coverage of graphmill's code; it ends as libFuzzer does.

    Args:
        name: the name of the target.
        arguments: options of libFuzzer, and folders with further inputs.
    """
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(PACKAGES)):
        target = load_target(name)
        seeds = target.seeds()
        for seed in seeds:  # what the target imports when it runs is instrumented, too
            fault_of(target.fuzz, seed)
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    own, arguments = parser.parse_known_args(arguments)
    findings = Findings(target.fuzz, name, f"atheris_{os.getpid()}")
    try_input = findings.try_input if own.seconds is None else limited(findings, own.seconds)
    atheris.Setup([name, *libfuzzer_options(name, seeds), *arguments], try_input)
    atheris.Fuzz()


def limited(findings: Findings, seconds: float) -> Callable[[bytes], None]:
    """Return a target for atheris that reports and ends the process when the time is over.

    LibFuzzer ends the process without a return to Python.
    """
    end = time.monotonic() + seconds

    def try_input(data: bytes) -> None:
        findings.try_input(data)
        if time.monotonic() > end:
            findings.report()
            sys.stderr.flush()
            os._exit(1 if findings.causes else 0)

    return try_input


def libfuzzer_options(name: str, seeds: Sequence[bytes]) -> list[str]:
    """Return the options for a target, and its folder of inputs, in which the seeds are put."""
    folder = INPUTS / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / f"seed_{number}").write_bytes(seed)
    crashes = CORPUS / name
    crashes.mkdir(parents=True, exist_ok=True)
    options = [f"-artifact_prefix={crashes}{os.sep}", f"-timeout={HANG_S}", "-rss_limit_mb=4096"]
    options += [f"-max_len={MAX_INPUT_BYTES}", "-keep_seed=1"]
    dictionary = HERE / f"{name}.dict"
    if dictionary.exists():
        options.append(f"-dict={dictionary}")
    return [*options, str(folder)]


def load_target(name: str) -> ModuleType:
    """Import the module of a target by its name."""
    return load_module(f"fuzz_{name}")


def load_module(name: str) -> ModuleType:
    """Import a module of this folder by its name."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        sys.exit(f"there is no module {name!r} in {HERE}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fault_of(fuzz: Callable[[bytes], None], data: bytes) -> str:
    """Return the place of an untyped error, or a note on time or memory; "" for neither.

    An error that ends another thread counts, too.
    """
    begin, size = time.process_time(), peak_mb()
    of_threads: list[BaseException] = []
    earlier, threading.excepthook = threading.excepthook, partial(_keep_error, of_threads)
    try:
        fuzz(data)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        return _place_of(error)
    finally:
        threading.excepthook = earlier
    if of_threads:
        return _place_of(of_threads[0])
    seconds = time.process_time() - begin
    if seconds > SLOW_S:
        return f"took {seconds:.0f} s"
    growth = peak_mb() - size
    return f"took {growth} MB" if growth > LARGE_MB else ""


def _keep_error(found: list[BaseException], arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        found.append(arguments.exc_value)


def _place_of(error: BaseException) -> str:
    """Return the kind and place of an error, and the start of its message."""
    origin = error
    while origin.__cause__ is not None:  # an `InternalError` names what failed in a kernel
        origin = origin.__cause__
    frame = traceback.extract_tb(origin.__traceback__)[-1]
    return f"{type(origin).__name__} at {frame.filename}:{frame.lineno}: {error!s:.200}"


def peak_mb() -> int:
    """Return the peak memory of the process in MB; 0 if the system does not report it."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit >> 20


def limit_address_space() -> None:
    """Make allocations that would exhaust the machine's memory fail."""
    if resource is not None:
        limit = ADDRESS_SPACE_MB << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main_with_atheris(sys.argv[1], sys.argv[2:])
