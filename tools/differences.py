"""Generate docs/explanation/differences.md from the results of op cases here and in TensorFlow.

`tools/make_op_reference.py` writes or checks the page.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill.testing.case import load_cases
from graphmill.testing.golden import stored_results
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.golden import CaseResult

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "differences.md"
HEAD = """\
# Differences from TensorFlow

<!-- Written by tools/make_op_reference.py from op cases; edit those, or tools/differences.py. -->

This page is for people who move a model from TensorFlow, and for contributors. It lists every
result that differs on purpose, and every op that is not supported.

TensorFlow is the reference. The tests run each op on every backend and compare thousands of cases
with TensorFlow's stored results (`tests/conformance`), and compare random graphs with it live
(`tox -e oracle`). This page lists all differences that these tests accept. Any other difference
fails a test:

```mermaid
flowchart LR
    case["an op with inputs and attrs,<br/>a graph, a session's calls"] --> here["result here"]
    case --> there["result of TensorFlow"]
    here --> equal{"equal?"}
    there --> equal
    equal -- yes --> passes["the test passes"]
    equal -- "by rounding" --> rounding["listed under<br/>Differences by rounding"]
    equal -- no --> reason{"is a reason<br/>recorded?"}
    reason -- yes --> listed["listed by design,<br/>or under Other results"]
    reason -- no --> fails["the test fails"]
```

## Differences by design

- **Values** are never changed in place
  ([0008](../decisions/0008-values-are-never-written-in-place.md)), so the caller owns a fetched
  array.
- **Threads**: one event loop drives a step
  ([0007](../decisions/0007-one-event-loop-for-a-step.md)), so its results do not depend on threads.
- **Unordered reads and writes**: if a graph does not order a read and a write of a variable, a read
  that depends only on the variable always comes first. TensorFlow usually does the same, but does
  not guarantee it.
- **Feeds** lose nothing: 1.5 for an integer, a complex number for a real one and a value out of
  range are errors; TensorFlow truncates them. A value that equals an integer (2.0) may be fed for
  it. `None` is an error; TensorFlow feeds NaN. So are text for a number or a bool, and a tensor
  that is fed under two names; TensorFlow parses the first and takes the second value. The output
  number of a fed tensor may be left out: `"x"` is `"x:0"`. A key names one tensor: feed the parts
  of a tuple of tensors, of `IndexedSlices` and of sparse and ragged tensors one by one. Functions
  of `make_callable_from_options` check the shapes of their arguments as `run` does.
- **Fetches**: `"^x"` names the operation `x`. `partial_run` takes operations, too, and dataclasses
  are structures; TensorFlow refuses both. An output number is written in digits alone: `"x:-1"` and
  `"x:0 "` are errors, but name the last and the first output in TensorFlow. If several nodes of a
  step fail, the error may be that of another node.
- **Sessions** report settings at once: an unknown device type in `device_count`, an unknown
  `executor_type`, and pools of one `global_name` with different numbers of threads are errors when
  the session is made. Debug watches of nodes and outputs that do not exist are errors; TensorFlow
  ignores them. With
  `optimize_for_static_graph`, the graph cannot be extended after the first step; TensorFlow 2.21
  extends it nevertheless. Only TensorFlow frees memory with this option: here, the graph belongs to
  the program. Pools of one `global_name` are shared by the sessions of one host.
- **`CallableOptions`**: an unknown tensor is `NotFound`, in TensorFlow `InvalidArgument`. A
  connection may start at a tensor that is fed. `fetch_devices` works with and without
  `fetch_skip_sync`.
- **Snapshots of version 1** (`SnapshotDataset`) are written and read by one thread, in the order of
  the elements, whatever the numbers of threads and buffers. A second run of mode `write` under the
  same `snapshot_name` replaces the first; TensorFlow appends to its file.
- **Queues and barriers**: `QueueDequeueUpTo` of a closed priority queue returns the elements
  that are left; TensorFlow drops them and reports `OutOfRange`. Closing a closed barrier once
  more with `cancel_pending_enqueues` ends at once; in TensorFlow it never ends if no element is
  incomplete.
- **Errors**: if a node in a function or loop fails, `error.op` is the operation that calls the
  function; if a step runs out of time, it is the operation that waited. TensorFlow's `error.op` is
  None in these cases, or an unrelated operation that has the name of the function's node.
  `error.node` and `error.op_type` name the failing node itself. Errors can be pickled (TensorFlow's
  cannot), without their operations.
- **Placement**: a node that no step needs is checked like in TensorFlow (unless
  `place_pruned_graph` is set), except for the element types and devices of its kernels, which are
  not imported; in a cluster, whose workers have the kernels, only its requested device. A missing
  kernel of a node that the step needs is `NotFound`, in TensorFlow `InvalidArgument`; the error
  lists all of them. With `allow_soft_placement`, variables that one op updates are placed on one
  device; TensorFlow refuses those that request different ones.
- **Devices** are array libraries, which manage memory, streams and copies. So device contexts
  (`FillContextMap`) and lists of accessed tensors are what a device
  [does around each kernel](../howto/device.md#streams-and-memory-of-your-own). Nothing reads
  allocator attributes, because kernels allocate through their library. Devices have no localities,
  which nothing here would use, and no thread pools, because the library has its own.
- **Executors** are registered by plugins, not in a static registry. They post to the event loop of
  a step instead of a free `runner`. `rendezvous_factory` is `LocalExecutorParams.new_rendezvous`.
  Sessions pass no `delete_kernel`, because kernels are garbage-collected; what a kernel must close
  with its session is a resource in
  [its private container](../howto/kernel.md#close-what-a-kernel-opens). `params.config` has the
  session metadata.
- **Graph optimizers** run once for all partitions of a step, and for the bodies of functions. What
  only makes graphs faster (layout, remapping, arithmetic) is left to XLA.
- **Mixed precision** leaves tensor lists in float32. Where oneDNN fuses nodes, TensorFlow rounds to
  bfloat16 once for all of them. It crashes if `auto_mixed_precision_cpu` meets a loop; graphmill
  rounds the values of loops.
- **Session handles**: `GetSessionHandle` returns text and `GetSessionHandleV2` a resource handle;
  both can be fed to `GetSessionTensor`. Python's layer of TensorFlow wraps them in `TensorHandle`,
  which deletes the tensor when it is garbage-collected.
- **Traces**: the memory of a node is that of its outputs, also in cost graphs, because array
  libraries do not report temporary memory. Fed tensors are listed without their shapes, and those
  that a step does not need as well. Cost graphs have no `_SOURCE` and `_SINK`. `HARDWARE_TRACE`
  records what `SOFTWARE_TRACE` does; JAX's profiler
  [shows steps beside XLA's work](../howto/steps.md#show-a-step-in-a-profile).
  Partial runs do not count for `build_cost_model`. Instead of monitoring counters, plugins get each
  step and its duration (`graphmill_step_finished`).
- **Debug URLs**: `file://` and `callback://`; TensorFlow's `grpc://` is refused.
- **Partial runs**: a session keeps 256 unfinished ones; beyond that, the oldest one is released
  with a warning. `SINGLE_THREADED_EXECUTOR` refuses them, and graphs on several devices; it runs
  reference variables, which TensorFlow's refuses. It reports a loop of version 1 as
  `Unimplemented`, TensorFlow's as `FailedPrecondition`. When a call returns, all that can run with
  the values fed so far has run, so an error appears at the same call each time. An error ends only
  its partial run; TensorFlow then cancels all later steps of the session.
- **Deadlocks**: a step that can make no more progress fails and names the nodes that wait.
  TensorFlow hangs.
- **Names of transfers** (`x/_send`) are unique in the graph of a step; those of two steps of a
  session may be equal. TensorFlow numbers them in the session.
- **Rendezvous**: a second send under a rendezvous key is an error, as in TensorFlow 1.0.
- **Workers**: a worker aborts a receive for a step that has ended; in TensorFlow the receive waits
  for its caller's deadline. Registering a graph with unsupported ops fails with UNIMPLEMENTED and
  their names. If a session has more than 256 graphs, those that did not run for an hour are
  dropped.
- **`PyFunc`** names its function by an entry point
  ([how](../howto/op.md#call-a-python-function)). TensorFlow uses a number that is valid in one
  process only.
- **Loops**: tensors inside a loop can neither be fed nor fetched; the error says why.
- **Failed updates**: an op that fails changes nothing. TensorFlow applies the updates that precede
  the invalid one.
- **Trained variables** are saved beside the graph (`saved_model.save`, `train.Saver`). There is no
  `convert_variables_to_constants`: a GraphDef holds at most 2 GB, and a model of constants cannot
  be trained further.
- **Uninitialized variables**: an optimizer op on a resource variable without a value fails with
  `NotFound`, like a read. TensorFlow reports `Internal`.
- **The same variable twice**: an optimizer op whose inputs are one variable, such as its weights
  and their accumulator, fails with `InvalidArgument`. TensorFlow updates it in place, one input
  after the other.
- **Tables** export their keys in insertion order, TensorFlow in hash order. In a dense table, the
  bucket of a removed key is empty; TensorFlow leaves the deleted key in it.
- **Reference variables**: a read returns the value at the time of the read. In TensorFlow the
  result shares the variable's memory, so a fetched value may show a later update of the same step.
- **Variables as tensors**: a `graphmill.Variable` is the tensor of its read, so `op` is the node
  that reads; TensorFlow's is the node of the handle, here `handle.op`. `assign` of a resource
  variable returns the new value as a tensor, or the node with `read_value=False`. The same
  holds for the `scatter_*` methods.
- **Gates of gradients**: the default of an optimizer's `gate_gradients` is `GATE_NONE`, because a
  step reads variables before it updates them anyhow; TensorFlow's is `GATE_OP`.
- **Second derivatives of loops** of primitives (`Enter`, `Exit`) are computed. TensorFlow refuses
  them, or treats the values that the backward loop reads as constants and returns None or too
  little. An array of tensors (`TensorArrayV3`) can be differentiated once, as in TensorFlow. A
  gradient that is zero because nothing uses a value that enters a loop may be zeros here and None
  in TensorFlow.
- **Variables** are resource variables unless `use_resource=False`. A variable whose initial value
  has an unknown shape is not refused.
- **Variables of SavedModels** are those that the model's restore operation sets, as in
  TensorFlow's C++ loader and TensorFlow Serving. If an optimizer of Keras 3 is an attribute of a
  `tf.Module`, `tf.saved_model.save` lets that operation set other variables than the ones that the
  signatures use. Then these have no value; only Python's `tf.saved_model.load`, which follows the
  graph of objects, finds it. Keras' `model.export` writes models that all can load.
- **Datasets of files**: after a file that cannot be opened, the next request continues with the
  next file. TensorFlow tries the same file forever, so `ignore_errors` never ends.
- **Byte-order marks**: `UnicodeDecode` and `UnicodeTranscode` read the mark of each UTF-16 or
  UTF-32 string. TensorFlow reads that of the first string of a tensor; in later ones it is a
  character, and the byte order is that of the first. A string that is only a mark is empty here.
- **Data service**: `RegisterDataset`, `DataServiceDataset`, their later versions and
  `DistributedSave` fail with `Unimplemented` when they run. The dispatcher and the workers of a
  data service are servers of TensorFlow.
- **Saved iterators**: `DeserializeIterator` reads and drops as many elements as had been taken,
  with the same seeds; TensorFlow restores the state of each dataset. A function with random ops
  continues; TensorFlow's begins again. A state in a checkpoint or a message is restored only by
  the side that wrote it.
- **Variants in messages and checkpoints**: datasets and locks of mutexes can be neither sent to
  another task nor saved, and the step fails with `Unimplemented`. TensorFlow saves a dataset as a
  name without content, which it then cannot restore. The Python type that the metadata of a
  composite tensor describe is not sent. `SerializeTensor` fails for the same types and for
  resources. `SerializeSparse`, `SerializeManySparse`, `Fingerprint` and `AsString` fail for all
  variants, the first three for resources as well. `RestoreV2` returns slices of saved variants;
  TensorFlow only those that were saved as such.
- **Saved datasets and snapshots** have TensorFlow's files, but no elements of type variant, and
  their Snappy blocks are not compressed. Without a `hash`, a snapshot has another name than
  TensorFlow's, so that each makes its own. `DatasetFingerprint` gives other numbers, too.
- **Options of pipelines** change nothing, and pipelines are not rewritten: `AssertNextDataset` and
  `AssertPrevDataset` see them as they were written. `shuffle` and `repeat(0)` give no elements;
  TensorFlow rewrites them to one dataset, which refuses zero repetitions. A function that captures
  a `ShuffleDataset` and reduces it gets another order at each call, if it reshuffles; TensorFlow
  rewrites a copy, which begins with the seed again. Statistics are those of
  `BytesProducedStatsDataset` and `LatencyStatsDataset` alone.
- **`RebatchDatasetV2`** refuses negative sizes; TensorFlow ends the process.
- **`SerializeIterator`** also saves the position in a dataset whose function reduces another one;
  TensorFlow refuses that, as `ReduceDataset` counts as stateful.
- **`SqlDataset`** opens a database for reading only. TensorFlow creates a missing one, and runs
  queries that write.
- **LMDB**: a database without keys has no elements; TensorFlow's dataset waits for one forever. A
  database that `LMDBReader` cannot open is an error; TensorFlow ends the process.
- **Ranks and element types** that TensorFlow's kernels do not support: `Pad` beyond rank 6,
  `MirrorPad` and `ReverseSequence` beyond rank 5, `ReverseV2` and `Where` beyond rank 8, `Tile` of
  quantized and unsigned numbers, `Cast` to eight-bit floats, `LinSpace` of narrow floats.
- **Sparse tensors out of order**: `SparseAdd`, `SparseSparseMinimum` and `SparseSparseMaximum` sort
  the indices of both tensors before they merge them. TensorFlow walks through both in step, so its
  results differ if indices are out of order or repeated.
- **Truncated examples**: an unknown field of an `Example` that is cut short is an error. TensorFlow
  takes what precedes it.
- **`QuantizeV2` in mode MIN_FIRST** rounds a number and the start of the range one by one, as
  TensorFlow's own kernel does. With oneDNN, its default on x86, it rounds their difference, so that
  results may differ by one.
- **`QuantizeAndDequantizeV2` and `V4`** compute with a given range for each channel. TensorFlow
  2.21 refuses each shape of such a range: one check wants a scalar, the next one a vector.
- **`MaxPoolGrad`** in compiled code compares the input with `orig_output`, and the gradient of a
  window whose maximum this is not is zero. TensorFlow and interpreted steps ignore `orig_output`.
- **Python API**: a node is the `tf.Operation`. Its `traceback` has one frame, the line of the
  program that added it; TensorFlow's has the whole stack, which would make building a graph slower
  by about a tenth. A reference (`Tensor.ref`) equals that of each other object for the same tensor.
  The shape that `set_shape` declares is checked for feeds whose first step comes later. There is no
  `Graph.get`, `operations`, `new_operations`, `num_operations` (`get_operations` has the list),
  `switch_to_thread_local` (scopes belong to the graph) or `Dismantle`, no
  `Operation.from_node_def` (`Graph.from_graph_def` takes messages) or `experimental_set_type`, and
  no `Tensor.experimental_ref` or `OVERLOADABLE_OPERATORS`. `Graph.op_def_for_type` of an unknown op
  is `NotFound`, in TensorFlow `RuntimeError`.
- **Log of placement**: `log_device_placement` lists the nodes that a step runs, when it is first
  prepared, with the reason; TensorFlow lists the nodes of the whole graph.
- **Checks of shapes when a node is added**: TensorFlow refuses some nodes only because a size or a
  value is still unknown (`BatchToSpaceND`, `EnsureShape`, `FusedPadConv2D`, `MatrixDiagV3`,
  `RaggedTensorToTensor`, `SpaceToBatchND`, `TensorListScatterV2`); here they run. A few wrong
  shapes and values are refused when a node is added; TensorFlow refuses them when it runs (`Slice`,
  `StridedSlice`, `TensorScatterUpdate` and its relatives, `OneHot`, `Substr`).
- **Missing checks**: where TensorFlow does not check a shape, index or option and reads out of
  bounds (gradients of pools, updates of variables, rows of sparse tensors, unknown modes of
  `ImageProjectiveTransformV3`), graphmill raises `InvalidArgument`. Outputs that TensorFlow leaves
  uninitialized are zero.
- **`SdcaOptimizer`** takes the examples in a random order, like TensorFlow, but in one thread. With
  adaptive sampling, examples that were not drawn follow by their importance; TensorFlow takes the
  first example in their place.
- **`CalibrationStatisticsSaver`** replaces its file after each step, and **`DebugIdentityV2`**
  writes the tensors of its circular buffer when the session is closed. TensorFlow writes the first
  when it drops the kernel, and the second when its Python debugger flushes them.
- **`SparseMatrixOrderingAMD`** orders rows by their exact degree. TensorFlow estimates it, so ties
  and some rows come in another order; the Cholesky factor has about as many values.
- **`CombinedNonMaxSuppression`** keeps the order of boxes with equal scores; TensorFlow's sort is
  not stable.

## Differences by rounding

Results may differ within the tolerances of `core/graphmill/testing/tolerances.toml`, which are in
units of the type's epsilon, with a reason for each group of ops.

- **Subnormal numbers**: TensorFlow's threads flush them to zero, NumPy does not. Quotients that
  small are rounded down here.
- **Random ops** with a seed give TensorFlow's own numbers. [The page of ops](../reference/ops.md)
  lists the few that differ in the last bit.
- **`float16`**: means, norms and products are computed in `float32`. TensorFlow computes them in
  `float16`, where a sum beyond 65504 is infinite.
- **Signed zeros**: `Unique` and `ListDiff` treat the two zeros of narrow floats as equal. Sums,
  products and means whose terms are all zero may be a zero of the other sign.
- **NaN and infinity**: if both occur in a sum, a matrix product or an extremum, the result depends
  on the order of operations and the width of vectors. So does that of `MaxPool`, `TopKV2`,
  `NthElement` and the extrema of sorted segments with NaN, and of a product of complex numbers that
  are not finite. Which part of a function of a complex number is NaN, if one of its parts is not
  finite, depends on that as well, and compiled code may make both parts NaN. TensorFlow's logarithm
  of several complex numbers is NaN where their square overflows. A row of `Softmax` in `float32`
  with NaN or positive infinity is all NaN, as TensorFlow's is in other types; with oneDNN, its
  default on x86, the other elements are zero. `ReluGrad` and similar ops multiply, so NaN stays
  NaN. The range of `QuantizeAndDequantizeV2` is that of the numbers beside NaN; in TensorFlow, NaN
  is left out as well unless it ends the input. Kernels of JAX devices spread NaN and infinity over
  the rows and columns of a resized image. `Erf` of a `float64` far from zero is 1 or -1; TensorFlow
  2.21 gives NaN.
- **`Cast`** of a number out of range of an 8-bit or 16-bit integer keeps the low bits of its 32-bit
  value. TensorFlow does so for some elements, and takes the limit of the type for those that it
  converts several at a time.
- **`Zeta` and `Polygamma`** of a `float32` below -9: TensorFlow stops summing after nine terms, and
  its results are wrong.
- **Eigenvectors and singular vectors** are determined only up to their sign or phase, which may
  differ from TensorFlow's. Eigenvalues of non-symmetric real matrices may come in another order.
- **JPEG and PNG**: the pixels of a JPEG are TensorFlow's, bit for bit, if its colours are not
  subsampled. If they are, Pillow can either smooth them after an accurate cosine transform, or
  leave them as they are after a fast one. TensorFlow's default is to smooth them after a fast
  transform, which differs by one or two of 255 in smooth images, and by up to ten in noisy ones;
  so does `fancy_upscaling=False` with `dct_method="INTEGER_ACCURATE"`. A JPEG with fewer pixels on
  a side than `ratio` is `Unimplemented`. The bytes of an encoded PNG depend on the version of zlib;
  its pixels do not.
- **Division of complex numbers** by zero or infinity, also in `DivNoNan`, gives NumPy's infinity or
  zero. TensorFlow gives NaN where it divides several numbers at a time, and infinity for the rest.
- **Rounding to integers**: compiled code may differ by one where `ImageProjectiveTransformV3`
  interpolates integers, because it truncates a sum whose last bit differs.
- **Cancellation**: rounding errors grow if a result is a small difference of large numbers, or if a
  gradient is cut at zero. Examples are the gradient of a bias before a batch normalization, which
  is zero except for rounding and of which Adam makes full-size steps, and `Relu6Grad` of a value
  that is zero except for rounding. TensorFlow's own results change as much if the last bit of its
  input changes.

## Other results

Cases in which the results of TensorFlow and graphmill differ on purpose.

| ops | TensorFlow | graphmill | why |
|---|---|---|---|
"""
SKIPPED = """
## Compiled code

Cases in which XLA's result differs from that of the interpreted op, or which XLA cannot run.

| ops | where | why |
|---|---|---|
"""
MISSING = """
## Ops without a kernel

A graph that needs one of these ops is refused before it runs; the error lists all missing ops. A
plugin can [add a kernel](../howto/kernel.md). TensorFlow's CPU build has kernels for these ops;
graphmill has none for these reasons:

"""
REST = """
These ops have no CPU kernel in TensorFlow either:

"""


def page(host: Host) -> str:
    """Return the page."""
    return "".join(
        [
            HEAD,
            *other_results(host),
            SKIPPED,
            *compiled(),
            MISSING,
            *unsupported(host),
            REST,
            *missing(host),
        ]
    )


def other_results(host: Host) -> list[str]:
    """Return a table row for each group of cases that differ for the same reason."""
    runner = SessionRunner(host)
    ops: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for case in load_cases():
        if not case.differs:
            continue
        theirs = stored_results(case.stem)[case.id].result
        try:
            ours = runner.run(case)
        except NotApplicableError:
            continue
        ops[outcome(theirs), outcome(ours), plain(case.differs)].add(case.op)
    return [
        f"| {names(ops_of_row)} | {theirs} | {ours} | {why} |\n"
        for (theirs, ours, why), ops_of_row in sorted(ops.items(), key=lambda item: min(item[1]))
    ]


def compiled() -> list[str]:
    """Return a table row for each reason why compiled code does not run some cases."""
    ops: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in load_cases():
        for backend, reason in case.skip.items():
            ops[plain(reason), backend].add(case.op)
    return [
        f"| {names(ops_of_row)} | {backend} | {reason} |\n"
        for (reason, backend), ops_of_row in sorted(ops.items())
    ]


def unsupported(host: Host) -> list[str]:
    """Return a line for each reason why ops of TensorFlow's CPU build have no kernel."""
    ops: dict[str, set[str]] = defaultdict(set)
    for op, reason in host.kernels.unsupported().items():
        ops[reason].add(op)
    return [f"- {names(ops_of_reason)}: {reason}.\n" for reason, ops_of_reason in ops.items()]


def missing(host: Host) -> list[str]:
    """Return a line for each family of public ops with neither a kernel nor a reason."""
    with_kernel = {*host.kernels.ops(), *host.kernels.unsupported()}
    families: dict[str, set[str]] = defaultdict(set)
    for name in host.ops.names():
        if name not in with_kernel and not name.startswith("_"):
            families[host.ops.get(name).family].add(name)
    return [
        f"- **{family}**: {names(ops_of_family)}\n"
        for family, ops_of_family in sorted(families.items())
    ]


def outcome(result: CaseResult | NotApplicableError) -> str:
    """Return the error class of a result, or "a value"."""
    error = getattr(result, "error", "")
    return f"`{error}`" if error else "a value"


def plain(text: str) -> str:
    """Return a reason on one line, without a period."""
    return " ".join(text.split()).rstrip(".").replace("|", "\\|")


def names(ops: set[str]) -> str:
    """Return the names sorted, as Markdown code."""
    return " ".join(f"`{op}`" for op in sorted(ops))
