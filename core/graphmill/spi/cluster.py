"""Servers and remote sessions: their factories, masters, workers, and clients.

    from graphmill.spi.cluster import ServerFactory, SessionFactory

A plugin that adds a protocol besides gRPC implements these two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.cli.options import Settings as Settings
    from graphmill.cli.options import common_options as common_options
    from graphmill.cli.output.formatting import Table as Table
    from graphmill.cli.output.formatting import emit as emit
    from graphmill.distributed.cluster_change import ClusterChange as ClusterChange
    from graphmill.distributed.cluster_change import change_between as change_between
    from graphmill.distributed.cluster_resolver import ClusterResolver as ClusterResolver
    from graphmill.distributed.cluster_resolver import ClusterSpec as ClusterSpec
    from graphmill.distributed.cluster_resolver import (
        SimpleClusterResolver as SimpleClusterResolver,
    )
    from graphmill.distributed.cluster_resolver import (
        TFConfigClusterResolver as TFConfigClusterResolver,
    )
    from graphmill.distributed.master.cluster_session import ClusterSession as ClusterSession
    from graphmill.distributed.master.cluster_tasks import ClusterTasks as ClusterTasks
    from graphmill.distributed.master.local_worker import LocalWorker as LocalWorker
    from graphmill.distributed.master.worker_interface import WorkerInterface as WorkerInterface
    from graphmill.distributed.server import Server as Server
    from graphmill.distributed.worker.peers import Peer as Peer
    from graphmill.distributed.worker.peers import Peers as Peers
    from graphmill.distributed.worker.step_call import StepCall as StepCall
    from graphmill.distributed.worker.step_call import StepResult as StepResult
    from graphmill.distributed.worker.worker import Worker as Worker
    from graphmill.explain.tiers import calls_by_tier as calls_by_tier
    from graphmill.graph.failed_operation import set_failed_operation as set_failed_operation
    from graphmill.graph.formats.import_export import extend_graph as extend_graph
    from graphmill.graph.formats.import_export import graph_to_graph_def as graph_to_graph_def
    from graphmill.graph.graph import output_type as output_type
    from graphmill.graph.node import find_node as find_node
    from graphmill.graph.node import find_tensor as find_tensor
    from graphmill.graph.node import parse_tensor_name as parse_tensor_name
    from graphmill.lowering.policies.effects_policy import policy_of as policy_of
    from graphmill.lowering.policies.effects_policy import server_policy_of as server_policy_of
    from graphmill.runtime.devices.device_mgr import DeviceMgr as DeviceMgr
    from graphmill.runtime.server_interface import ServerFactory as ServerFactory
    from graphmill.runtime.server_interface import ServerInterface as ServerInterface
    from graphmill.runtime.session_interface import SessionFactory as SessionFactory
    from graphmill.runtime.session_interface import SessionInterface as SessionInterface
    from graphmill.session.direct_session import DirectSession as DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys as ExecutorsAndKeys
    from graphmill.session.executors_cache import Signature as Signature
    from graphmill.session.options import as_message as as_message
    from graphmill.session.options import copy_message as copy_message
    from graphmill.session.session_devices import create_devices as create_devices
    from graphmill.session.steps.feeds import feed_converter as feed_converter
    from graphmill.session.steps.feeds import inferred_shape as inferred_shape
    from graphmill.session.steps.feeds import static_shape as static_shape
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.cli.options": "Settings common_options",
            "graphmill.cli.output.formatting": "Table emit",
            "graphmill.distributed.cluster_change": "ClusterChange change_between",
            "graphmill.distributed.cluster_resolver": (
                "ClusterResolver ClusterSpec SimpleClusterResolver TFConfigClusterResolver"
            ),
            "graphmill.distributed.server": "Server",
            "graphmill.distributed.master.cluster_session": "ClusterSession",
            "graphmill.distributed.master.cluster_tasks": "ClusterTasks",
            "graphmill.distributed.master.local_worker": "LocalWorker",
            "graphmill.distributed.master.worker_interface": "WorkerInterface",
            "graphmill.distributed.worker.peers": "Peer Peers",
            "graphmill.distributed.worker.step_call": "StepCall StepResult",
            "graphmill.distributed.worker.worker": "Worker",
            "graphmill.explain.tiers": "calls_by_tier",
            "graphmill.graph.failed_operation": "set_failed_operation",
            "graphmill.graph.graph": "output_type",
            "graphmill.graph.formats.import_export": "extend_graph graph_to_graph_def",
            "graphmill.graph.node": "find_node find_tensor parse_tensor_name",
            "graphmill.lowering.policies.effects_policy": "policy_of server_policy_of",
            "graphmill.runtime.devices.device_mgr": "DeviceMgr",
            "graphmill.runtime.server_interface": "ServerFactory ServerInterface",
            "graphmill.runtime.session_interface": "SessionFactory SessionInterface",
            "graphmill.session.direct_session": "DirectSession",
            "graphmill.session.executors_cache": "ExecutorsAndKeys Signature",
            "graphmill.session.steps.feeds": "feed_converter inferred_shape static_shape",
            "graphmill.session.options": "as_message copy_message",
            "graphmill.session.session_devices": "create_devices",
        },
    )
