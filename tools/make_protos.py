"""Generate the Python modules and stubs of ``core/graphmill/proto`` from its ``.proto`` files.

    python tools/make_protos.py            write the files that differ
    python tools/make_protos.py --check    write nothing; list the files that differ and exit with 1

The ``.proto`` files are edited by hand. The files generated from them are committed, so users and
contributors do not need protoc. There are three kinds of generated files:

* ``<name>_pb2.py``   by protoc;
* ``<name>_pb2.pyi``  by mypy-protobuf, a protoc plugin;
* ``_index.py``       the table "message or enum name -> module" of the lazy package, and the
  same names as imports that only type checkers and editors see.

The generators are pinned, because their output differs between releases, and because the oldest
supported protobuf runtime (6.31.1) needs code of protoc 31.1.
``tox -e protos`` installs ``PINS`` and runs the check.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import shutil
import sys
import tempfile
from pathlib import Path

PINS = {"grpcio-tools": "1.74.0", "mypy-protobuf": "5.1.0"}
SEARCH_ROOT = Path(__file__).resolve().parent.parent / "core"
PACKAGE = "graphmill/proto"
HEADER = "Made by tools/make_protos.py from the .proto files: do not edit."
GENERATED = ("*_pb2.py", "*_pb2.pyi", "_index.py")


def main(argv: list[str] | None = None) -> int:
    """Run the tool; return the process exit status (0 fine, 1 differs, 2 cannot run)."""
    parser = argparse.ArgumentParser(
        description="Generate the Python modules of core/graphmill/proto."
    )
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args(argv)
    problem = _wrong_tools()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        made = _generate(Path(scratch))
        differing = _differences(made)
        if not options.check:
            _install(made, differing)
    for name, what in differing:
        print(f"{what if options.check else 'updated'}: core/{PACKAGE}/{name}")
    if options.check and differing:
        print("run `python tools/make_protos.py` and commit the result", file=sys.stderr)
        return 1
    return 0


def _wrong_tools() -> str:
    """Return a message if a pinned generator is missing or has another version, else ""."""
    found = {}
    for name in PINS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    wrong = [f"{name} is {found[name]}" for name in PINS if found[name] != PINS[name]]
    if not wrong:
        return ""
    expected = " ".join(f"{name}=={version}" for name, version in PINS.items())
    return f"wrong generator: {', '.join(wrong)}; use `tox -e protos` or pip install {expected}"


def _generate(scratch: Path) -> Path:
    """Generate all files below `scratch`; return their folder."""
    protoc = importlib.import_module("grpc_tools.protoc")
    beside_python = str(Path(sys.executable).parent)
    plugin = shutil.which("protoc-gen-mypy", path=beside_python) or "protoc-gen-mypy"
    descriptor_set = scratch / "descriptors.bin"
    arguments = [
        "protoc",
        f"-I{SEARCH_ROOT}",
        f"-I{Path(str(protoc.__file__)).parent / '_proto'}",  # google/protobuf/*.proto
        f"--python_out={scratch}",
        f"--plugin=protoc-gen-mypy={plugin}",
        f"--mypy_out=quiet:{scratch}",
        f"--descriptor_set_out={descriptor_set}",
        *(f"{PACKAGE}/{path.name}" for path in sorted((SEARCH_ROOT / PACKAGE).glob("*.proto"))),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit(2)  # protoc has printed the reason
    made = scratch / PACKAGE
    table = _names(descriptor_set.read_bytes())
    (made / "_index.py").write_text(_index_source(table), encoding="utf-8")
    return made


def _names(descriptor_set: bytes) -> dict[str, str]:
    """Map each top-level message and enum to its module.

    For a name in two proto packages, the outer package is used: `VersionDef` is that of
    TensorFlow's `versions.proto`, not that of the proto splitter.
    """
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
    table: dict[str, str] = {}
    for file in sorted(files, key=lambda file: (file.package.count("."), file.name)):
        names = [message.name for message in file.message_type]
        names += [enum.name for enum in file.enum_type]
        for name in names:
            table.setdefault(name, f"{Path(file.name).stem}_pb2")
    return dict(sorted(table.items()))


def _index_source(table: dict[str, str]) -> str:
    """Return the source of `_index.py`: the table, and the same names for type checkers."""
    modules = sorted(path.stem + "_pb2" for path in (SEARCH_ROOT / PACKAGE).glob("*.proto"))
    rows = [f'    "{name}": "{module}",' for name, module in table.items()]
    imports = [f"    from graphmill.proto import {module} as {module}" for module in modules]
    imports += [
        f"    from graphmill.proto.{module} import {name} as {name}"
        for name, module in table.items()
    ]
    parts = [
        f'"""Where each message and enum lives.\n\n{HEADER}\n"""\n',
        "# ruff: noqa: E501, I001",
        "# fmt: off",
        "from __future__ import annotations\n\nTYPE_CHECKING = False\n",
        "MODULE_OF: dict[str, str] = {",
        *rows,
        "}\n\nif TYPE_CHECKING:",
        *imports,
    ]
    return "\n".join(parts) + "\n"


def _differences(made: Path) -> list[tuple[str, str]]:
    """Compare the generated files with the package's; return pairs of file name and problem."""
    home = SEARCH_ROOT / PACKAGE
    new = {path.name for path in made.iterdir()}
    old = {path.name for pattern in GENERATED for path in home.glob(pattern)}
    found = [(name, "obsolete") for name in old - new]
    for name in new:
        if name not in old:
            found.append((name, "missing"))
        elif (home / name).read_bytes() != (made / name).read_bytes():
            found.append((name, "differs"))
    return sorted(found)


def _install(made: Path, differing: list[tuple[str, str]]) -> None:
    """Update the generated files of the package."""
    for name, what in differing:
        target = SEARCH_ROOT / PACKAGE / name
        if what == "obsolete":
            target.unlink()
        else:
            shutil.copyfile(made / name, target)


if __name__ == "__main__":
    sys.exit(main())
