"""Code that analyses graphs uses traits of ops, not their names.

A string literal counts if it is the name of an op, or several names separated by spaces; docstrings
do not count. An entry lists the names in a file, each as often as it occurs; a name that is no
longer used is removed from its entry. A plugin that has such lists is one more entry of `PARTS`.

The comments in the lists give the reason for each name, one of these:

- It is the name of something else: a function, a class, a node, a kind of resource.
- The code adds a node of this op. Ops with equal traits do not matter there.
- It is an end of a pattern that an idiom of the compiler rewrites to an op of its own, or traces in
  its own way. Clients of TensorFlow write this pattern, and the rewrite is correct only for the
  semantics of these ops (`UnsortedSegmentSum` drops rows whose id is out of range): no trait could
  promise as much for another op. A plugin with similar ops adds its own pass.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphmill.ops.definition.op_registry import bundled_ops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.divided

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    """A part of the code to which the rule applies.

    Attributes:
        folder: where it is, from the root of the repository.
        allowed: by file, relative to the folder, the names that may occur, each as often as listed.
        left_out: folders and files in it to which the rule does not apply.
    """

    folder: str
    allowed: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files to which the rule applies, by their names in the lists."""
        root = ROOT / self.folder
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(self.left_out):
                yield name, path


CORE = Part(
    "core/graphmill",
    left_out=("ops/", "testing/", "cli/", "proto/", "templates/"),
    allowed={
        # Names of functions, classes and nodes that users see.
        "__init__.py": "Assert Assert Variable Variable",
        "data/__init__.py": """
            FixedLengthRecordDataset FixedLengthRecordDataset Iterator Iterator TFRecordDataset
            TFRecordDataset TextLineDataset TextLineDataset
        """,
        "functions/building.py": "Const Const Placeholder",
        "functions/math.py": "All Any MatMul Max Mean Min Prod Sum",
        "functions/nn.py": "LogSoftmax Softmax SparseSoftmaxCrossEntropyWithLogits",
        "graph/builder.py": "Const Const Const Placeholder Placeholder",
        "graph/tensor.py": "Abs",
        "graph/variable.py": "Assign Assign Variable",
        "summary/nodes.py": "Merge",  # a scope, not the op
        "train/checkpoints/saver_nodes.py": "Assign Const RestoreV2 SaveV2",
        # Nodes that are made: of ops that core itself needs, whatever plugins there are.
        "backprop/generic.py": "Placeholder",
        "export/constant_handles.py": "Const Const",
        "export/filled_tables.py": "Const",
        "export/freeze.py": "Placeholder",
        "export/saved_model_export.py": "Assign Assign",
        "graph/assertion.py": "Assert Assert",
        "graph/control_flow/cond.py": "Merge",
        "graph/control_flow/cond_context.py": "Switch",
        "graph/functions/function_body.py": "_Arg _Retval",
        "graph/control_flow/while_loop.py": "LoopCond",
        "lowering/functions/inline_call.py": "Identity IdentityN NoOp NoOp",
        "lowering/partitioning/control_loops.py": "Const Enter Merge NextIteration Switch",
        "lowering/debug_watches.py": "Copy",
        "lowering/partitioning/partition.py": (
            "Cast Const Identity _HostCast _HostRecv _HostSend _Recv _Send"
        ),
        "lowering/partitioning/receive_scheduling.py": "ControlTrigger",
        "lowering/prune.py": "_Arg _Recv _Retval _Send",
    },
)
EXECUTORS = (
    Part("plugins/graphmill_plugins/default_executor"),
    Part("plugins/graphmill_plugins/inline_executor"),
    Part("contrib_executors/graphmill-memorybudget/graphmill_memorybudget"),
    Part("contrib_executors/graphmill-replay/graphmill_replay"),
)
COMPILER = Part(
    "plugins/graphmill_plugins/jit",
    # Where lowerings and conversions are declared, for ops by name; ONNX has names of its own.
    left_out=("lowerings/", "export/onnx/"),
    allowed={
        # Nodes that are made: the compiler's functions, loops and conditionals.
        "export/merged_references.py": "Identity Merge",
        "functionalize/body_builder.py": "EnsureShape _Arg _Retval",
        "functionalize/if_nodes.py": "Const FakeParam If StatelessIf",
        "functionalize/while_nodes.py": "StatelessWhile While",
        "ir/argument_nodes.py": "_Arg _Retval",
        # Patterns of several ops: what embeddings and their gradients are in TensorFlow …
        "idioms/constant_segments.py": "Const Unique UnsortedSegmentSum",
        "idioms/__init__.py": """
            ComputeAccidentalHits OneHot
            SparseSegmentMean SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments
            SparseSegmentSqrtN SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
            SparseSegmentSum SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments
        """,
        # … lists and tensor arrays, whose traced form only the lowerings of this compiler know …
        "idioms/list_length.py": """
            TensorArrayWriteV3 TensorArrayWriteV3 TensorListPushBack TensorListPushBack
            TensorListSetItem
        """,
        "idioms/list_length_analysis.py": """
            Range TensorArrayGatherV3 TensorArraySizeV3 TensorArrayV3 TensorArrayWriteV3
            TensorListPushBack TensorListSetItem TensorListSetItem TensorListStack
            TensorListStack
        """,
        # … vectors of words or categories, the candidates of sampled losses, sparse updates.
        "idioms/multi_hot.py": "Sum",
        "idioms/sampled_softmax_mask.py": """
            AllCandidateSampler Cast ConcatV2 FixedUnigramCandidateSampler
            LearnedUnigramCandidateSampler LogUniformCandidateSampler Reshape Reshape Reshape
            SparseToDense ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler
        """,
        "idioms/sparse_dedup_analysis.py": "Shape StridedSlice Unique UnsortedSegmentSum",
        # A kind of resource, and not an op.
        "tracing/trace.py": "Variable",
    },
)
PASSES = Part(
    "plugins/graphmill_plugins/passes",
    allowed={
        # Nodes that are made.
        "auto_mixed_precision.py": "Cast",
        "constant_folding.py": "Const",
        "debug_stripper.py": "Identity NoOp",
        "lower_functional_ops.py": """
            Enter Exit Identity LoopCond Merge Merge NextIteration NoOp NoOp NoOp Switch Switch
            ToBool ToBool _SwitchN
        """,
    },
)
KIT = Part(
    "core/graphmill/testing",
    left_out=(
        "generators/dataflow_graphs.py",
        "generators/control_flow_graphs.py",
        "generators/variable_graphs.py",
        "generators/session_programs/",
    ),
    allowed={
        # Nodes that are made, ops whose kernels are tested, and names of twins.
        "conformance/executor.py": "ControlTrigger",
        "conformance/kernels.py": "DeviceIndex",
        "conformance/tiers.py": """
            AssignVariableOp Neg Neg Neg Neg ReadVariableOp ReluGrad VarHandleOp
        """,
        "finite_differences.py": "Placeholder",
        "oracle/gradient_results.py": "Placeholder",
        "differential/compiled_ops.py": "DynamicStitch FloorDiv ParallelDynamicStitch SqrtGrad",
        "proto_builders.py": "Const",
        "case_graph.py": "Const Placeholder",
        "fakes/chaos_plugin.py": "Abs Neg",
        "tier_programs.py": "Neg Placeholder",
        "fakes/twin_ops.py": """
            ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge
            RefNextIteration RefSwitch Switch _SwitchN
        """,
    },
)
PARTS = (CORE, *EXECUTORS, COMPILER, PASSES, KIT)


@cache
def op_names() -> frozenset[str]:
    return frozenset(bundled_ops().names())


def op_names_in(source: str) -> Counter[str]:
    """Return the op names in the strings of a source, with counts."""
    tree = ast.parse(source)
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            words = node.value.split()
            if words and op_names().issuperset(words):
                found.update(words)
    return found


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.folder)
def test_ops_are_recognized_by_traits_not_by_name(part: Part) -> None:
    found = {name: op_names_in(path.read_text("utf-8")) for name, path in part.files()}
    more = {
        name: " ".join(sorted(extra.elements()))
        for name, names in found.items()
        if (extra := names - Counter(part.allowed.get(name, "").split()))
    }
    assert more == {}, "ask node.op_def.traits, graphmill.graph.node_roles or calls_of instead"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.folder)
def test_allowed_names_are_all_in_use(part: Part) -> None:
    found = {name: op_names_in(path.read_text("utf-8")) for name, path in part.files()}
    stale = {
        name: " ".join(sorted(extra.elements()))
        for name, names in part.allowed.items()
        if (extra := Counter(names.split()) - found.get(name, Counter()))
    }
    assert stale == {}, "take these off the list"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.folder)
def test_op_names_decide_nothing(part: Part) -> None:
    found = {
        name: pieces
        for name, path in part.files()
        if (pieces := re.findall(r"\bop\.(?:ends|starts)with\(", path.read_text("utf-8")))
    }
    assert found == {}, "the names of the ops count, written out"


def test_each_part_has_files() -> None:
    assert all(list(part.files()) for part in PARTS)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('is_merge = node.op == "Merge"', "Merge"),
        ('OPS = {"Enter", "Exit", "other"}', "Enter Exit"),
        ('OPS = """\n    Switch\n    Merge\n"""', "Merge Switch"),
        ('"""Merge"""', ""),
        ('text = "a Merge of two"', ""),
        ("Merge = 1", ""),
    ],
)
def test_names_are_found_in_strings_that_hold_nothing_else(source: str, names: str) -> None:
    assert " ".join(sorted(op_names_in(source).elements())) == names
