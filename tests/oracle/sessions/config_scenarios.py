"""Scenarios that show the effect of each acting configuration field in either system.

A scenario is a function of a `Runtime`; its result is the same in both systems, and differs from
the result without the field. `UNCOMPARED` has the fields without one, with the reason.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.oracle.sessions.runtimes import Runtime, graph_bytes, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    Scenario = Callable[[Runtime], Any]

SCENARIOS: Final[dict[tuple[str, str], Scenario]] = {}

ONE: Final = "one = Const(dtype=float32, value='float32: 1')"
SUM: Final = (ONE, "two = Const(dtype=float32, value='float32: 2')", "sum = AddV2(one, two)")
QUEUE: Final = (
    "queue = FIFOQueueV2(component_types=[float32])",
    "get = QueueDequeueV2(queue, component_types=[float32])",
)
X: Final = {"x": "float32: 0"}
PLAIN: Final = {
    "graphOptions": {
        "optimizerOptions": {"optLevel": "L0"},
        "rewriteOptions": {"disableMetaOptimizer": True},
    }
}
CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"


def shows(*paths: str, message: str = "ConfigProto") -> Callable[[Scenario], Scenario]:
    """Declare the fields whose effect a scenario shows."""

    def register(scenario: Scenario) -> Scenario:
        for path in paths:
            SCENARIOS[message, path] = scenario
        return scenario

    return register


def placed(node: str, device: str) -> Callable[[Runtime, dict[str, Any]], Any]:
    """Return a function that runs the sum with one node on a device."""

    def run(runtime: Runtime, config: dict[str, Any]) -> Any:
        from graphmill import proto

        made = proto.GraphDef.FromString(graph_bytes((*SUM, "other = Neg(one)"), {}))
        for one in made.node:
            if one.name == node:
                one.device = device
        graph = runtime.api.Graph()
        runtime.import_nodes(graph, made.SerializeToString())

        def result() -> Any:
            with runtime.session(graph, config) as session:
                return session.run("sum:0")

        return outcome(result)

    return run


@shows("device_count")
def device_count(runtime: Runtime) -> Any:
    with runtime.session_of(SUM, {"deviceCount": {"CPU": 3}}) as session:
        return [one.name for one in session.list_devices() if one.device_type == "CPU"]


@shows("allow_soft_placement")
def allow_soft_placement(runtime: Runtime) -> Any:
    run = placed("sum", "/device:CPU:7")
    return [run(runtime, {"allowSoftPlacement": soft}) for soft in (False, True)]


@shows("graph_options.place_pruned_graph")
def place_pruned_graph(runtime: Runtime) -> Any:
    run = placed("other", "/device:CPU:7")
    return [run(runtime, {"graphOptions": {"placePrunedGraph": on}}) for on in (False, True)]


@shows("session_inter_op_thread_pool.num_threads")
@shows("inter_op_thread_pool", message="RunOptions")
def thread_pools(runtime: Runtime) -> Any:
    config = {"sessionInterOpThreadPool": [{"numThreads": 1}, {"numThreads": 2}]}
    return [runtime.run(SUM, "sum:0", config, interOpThreadPool=n) for n in (-1, 0, 1, 2, -2)]


@shows("operation_timeout_in_ms")
def operation_timeout(runtime: Runtime) -> Any:
    return runtime.run(QUEUE, "get:0", {"operationTimeoutInMs": 50})


@shows("isolate_session_state")
def isolated_sessions(runtime: Runtime) -> Any:
    nodes = (
        ONE,
        "v = VarHandleOp(dtype=float32, shape=[], shared_name='v')",
        "set = AssignVariableOp(v, one)",
        "ready = VarIsInitializedOp(v)",
    )
    server = runtime.server()
    found = []
    with runtime.session(runtime.graph(nodes), {}, server.target) as session:
        session.run("set")
        for isolate in (False, True):
            config = {"isolateSessionState": isolate}
            with runtime.session(runtime.graph(nodes), config, server.target) as other:
                found.append(bool(other.run("ready:0")))
    return found


@shows("graph_options.build_cost_model", "graph_options.build_cost_model_after")
def cost_models(runtime: Runtime) -> Any:
    found = []
    config = {"graphOptions": {"buildCostModel": "2", "buildCostModelAfter": "1"}}
    with runtime.session_of(SUM, config) as session:
        for _ in range(7):
            metadata = runtime.messages.RunMetadata()
            session.run("sum:0", run_metadata=metadata)
            found.append(len(metadata.cost_graph.node) > 0)
    return found


def optimized(options: dict[str, Any] | None, rewrites: dict[str, Any] | None) -> dict[str, Any]:
    """Return a config with optimizer options, or with options of rewrites."""
    graph_options: dict[str, Any] = {"optimizerOptions": {"optLevel": "L0", **(options or {})}}
    graph_options["rewriteOptions"] = {
        "minGraphNodes": -1,
        **(rewrites or {"disableMetaOptimizer": True}),
    }
    return {"graphOptions": graph_options}


@shows(
    "graph_options.optimizer_options.opt_level",
    "graph_options.optimizer_options.do_constant_folding",
    "graph_options.rewrite_options.disable_meta_optimizer",
)
def folding(runtime: Runtime) -> Any:
    nodes = (*SUM, "y = Mul(x, sum)")
    # With only one of both options TensorFlow's other optimizer folds.
    configs = [optimized({}, None), {}, optimized({"doConstantFolding": True}, None)]
    return ["AddV2" in runtime.ops_run(nodes, "y:0", config, X, {"x:0": 1.0}) for config in configs]


@shows("graph_options.optimizer_options.max_folded_constant_in_bytes")
def folding_of_large_values(runtime: Runtime) -> Any:
    nodes = (
        "size = Const(dtype=int32, value='int32: [100]')",
        "zero = Const(dtype=float32, value='float32: 7')",
        "many = Fill(size, zero)",
        "y = Mul(x, many)",
    )
    limits = [{"maxFoldedConstantInBytes": "100"}, {}]
    configs = [optimized({"doConstantFolding": True, **limit}, None) for limit in limits]
    return ["Fill" in runtime.ops_run(nodes, "y:0", one, X, {"x:0": 1.0}) for one in configs]


@shows("graph_options.optimizer_options.do_common_subexpression_elimination")
def merging(runtime: Runtime) -> Any:
    nodes = ("a = Neg(x)", "b = Neg(x)", "y = Mul(a, b)")
    configs = [optimized({}, None), optimized({"doCommonSubexpressionElimination": True}, None)]
    found = [runtime.ops_run(nodes, "y:0", one, X, {"x:0": 1.0}) for one in configs]
    return [ops.count("Neg") for ops in found]


@shows("graph_options.rewrite_options.constant_folding")
def folding_by_rewrites(runtime: Runtime) -> Any:
    nodes = (*SUM, "y = Mul(x, sum)")
    configs = [
        optimized({"optLevel": level}, {"constantFolding": word})
        for level, word in (("L0", "OFF"), ("L1", "ON"))
    ]
    return ["AddV2" in runtime.ops_run(nodes, "y:0", one, X, {"x:0": 1.0}) for one in configs]


@shows("graph_options.rewrite_options.common_subgraph_elimination")
def merging_by_rewrites(runtime: Runtime) -> Any:
    nodes = ("a = Tanh(x)", "b = Tanh(x)", "y = AddV2(a, b)")
    found = []
    for level in ("OFF", "ON"):
        rewrites = {"commonSubgraphElimination": level, "arithmeticOptimization": "OFF"}
        config = optimized({}, rewrites)
        ops = runtime.ops_run(nodes, "y:0", config, X, {"x:0": 1.0})
        found.append(ops.count("Tanh"))
    return found


@shows("graph_options.rewrite_options.debug_stripper")
def debug_stripper(runtime: Runtime) -> Any:
    nodes = (
        *SUM,
        "no = Const(dtype=bool, value='bool: False')",
        "check = Assert(no, [one])",
        "y = Identity(sum, after=[check])",
    )
    configs = [optimized({}, {"debugStripper": level}) for level in ("OFF", "ON")]
    return [runtime.run(nodes, "y:0", config) for config in configs]


@shows("graph_options.rewrite_options.auto_mixed_precision_cpu")
def auto_mixed_precision_cpu(runtime: Runtime) -> Any:
    nodes = (
        "third = Const(dtype=float32, value='float32: [[0.333333]]')",
        "x = PlaceholderWithDefault(third, shape=[1, 1])",
        "product = MatMul(third, x)",
        "sum = AddV2(product, third)",
        "y = Identity(sum)",
    )
    found = []
    for toggle in ("OFF", "ON", "AGGRESSIVE"):
        config = optimized({}, {"autoMixedPrecisionCpu": toggle, "minGraphNodes": -1})
        found.append(runtime.run(nodes, "y:0", config))
    return found


@shows("graph_options.rewrite_options.optimizers")
def optimizers(runtime: Runtime) -> Any:
    nodes = (*SUM, "y = Mul(x, sum)")
    found = []
    for name in ("constfold", "dependency"):
        level = {"constfold": "L1", "dependency": "L0"}[name]
        rewrites = {"optimizers": [name], "metaOptimizerIterations": "ONE"}
        config = optimized({"optLevel": level}, rewrites)
        found.append("AddV2" in runtime.ops_run(nodes, "y:0", config, X, {"x:0": 1.0}))
    return found


@shows("experimental.executor_type")
def executor_type(runtime: Runtime) -> Any:
    names = ("", "DEFAULT", "SINGLE_THREADED_EXECUTOR", "no such executor")
    return [runtime.run(SUM, "sum:0", {"experimental": {"executorType": name}}) for name in names]


@shows("experimental.session_metadata.name", "experimental.session_metadata.version")
def session_metadata(runtime: Runtime) -> Any:
    def start(version: int) -> Any:
        named = {"name": "scenario", "version": str(version)}
        return runtime.session(runtime.graph(SUM), {"experimental": {"sessionMetadata": named}})

    with start(3) as session:
        metadata = runtime.messages.RunMetadata()
        session.run("sum:0", run_metadata=metadata)
        session_options = metadata.session_metadata
        return [
            session_options.name,
            session_options.version,
            outcome(lambda: start(3)),
            outcome(lambda: start(-1)),
        ]


@shows("experimental.disable_output_partition_graphs")
def partition_graphs_refused(runtime: Runtime) -> Any:
    config = {"experimental": {"disableOutputPartitionGraphs": True}}
    found = [runtime.run(SUM, "sum:0", config)]
    return [*found, runtime.run(SUM, "sum:0", config, outputPartitionGraphs=True)]


# --------------------------------------------------------------------------------- RunOptions


@shows("trace_level", message="RunOptions")
def trace_level(runtime: Runtime) -> Any:
    nodes = ("y = Neg(x)",)
    found = []
    for level in ("NO_TRACE", "SOFTWARE_TRACE", "FULL_TRACE"):
        metadata = runtime.messages.RunMetadata()
        with runtime.session_of(nodes, PLAIN, X) as session:
            options = runtime.message("RunOptions", {"traceLevel": level})
            session.run("y:0", {"x:0": 1.0}, options, metadata)
        stats = [one for part in metadata.step_stats.dev_stats for one in part.node_stats]
        found.append("y" in {one.node_name for one in stats})
    return found


@shows("timeout_in_ms", message="RunOptions")
def timeout(runtime: Runtime) -> Any:
    return runtime.run(QUEUE, "get:0", {}, timeoutInMs=50)


@shows("output_partition_graphs", message="RunOptions")
def partition_graphs(runtime: Runtime) -> Any:
    found = []
    for outputs_graphs in (False, True):
        options = {"outputPartitionGraphs": outputs_graphs}
        metadata = runtime.traced(SUM, "sum:0", PLAIN, options)
        names = {node.name for part in metadata.partition_graphs for node in part.node}
        found.append(sorted(names & {"one", "two", "sum"}))
    return found


@shows("debug_options.debug_tensor_watch_opts.*", message="RunOptions")
def watches(runtime: Runtime) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        watch = {
            "nodeName": "sum",
            "outputSlot": 0,
            "debugOps": ["DebugIdentity"],
            "debugUrls": [f"file://{folder}"],
        }
        options = {"debugOptions": {"debugTensorWatchOpts": [watch]}}
        found = runtime.run(SUM, "sum:0", PLAIN, **options)
        files = [path.name.rpartition("_")[0] for path in Path(folder).rglob("sum_*")]
    return [found, files]


# ------------------------------------------------------------------------------ CallableOptions


def called(runtime: Runtime, options: dict[str, Any], *values: float) -> Any:
    """Call a function of `CallableOptions` on the graph `y = -(x + 1)`."""
    import numpy as np

    nodes = (ONE, "inner = AddV2(x, one)", "y = Neg(inner)", "two = Neg(one)")
    with runtime.session_of(nodes, PLAIN, X) as session:
        message = runtime.message("CallableOptions", options)

        def call() -> Any:
            function = session._make_callable_from_options(message)
            return function(*map(np.float32, values))

        return outcome(call)


@shows("feed", "fetch", "target", message="CallableOptions")
def signature(runtime: Runtime) -> Any:
    return [
        called(runtime, {"feed": ["x:0"], "fetch": ["y:0", "inner:0"]}, 2),
        called(runtime, {"feed": ["inner:0"], "fetch": ["y:0"]}, 2),
        called(runtime, {"feed": ["x:0"], "target": ["y"]}, 2),
        called(runtime, {"fetch": ["y:0"]}),
        called(runtime, {"feed": ["x:0"], "fetch": ["x:0"]}, 2),
        called(runtime, {"feed": ["x:0"], "fetch": ["one:0"], "target": ["two"]}, 2),
    ]


@shows("run_options.*", message="CallableOptions")
def run_options(runtime: Runtime) -> Any:
    with runtime.session_of(QUEUE, {}) as session:
        options = {"fetch": ["get:0"], "runOptions": {"timeoutInMs": "50"}}
        message = runtime.message("CallableOptions", options)
        return outcome(session._make_callable_from_options(message))


@shows("tensor_connection.*", message="CallableOptions")
def connections(runtime: Runtime) -> Any:
    def joined(source: str, target: str) -> dict[str, Any]:
        connection = {"fromTensor": source, "toTensor": target}
        return {"feed": ["x:0"], "fetch": ["y:0"], "tensorConnection": [connection]}

    pairs = [("two:0", "inner:0"), ("y:0", "inner:0"), ("one:0", "x:0")]
    return [called(runtime, joined(*pair), 2) for pair in pairs]


@shows("feed_devices", "fetch_devices", message="CallableOptions")
def devices(runtime: Runtime) -> Any:
    def options(device: str) -> list[dict[str, Any]]:
        both: dict[str, Any] = {"feed": ["x:0"], "fetch": ["y:0"]}
        fetched = {**both, "fetchDevices": {"y:0": device}, "fetchSkipSync": True}
        return [{**both, "feedDevices": {"x:0": device}}, fetched]

    names = (CPU, CPU[:-1] + "7", "nonsense")
    return [called(runtime, one, 2) for name in names for one in options(name)]


@shows("fetch_skip_sync", message="CallableOptions")
def fetch_skip_sync(runtime: Runtime) -> Any:
    options = {"feed": ["x:0"], "fetch": ["y:0"], "fetchSkipSync": True}
    return called(runtime, options, 2)


_GPU = "needs a GPU; TensorFlow's package for CPUs has none"
_CLUSTER = "needs several tasks; tests/oracle/clusters compares them"
_SPEED = "changes speed only; the number of threads is not seen in a result"

_ONEDNN: Final = "needs oneDNN, which is off here; compared in test_mixed_precision_live.py"
UNCOMPARED: Final[dict[tuple[str, str], str]] = {
    ("ConfigProto", "log_device_placement"): "TensorFlow's C++ code writes the log",
    ("ConfigProto", "intra_op_parallelism_threads"): _SPEED,
    ("ConfigProto", "inter_op_parallelism_threads"): _SPEED,
    ("ConfigProto", "use_per_session_threads"): _SPEED,
    ("ConfigProto", "session_inter_op_thread_pool.global_name"): (
        "a pool shared with other threads changes speed only; other numbers of threads are errors"
        " here and not in TensorFlow, see the page of differences"
    ),
    ("ConfigProto", "experimental.optimize_for_static_graph"): (
        "TensorFlow 2.21 extends the graph nevertheless, see the page of differences"
    ),
    ("ConfigProto", "share_cluster_devices_in_session"): _CLUSTER,
    ("ConfigProto", "device_filters"): _CLUSTER,
    ("ConfigProto", "experimental.collective_group_leader"): _CLUSTER,
    ("ConfigProto", "cluster_def.job.name"): _CLUSTER,
    ("ConfigProto", "cluster_def.job.tasks"): _CLUSTER,
    ("ConfigProto", "rpc_options.compression_algorithm"): "changes bytes on the wire only",
    ("ConfigProto", "gpu_options.visible_device_list"): _GPU,
    ("ConfigProto", "gpu_options.allow_growth"): _GPU,
    ("ConfigProto", "gpu_options.per_process_gpu_memory_fraction"): _GPU,
    ("ConfigProto", "graph_options.enable_bfloat16_sendrecv"): _CLUSTER,
    ("ConfigProto", "graph_options.enable_recv_scheduling"): _CLUSTER,
    ("ConfigProto", "graph_options.optimizer_options.global_jit_level"): (
        "the systems choose what they compile by different rules; results are equal"
    ),
    ("ConfigProto", "graph_options.optimizer_options.do_function_inlining"): (
        "the names and ops of an inlined body are each system's own"
    ),
    ("ConfigProto", "graph_options.rewrite_options.function_optimization"): (
        "the names and ops of an inlined body are each system's own"
    ),
    ("ConfigProto", "graph_options.rewrite_options.dependency_optimization"): (
        "which Identity nodes remain for control edges is each system's own"
    ),
    ("ConfigProto", "graph_options.rewrite_options.auto_mixed_precision"): _GPU,
    ("ConfigProto", "graph_options.rewrite_options.auto_mixed_precision_mkl"): _ONEDNN,
    ("ConfigProto", "graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16"): _ONEDNN,
    ("ConfigProto", "graph_options.rewrite_options.custom_optimizers.name"): (
        "a plugin of graphmill; TensorFlow's are shared libraries"
    ),
    ("ConfigProto", "graph_options.rewrite_options.custom_optimizers.parameter_map"): (
        "a plugin of graphmill; TensorFlow's are shared libraries"
    ),
    ("ConfigProto", "experimental.share_cluster_devices_in_session"): _CLUSTER,
    ("ConfigProto", "graphmill.*"): "graphmill's own",
    ("RunOptions", "debug_options.global_step"): (
        "part of metadata that TensorFlow's Python client writes, not its session"
    ),
    ("RunOptions", "debug_options.reset_disk_byte_usage"): (
        "TensorFlow counts for the whole process, which has had other watches"
    ),
    ("RunOptions", "experimental.collective_graph_key"): _CLUSTER,
    ("RunOptions", "report_tensor_allocations_upon_oom"): "needs a step that exhausts memory",
}
"""Fields that act, and whose effect is not compared live, with the reason."""
