"""Run a fuzz target: with atheris if it is installed, else with a seeded mutator.

    python tests/fuzz/fuzz_graph_def.py                     atheris, with its own options
    python tests/fuzz/fuzz_graph_def.py --runs 10000        the mutator of this module

The result of an input is a value or an `OpError`; every other exception is a find.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
SLOW_S = 10.0
"""An input of at most `MAX_INPUT_BYTES` that takes more processor time is a find, too."""
MAX_INPUT_BYTES = 1 << 14
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


def mutated(
    seeds: Sequence[bytes], words: Sequence[bytes], runs: int, seed: int
) -> Iterator[bytes]:
    """Yield `runs` inputs: the seeds, then seeds with one to eight damages."""
    rng = random.Random(seed)
    yield from seeds[:runs]
    for _ in range(runs - len(seeds)):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 8)):
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


def main(target: ModuleType | Any) -> None:
    """Run the target whose script was started; exit with 1 if something was found."""
    name = Path(target.__file__).stem.removeprefix("fuzz_")
    if "--runs" not in " ".join(sys.argv[1:]):
        _run_with_atheris(target)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = _run(target, name, options.runs, options.seed)
    print(f"{name}: {options.runs} inputs, {found} finds")
    sys.exit(1 if found else 0)


def _run_with_atheris(target: Any) -> None:
    atheris = importlib.import_module("atheris")
    atheris.Setup(sys.argv, target.fuzz)
    atheris.Fuzz()


def _run(target: Any, name: str, runs: int, seed: int) -> int:
    causes: set[str] = set()
    for data in mutated(target.seeds(), words_of(name), runs, seed):
        cause = fault_of(target.fuzz, data)
        if cause and cause not in causes:
            causes.add(cause)
            folder = CORPUS / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"find_{seed}_{len(causes)}.bin").write_bytes(data)
            print(f"{name}: {cause}")
    return len(causes)


def fault_of(fuzz: Callable[[bytes], None], data: bytes) -> str:
    """Return where an input raised an untyped error, or that it was slow; "" if all is well."""
    begin = time.process_time()
    try:
        fuzz(data)
    except Exception as error:  # noqa: BLE001 - any exception is a find
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {frame.filename}:{frame.lineno}: {error!s:.200}"
    seconds = time.process_time() - begin
    return f"took {seconds:.0f} s" if seconds > SLOW_S else ""
