"""The traits of TensorFlow's ops, as data.

`graphmill.ops.definition.effects` lists effects, `graphmill.ops.attrs.attr_width` lists int32
attrs. An op that is not in any table has `DEFAULT_TRAITS` with the effects that its definition
implies. A name may be added anywhere in its list: tools/wrap_op_lists.py sorts and wraps the lists.

Sources: control_flow_ops.cc, functional_ops.cc, state_ops.cc, resource_variable_ops.cc,
training_ops.cc, array_ops.cc, math_ops.cc and random_ops.cc in tensorflow/core/ops.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from graphmill.ops.attrs.attr_width import listed_int32_attrs
from graphmill.ops.definition.effects import listed_effects
from graphmill.ops.definition.op_traits import (
    DEFAULT_TRAITS,
    Arithmetic,
    Boundary,
    CallKind,
    ControlFlow,
    FunctionCall,
    HalfPrecision,
    OpTraits,
    Randomness,
    ResourceUse,
    RowUse,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONTROL_FLOW: Final[Mapping[ControlFlow, str]] = {
    ControlFlow.SWITCH: "Switch RefSwitch",
    ControlFlow.SWITCH_N: "_SwitchN",
    ControlFlow.MERGE: "Merge RefMerge",
    ControlFlow.ENTER: "Enter RefEnter",
    ControlFlow.EXIT: "Exit RefExit",
    ControlFlow.NEXT_ITERATION: "NextIteration RefNextIteration",
    ControlFlow.LOOP_COND: "LoopCond",
    ControlFlow.TRIGGER: "ControlTrigger",
}

_BOUNDARIES: Final[Mapping[Boundary, str]] = {
    Boundary.ARGUMENT: "_Arg _DeviceArg",
    Boundary.RESULT: "_Retval _DeviceRetval",
    Boundary.SEND: "_Send _HostSend Send",
    Boundary.RECEIVE: "_Recv _HostRecv Recv",
}

_WHILE: Final = (
    FunctionCall("cond", CallKind.LOOP_CONDITION),
    FunctionCall("body", CallKind.LOOP_BODY),
)
_IF: Final = (
    FunctionCall("then_branch", CallKind.BRANCH, 1),
    FunctionCall("else_branch", CallKind.BRANCH, 1),
)
_CASE: Final = (FunctionCall("branches", CallKind.BRANCH, 1),)
_CALL: Final = (FunctionCall("f", CallKind.ONCE),)
_CALLS: Final[tuple[tuple[str, tuple[FunctionCall, ...]], ...]] = (
    ("While StatelessWhile _While XlaWhile", _WHILE),
    ("If StatelessIf _If XlaIf", _IF),
    ("Case StatelessCase", _CASE),
    ("PartitionedCall StatefulPartitionedCall", _CALL),
    ("RemoteCall", (FunctionCall("f", CallKind.ONCE, 1),)),
    ("For", (FunctionCall("body", CallKind.LOOP_BODY, 3, counted=True),)),
    ("SymbolicGradient", (FunctionCall("f", CallKind.GRADIENT),)),
)

_SOURCES: Final[Mapping[Source, str]] = {
    Source.CONSTANT: "Const HostConst",
    Source.VARIABLE: "VarHandleOp Variable VariableV2",
    Source.PLACEHOLDER: "Placeholder PlaceholderV2",
    Source.PLACEHOLDER_WITH_DEFAULT: "PlaceholderWithDefault",
}

_RANDOMNESS: Final[Mapping[Randomness, str]] = {
    # They have seeds, but TensorFlow does not declare them as stateful.
    Randomness.SEEDED: "FractionalAvgPool FractionalMaxPool SnapshotDataset",
    # They have seeds, but also run in a deterministic session without one.
    Randomness.NONE: """
        AllCandidateSampler CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3
        CudnnRNNV2 CudnnRNNV3
    """,
    Randomness.STATEFUL: """
        RngReadAndSkip RngSkip StatefulRandomBinomial StatefulStandardNormal
        StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
        StatefulUniformInt
    """,
    Randomness.UNSEEDED: "NonDeterministicInts",
}

_ARITHMETIC: Final[Mapping[Arithmetic, str]] = {
    Arithmetic.ADD: "Add AddV2",
    Arithmetic.LESS: "Less",
    Arithmetic.LESS_EQUAL: "LessEqual",
    Arithmetic.LOGICAL_AND: "LogicalAnd",
}

_FLAGS: Final[Mapping[str, str]] = {
    "forwards": """
        GuaranteeConst Identity IdentityN PreventGradient RefIdentity Snapshot StopGradient
    """,
    # They have outputs for all components of an element, but values only for requested ones.
    "gives_dead": """
        MapPeek MapUnstage MapUnstageNoKey OrderedMapPeek OrderedMapUnstage OrderedMapUnstageNoKey
    """,
    "per_step_state": """
        Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2 TensorArray
        TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat TensorArrayConcatV2
        TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3
        TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack
        TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter TensorArrayScatterV2
        TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit
        TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3
        TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3
    """,
    "reshapes": "ExpandDims Reshape Squeeze",
    "validates": "CheckNumerics CheckNumericsV2 EnsureShape",
    "elementwise": """
        Abs Acos Acosh Add AddV2 ApproximateEqual Asin Asinh Atan Atan2 Atanh Betainc BitwiseAnd
        BitwiseOr BitwiseXor Cast Ceil ClipByValue Complex Cos Cosh Digamma Div DivNoNan Elu Equal
        Erf Erfc Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Igamma IgammaGradA Igammac
        Inv IsFinite IsInf IsNan LeakyRelu LeftShift Less LessEqual Lgamma Log Log1p LogicalAnd
        LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Neg NextAfter NotEqual OnesLike
        Polygamma Pow RealDiv Reciprocal Relu Relu6 RightShift Rint Round Rsqrt SelectV2 Selu
        Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square SquaredDifference Sub Tan Tanh
        TruncateDiv TruncateMod Xdivy Xlog1py Xlogy ZerosLike Zeta
    """,
    "shape_only": "Rank Shape ShapeN Size",
    "asserts": "Assert CheckNumerics CheckNumericsV2 EnsureShape",
    "diagnoses": "Assert CheckNumerics Print PrintV2",
    "loads_model": """
        InitializeTableFromTextFile InitializeTableFromTextFileV2 Restore RestoreSlice RestoreV2
    """,
}

# How ops are treated in both half types, as TensorFlow 2.21 lists them (it writes its lists to
# TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LOG_PATH), and in one of them. Ops of tensor lists and
# functional loops are left out: the types of their elements and functions would have to agree.
_HALF_TYPES: Final[Mapping[HalfPrecision, str]] = {
    HalfPrecision.ALLOW: """
        BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D
        Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNative
        DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Einsum MatMul
    """,
    HalfPrecision.INFER: """
        Add AddN AddV2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BiasAdd BiasAddGrad BiasAddV1 Elu
        EluGrad Erf Erfc FloorDiv FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2
        FusedBatchNormV3 Inv LeakyRelu LeakyReluGrad Log Log1p LogSoftmax Mul Prod RealDiv
        Reciprocal Selu SeluGrad Sigmoid SigmoidGrad Softmax Softplus SoftplusGrad Softsign
        SoftsignGrad Sqrt Sub Tanh TanhGrad _FusedBatchNormEx
    """,
    HalfPrecision.DENY: """
        Exp Expm1 L2Loss Pow SaveV2 SoftmaxCrossEntropyWithLogits
        SparseSoftmaxCrossEntropyWithLogits
    """,
    HalfPrecision.CLEAR: """
        Abs ArgMax ArgMin BatchToSpace BatchToSpaceND BroadcastTo Ceil CheckNumerics ClipByValue
        Concat ConcatV2 DepthToSpace DynamicPartition DynamicStitch EnsureShape Enter Equal Exit
        ExpandDims Fill Floor Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN
        IsFinite IsInf IsNan Less LessEqual Max MaxPool MaxPool3D MaxPool3DGrad MaxPoolGrad
        MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 Maximum Merge Min Minimum
        MirrorPad MirrorPadGrad Neg NextIteration NotEqual OnesLike Pack Pad PadV2 PreventGradient
        Rank Relu Relu6 Relu6Grad ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad
        Reverse ReverseSequence ReverseV2 Round Select SelectV2 Shape ShapeN Sign Slice Snapshot
        SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice
        StridedSliceGrad Switch Tile TopK TopKV2 Transpose Unpack Where ZerosLike
    """,
}
_FLOAT16: Final[Mapping[HalfPrecision, str]] = {
    HalfPrecision.ALLOW: """
        BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 Conv3DBackpropFilter Conv3DBackpropInput
        CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3
        FusedConv2DBiasActivation GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad
    """,
    HalfPrecision.DENY: """
        Mean Sum
    """,
    HalfPrecision.CLEAR: """
        MaxPool3DGradGrad OneHot Size
    """,
}
_BFLOAT16: Final[Mapping[HalfPrecision, str]] = {
    HalfPrecision.ALLOW: """
        FusedPadConv2D
    """,
    HalfPrecision.INFER: """
        Mean Rsqrt Square SquaredDifference Sum
    """,
    HalfPrecision.CLEAR: """
        ResizeBilinear ScatterNd
    """,
}

_HALF_FORMS: Final = {
    "FusedBatchNorm": "FusedBatchNormV2",
    "FusedBatchNormGrad": "FusedBatchNormGradV2",
}

_READ, _WRITE, _UPDATE = (True, False), (False, True), (True, True)
# Ops with one variable: the variable's input, its use, and the input with the indices of rows.
_ONE_VARIABLE: Final[tuple[tuple[str, str, tuple[bool, bool], str], ...]] = (
    ("ReadVariableOp", "resource", _READ, ""),
    ("VarIsInitializedOp", "resource", _READ, ""),
    ("ReadVariableXlaSplitND", "resource", _READ, ""),
    ("VariableShape", "input", _READ, ""),
    ("IsVariableInitialized", "ref", _READ, ""),
    ("ResourceGather ResourceGatherNd", "resource", _READ, "indices"),
    (
        """
        LookupTableExport LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableSize
        LookupTableSizeV2
        """,
        "table_handle",
        _READ,
        "",
    ),
    ("_ReadVariablesOp", "resources", _READ, ""),
    ("AssignVariableOp AssignVariableXlaConcatND", "resource", _WRITE, ""),
    ("DestroyResourceOp", "resource", _WRITE, ""),
    ("AssignAddVariableOp AssignSubVariableOp ResourceCountUpTo", "resource", _UPDATE, ""),
    ("Assign", "ref", _WRITE, ""),
    ("AssignAdd AssignSub CountUpTo", "ref", _UPDATE, ""),
    ("StridedSliceAssign ResourceStridedSliceAssign", "ref", _UPDATE, ""),
    (
        """
        ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin
        ResourceScatterMul ResourceScatterSub ResourceScatterUpdate
        """,
        "resource",
        _UPDATE,
        "indices",
    ),
    (
        """
        ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub
        ResourceScatterNdUpdate ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd
        ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate
        """,
        "ref",
        _UPDATE,
        "indices",
    ),
)

# Ops that store an input, unchanged, in their one variable.
_STORED: Final[Mapping[str, str]] = {"Assign": "value", "AssignVariableOp": "value"}

# Optimizers: the prefixes of their ops, and their variables.
_OPTIMIZERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("GradientDescent", "Apply ResourceApply", "var"),
    ("ProximalGradientDescent", "Apply ResourceApply SparseApply ResourceSparseApply", "var"),
    ("Momentum", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum"),
    ("KerasMomentum", "ResourceApply ResourceSparseApply", "var accum"),
    ("Adagrad", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum"),
    ("AdagradV2", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum"),
    ("ProximalAdagrad", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum"),
    (
        "AdagradDA",
        "Apply ResourceApply SparseApply ResourceSparseApply",
        "var gradient_accumulator gradient_squared_accumulator",
    ),
    ("Adadelta", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum accum_update"),
    ("Adam", "Apply ResourceApply", "var m v"),
    ("AdaMax", "Apply ResourceApply", "var m v"),
    ("AdamWithAmsgrad", "ResourceApply", "var m v vhat"),
    ("AddSign", "Apply ResourceApply", "var m"),
    ("PowerSign", "Apply ResourceApply", "var m"),
    ("RMSProp", "Apply ResourceApply SparseApply ResourceSparseApply", "var ms mom"),
    ("CenteredRMSProp", "Apply ResourceApply SparseApply ResourceSparseApply", "var mg ms mom"),
    ("Ftrl", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum linear"),
    ("FtrlV2", "Apply ResourceApply SparseApply ResourceSparseApply", "var accum linear"),
)


# Ops that carry the rows of a batch; elementwise ones do so anyway.
_ROWS: Final[tuple[tuple[str, RowUse], ...]] = (
    ("MatMul", RowUse("a", 2, "transpose_a")),
    ("BatchMatMulV2 BatchMatMulV3", RowUse("x y", 3)),
    ("BiasAdd", RowUse("value", 2)),
    ("Softmax LogSoftmax", RowUse("logits", 2)),
    ("Conv2D DepthwiseConv2dNative MaxPool DepthToSpace SpaceToDepth LRN", RowUse("input", 4)),
    ("AvgPool", RowUse("value", 4)),
    ("Conv3D MaxPool3D AvgPool3D", RowUse("input", 5)),
    ("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", RowUse("x", 4, "is_training")),
    ("ResizeBilinear ResizeNearestNeighbor", RowUse("images", 4)),
    ("Mean Sum Prod Max Min", RowUse("input", 2, axes="reduction_indices")),
    ("All Any", RowUse("input", 2, axes="reduction_indices")),
    ("ArgMax ArgMin", RowUse("input", 2, axes="dimension")),
    ("ConcatV2", RowUse("values", 2, axes="axis")),
    ("AddN", RowUse("inputs")),
    ("Pad PadV2 MirrorPad", RowUse("input", 2, zeros="paddings")),
    ("GatherV2", RowUse("indices", 1, "batch_dims", zeros="axis")),
    ("ResourceGather", RowUse("indices", 1, "batch_dims")),
)


@cache
def traits_of_bundled(name: str) -> OpTraits:
    """Return the traits of one of TensorFlow's ops."""
    declared = declared_fields().get(name)
    return DEFAULT_TRAITS if declared is None else OpTraits(**declared)


@cache
def declared_fields() -> dict[str, dict[str, Any]]:
    """Return the declared fields of traits for each op that is in a table."""
    fields: dict[str, dict[str, Any]] = {}
    for name, field, value in _rows():
        fields.setdefault(name, {})[field] = value
    return fields


def _rows() -> Iterator[tuple[str, str, Any]]:
    """Yield triples of op, field of its traits, and value."""
    for name, effects in listed_effects().items():
        yield name, "effects", effects
    for name, attrs in listed_int32_attrs().items():
        yield name, "int32_attrs", attrs
    for field, table in (
        ("control_flow", _CONTROL_FLOW),
        ("boundary", _BOUNDARIES),
        ("source", _SOURCES),
        ("randomness", _RANDOMNESS),
        ("arithmetic", _ARITHMETIC),
        ("float16", _HALF_TYPES),
        ("bfloat16", _HALF_TYPES),
        ("float16", _FLOAT16),
        ("bfloat16", _BFLOAT16),
    ):
        for value, names in table.items():
            yield from ((name, field, value) for name in names.split())
    yield from ((name, "half_form", form) for name, form in _HALF_FORMS.items())
    for field, names in _FLAGS.items():
        yield from ((name, field, True) for name in names.split())
    for names, calls in _CALLS:
        yield from ((name, "calls", calls) for name in names.split())
    for names, variable, (reads, writes), rows in _ONE_VARIABLE:
        use = ResourceUse(variable, reads, writes, rows, "updates" if rows and writes else "")
        for name in names.split():
            yield name, "resources", (use._replace(stores=_STORED.get(name, "")),)
    for names, rows_of_op in _ROWS:
        yield from ((name, "rows", rows_of_op) for name in names.split())
    yield from _optimizers()


def _optimizers() -> Iterator[tuple[str, str, Any]]:
    for name, prefixes, variables in _OPTIMIZERS:
        for prefix in prefixes.split():
            rows = ("indices", "grad") if "Sparse" in prefix else ("", "")
            uses = tuple(ResourceUse(one, True, True, *rows) for one in variables.split())
            yield f"{prefix}{name}", "resources", uses
