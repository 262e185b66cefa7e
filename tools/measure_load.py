"""Measure the peak memory and time of loading a SavedModel, against its size.

    python tools/measure_load.py [--megabytes 100] [--runs 1]

The tool makes two models: one has its weights as constants in the graph, the other in variables.
It loads and runs each in a new process. The peak is the process's peak resident memory (VmHWM),
which includes the interpreter and all libraries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from graphmill import proto
from graphmill.saved.checkpoint import save_checkpoint

SIDE = 512  # a weight has 512 x 512 float32 values: 1 MiB

LOAD = """
import json, sys, time
start = time.perf_counter()
import numpy as np
import graphmill
def peak():
    # Not ru_maxrss, which a process inherits in part from its parent.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
import graphmill.saved_model
imported = peak()
with graphmill.saved_model.load(sys.argv[1]) as model:
    loaded, load_s = peak(), time.perf_counter() - start
    call = model.signatures["serving_default"]
    for _ in range(int(sys.argv[2])):
        call(x=np.ones((1, 512), np.float32))
    print(json.dumps([imported, loaded, peak(), load_s, time.perf_counter() - start]))
"""


def main() -> None:
    """Print a line for each kind of model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    print("kind        size MB  import  load: MB  x size  s     first run: MB  x size  s")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("constants", "variables"):
            path = make_model(Path(folder) / kind, kind, options.megabytes)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            imported, loaded, ran, load_s, run_s = measure(path, options.runs)
            print(
                f"{kind:<11} {size / 1e6:>7.1f} {imported / 1e6:>7.0f} {loaded / 1e6:>9.0f} "
                f"{loaded / size:>7.2f} {load_s:>5.2f} {ran / 1e6:>14.0f} {ran / size:>7.2f} "
                f"{run_s:>5.2f}"
            )


def measure(path: Path, runs: int = 1) -> tuple[float, float, float, float, float]:
    """Load the model at `path` in a new process.

    Returns:
        Peak bytes after importing, loading and running, and seconds to the end of loading and of
        running, counted from the start of the program.
    """
    command = [sys.executable, "-c", LOAD, str(path), str(runs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imported, loaded, ran, load_s, run_s = json.loads(done.stdout)
    return imported, loaded, ran, load_s, run_s


def make_model(folder: Path, kind: str, megabytes: int) -> Path:
    """Write a SavedModel with `megabytes` MiB of weights: a chain of matrix products."""
    rng = np.random.default_rng(0)
    model = proto.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    graph = meta.graph_def
    graph.versions.producer = 1395
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    last, weights = "x", {}
    for index in range(megabytes):
        values = (rng.standard_normal((SIDE, SIDE), np.float32) / 23).astype(np.float32)
        weight = f"w{index}"
        if kind == "constants":
            _constant(graph, weight, values)
            weights[weight] = weight
        else:
            weights[weight] = values
            _node(
                graph,
                weight,
                "VarHandleOp",
                shared_name=weight.encode(),
                dtype=1,
                shape=values.shape,
            )
            weight = _node(graph, f"{weight}/read", "ReadVariableOp", weight, dtype=1)
        last = _node(graph, f"y{index}", "MatMul", last, weight, T=1)
    signature = meta.signature_def["serving_default"]
    for info, tensor in ((signature.inputs["x"], "x:0"), (signature.outputs["y"], f"{last}:0")):
        info.name, info.dtype, info.tensor_shape.unknown_rank = tensor, 1, True
    if kind == "variables":
        save_checkpoint(folder / "variables" / "variables", weights)
        _saver(meta, list(weights))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return folder


def _saver(meta: Any, names: list[str]) -> None:
    graph = meta.graph_def
    _strings(graph, "save/Const", b"model")
    _strings(graph, "save/names", [name.encode() for name in names])
    _strings(graph, "save/slices", [b""] * len(names))
    _node(graph, "save/RestoreV2", "RestoreV2", "save/Const", "save/names", "save/slices")
    graph.node[-1].attr["dtypes"].list.type.extend([1] * len(names))
    for index, name in enumerate(names):
        value = f"save/RestoreV2:{index}"
        _node(graph, f"save/{name}", "AssignVariableOp", name, value, dtype=1)
    _node(graph, "save/restore_all", "NoOp", *[f"^save/{name}" for name in names])
    meta.saver_def.filename_tensor_name = "save/Const:0"
    meta.saver_def.restore_op_name = "save/restore_all"


def _node(graph: Any, name: str, op: str, *inputs: str, **attrs: Any) -> str:
    node = graph.node.add(name=name, op=op, input=inputs)
    for key, value in attrs.items():
        if isinstance(value, int):
            node.attr[key].type = value
        elif isinstance(value, bytes):
            node.attr[key].s = value
        else:
            for size in value:
                node.attr[key].shape.dim.add(size=size)
    return name


def _constant(graph: Any, name: str, values: np.ndarray[Any, Any]) -> None:
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = 1
    tensor = node.attr["value"].tensor
    tensor.dtype, tensor.tensor_content = 1, values.tobytes()
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)


def _strings(graph: Any, name: str, value: bytes | list[bytes]) -> None:
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = 7
    tensor = node.attr["value"].tensor
    tensor.dtype = 7
    if isinstance(value, list):
        tensor.tensor_shape.dim.add(size=len(value))
    tensor.string_val.extend(value if isinstance(value, list) else [value])


if __name__ == "__main__":
    main()
