"""Where each message and enum lives.

Made by tools/make_protos.py from the .proto files: do not edit.
"""

# ruff: noqa: E501, I001
# fmt: off
from __future__ import annotations

TYPE_CHECKING = False

MODULE_OF: dict[str, str] = {
    "AllocationDescription": "allocation_description_pb2",
    "AllocationRecord": "step_stats_pb2",
    "AllocatorMemoryUsed": "step_stats_pb2",
    "AssetFileDef": "meta_graph_pb2",
    "AttrValue": "attr_value_pb2",
    "AutoParallelOptions": "rewriter_config_pb2",
    "BatchingOptions": "config_pb2",
    "BoundedTensorSpecProto": "struct_pb2",
    "BundleEntryProto": "tensor_bundle_pb2",
    "BundleHeaderProto": "tensor_bundle_pb2",
    "BytesList": "feature_pb2",
    "CalibrationStatistics": "calibration_statistics_pb2",
    "CalibrationStatisticsMap": "calibration_statistics_pb2",
    "CallableOptions": "config_pb2",
    "CapturedTensor": "saved_object_graph_pb2",
    "CheckpointState": "checkpoint_state_pb2",
    "ChunkInfo": "chunk_pb2",
    "ChunkMetadata": "chunk_pb2",
    "ChunkedField": "chunk_pb2",
    "ChunkedMessage": "chunk_pb2",
    "CleanupAllRequest": "worker_pb2",
    "CleanupAllResponse": "worker_pb2",
    "CleanupGraphRequest": "worker_pb2",
    "CleanupGraphResponse": "worker_pb2",
    "CloseSessionRequest": "master_pb2",
    "CloseSessionResponse": "master_pb2",
    "ClusterDef": "cluster_pb2",
    "ClusterDeviceFilters": "device_filters_pb2",
    "Code": "error_codes_pb2",
    "CodeLocation": "debug_event_pb2",
    "CollectionDef": "meta_graph_pb2",
    "CompleteGroupRequest": "worker_pb2",
    "CompleteGroupResponse": "worker_pb2",
    "CompleteInstanceRequest": "worker_pb2",
    "CompleteInstanceResponse": "worker_pb2",
    "CondContextDef": "control_flow_pb2",
    "ConfigProto": "config_pb2",
    "ControlFlowContextDef": "control_flow_pb2",
    "CoordinatedJob": "coordination_config_pb2",
    "CoordinationServiceConfig": "coordination_config_pb2",
    "CostGraphDef": "cost_graph_pb2",
    "CreateSessionRequest": "master_pb2",
    "CreateSessionResponse": "master_pb2",
    "CreateWorkerSessionRequest": "worker_pb2",
    "CreateWorkerSessionResponse": "worker_pb2",
    "DataClass": "summary_pb2",
    "DataType": "types_pb2",
    "DebugEvent": "debug_event_pb2",
    "DebugMetadata": "debug_event_pb2",
    "DebugOptions": "debug_pb2",
    "DebugTensorWatch": "debug_pb2",
    "DebuggedDevice": "debug_event_pb2",
    "DebuggedGraph": "debug_event_pb2",
    "DebuggedSourceFile": "debug_pb2",
    "DebuggedSourceFiles": "debug_pb2",
    "DeleteWorkerSessionRequest": "worker_pb2",
    "DeleteWorkerSessionResponse": "worker_pb2",
    "DeregisterGraphRequest": "worker_pb2",
    "DeregisterGraphResponse": "worker_pb2",
    "DeviceAttributes": "device_attributes_pb2",
    "DeviceLocality": "device_attributes_pb2",
    "DeviceProperties": "device_properties_pb2",
    "DeviceStepStats": "step_stats_pb2",
    "DictValue": "struct_pb2",
    "Event": "event_pb2",
    "Example": "example_pb2",
    "Execution": "debug_event_pb2",
    "ExecutorOpts": "worker_pb2",
    "ExtendSessionRequest": "master_pb2",
    "ExtendSessionResponse": "master_pb2",
    "Feature": "feature_pb2",
    "FeatureList": "feature_pb2",
    "FeatureLists": "feature_pb2",
    "Features": "feature_pb2",
    "FieldIndex": "chunk_pb2",
    "FingerprintDef": "fingerprint_pb2",
    "FloatList": "feature_pb2",
    "FullTypeDef": "full_type_pb2",
    "FullTypeId": "full_type_pb2",
    "FunctionDef": "function_pb2",
    "FunctionDefLibrary": "function_pb2",
    "FunctionSpec": "saved_object_graph_pb2",
    "GPUOptions": "config_pb2",
    "GetStatusRequest": "worker_pb2",
    "GetStatusResponse": "worker_pb2",
    "GetStepSequenceRequest": "worker_pb2",
    "GetStepSequenceResponse": "worker_pb2",
    "GradientDef": "function_pb2",
    "GraphDebugInfo": "graph_debug_info_pb2",
    "GraphDef": "graph_pb2",
    "GraphExecutionTrace": "debug_event_pb2",
    "GraphOpCreation": "debug_event_pb2",
    "GraphOptions": "config_pb2",
    "GraphmillOptions": "config_pb2",
    "HistogramProto": "histogram_pb2",
    "Int64List": "feature_pb2",
    "InterconnectLink": "device_attributes_pb2",
    "JobDef": "cluster_pb2",
    "JobDeviceFilters": "device_filters_pb2",
    "KernelDef": "kernel_def_pb2",
    "KernelList": "kernel_def_pb2",
    "LabeledStepStats": "worker_pb2",
    "ListDevicesRequest": "master_pb2",
    "ListDevicesResponse": "master_pb2",
    "ListValue": "struct_pb2",
    "LocalLinks": "device_attributes_pb2",
    "LogMessage": "event_pb2",
    "LoggingRequest": "worker_pb2",
    "LoggingResponse": "worker_pb2",
    "MakeCallableRequest": "master_pb2",
    "MakeCallableResponse": "master_pb2",
    "MarkRecvFinishedRequest": "worker_pb2",
    "MarkRecvFinishedResponse": "worker_pb2",
    "MemoryLogRawAllocation": "log_memory_pb2",
    "MemoryLogRawDeallocation": "log_memory_pb2",
    "MemoryLogStep": "log_memory_pb2",
    "MemoryLogTensorAllocation": "log_memory_pb2",
    "MemoryLogTensorDeallocation": "log_memory_pb2",
    "MemoryLogTensorOutput": "log_memory_pb2",
    "MemoryStats": "step_stats_pb2",
    "MetaGraphDef": "meta_graph_pb2",
    "NameAttrList": "attr_value_pb2",
    "NamedDevice": "device_properties_pb2",
    "NamedTensorProto": "named_tensor_pb2",
    "NamedTupleValue": "struct_pb2",
    "NodeDef": "node_def_pb2",
    "NodeExecStats": "step_stats_pb2",
    "NodeOutput": "step_stats_pb2",
    "NoneValue": "struct_pb2",
    "OpDef": "op_def_pb2",
    "OpDeprecation": "op_def_pb2",
    "OpList": "op_def_pb2",
    "OptimizerOptions": "config_pb2",
    "PairValue": "struct_pb2",
    "PartialRunSetupRequest": "master_pb2",
    "PartialRunSetupResponse": "master_pb2",
    "QueueRunnerDef": "queue_runner_pb2",
    "RPCOptions": "rpc_options_pb2",
    "RecvBufRequest": "worker_pb2",
    "RecvBufRespExtra": "transport_options_pb2",
    "RecvBufResponse": "worker_pb2",
    "RecvTensorRequest": "worker_pb2",
    "RecvTensorResponse": "worker_pb2",
    "RegisterGraphRequest": "worker_pb2",
    "RegisterGraphResponse": "worker_pb2",
    "RegisteredGradient": "function_pb2",
    "RegisteredSaver": "trackable_object_graph_pb2",
    "ReleaseCallableRequest": "master_pb2",
    "ReleaseCallableResponse": "master_pb2",
    "RequestedExitCode": "event_pb2",
    "ResetRequest": "master_pb2",
    "ResetResponse": "master_pb2",
    "ResourceHandleProto": "resource_handle_pb2",
    "RewriterConfig": "rewriter_config_pb2",
    "RunCallableRequest": "master_pb2",
    "RunCallableResponse": "master_pb2",
    "RunGraphRequest": "worker_pb2",
    "RunGraphResponse": "worker_pb2",
    "RunMetadata": "config_pb2",
    "RunOptions": "config_pb2",
    "RunStepRequest": "master_pb2",
    "RunStepResponse": "master_pb2",
    "SaveSliceInfoDef": "variable_pb2",
    "SaveableObject": "saved_object_graph_pb2",
    "SavedAsset": "saved_object_graph_pb2",
    "SavedBareConcreteFunction": "saved_object_graph_pb2",
    "SavedConcreteFunction": "saved_object_graph_pb2",
    "SavedConstant": "saved_object_graph_pb2",
    "SavedFunction": "saved_object_graph_pb2",
    "SavedModel": "saved_model_pb2",
    "SavedObject": "saved_object_graph_pb2",
    "SavedObjectGraph": "saved_object_graph_pb2",
    "SavedResource": "saved_object_graph_pb2",
    "SavedSlice": "saved_tensor_slice_pb2",
    "SavedSliceMeta": "saved_tensor_slice_pb2",
    "SavedTensorSliceMeta": "saved_tensor_slice_pb2",
    "SavedTensorSlices": "saved_tensor_slice_pb2",
    "SavedUserObject": "saved_object_graph_pb2",
    "SavedVariable": "saved_object_graph_pb2",
    "SaverDef": "saver_pb2",
    "ScopedAllocatorOptions": "rewriter_config_pb2",
    "SequenceExample": "example_pb2",
    "SerializedDType": "types_pb2",
    "ServerDef": "tensorflow_server_pb2",
    "SessionLog": "event_pb2",
    "SessionMetadata": "config_pb2",
    "SharedMemory": "tensor_transfer_pb2",
    "SignatureDef": "meta_graph_pb2",
    "SourceFile": "debug_event_pb2",
    "SourceMetadata": "event_pb2",
    "StackFrameWithId": "debug_event_pb2",
    "StatusProto": "status_pb2",
    "StepSequence": "worker_pb2",
    "StepStats": "step_stats_pb2",
    "StructuredValue": "struct_pb2",
    "Summary": "summary_pb2",
    "SummaryDescription": "summary_pb2",
    "SummaryMetadata": "summary_pb2",
    "TaggedRunMetadata": "event_pb2",
    "TaskDeviceFilters": "device_filters_pb2",
    "TensorConnection": "config_pb2",
    "TensorDebugMode": "debug_event_pb2",
    "TensorDescription": "tensor_description_pb2",
    "TensorInfo": "meta_graph_pb2",
    "TensorProto": "tensor_pb2",
    "TensorShapeProto": "tensor_shape_pb2",
    "TensorSliceProto": "tensor_slice_pb2",
    "TensorSpecProto": "struct_pb2",
    "TensorTransferRequest": "tensor_transfer_pb2",
    "TensorTransferResponse": "tensor_transfer_pb2",
    "ThreadPoolOptionProto": "config_pb2",
    "TraceOpts": "worker_pb2",
    "TracingRequest": "worker_pb2",
    "TracingResponse": "worker_pb2",
    "TrackableObjectGraph": "trackable_object_graph_pb2",
    "TupleValue": "struct_pb2",
    "TypeSpecProto": "struct_pb2",
    "ValuesDef": "control_flow_pb2",
    "VariableAggregation": "variable_pb2",
    "VariableDef": "variable_pb2",
    "VariableSynchronization": "variable_pb2",
    "VariantTensorDataProto": "tensor_pb2",
    "VerifierConfig": "verifier_config_pb2",
    "VersionDef": "versions_pb2",
    "WatchdogConfig": "event_pb2",
    "WhileContextDef": "control_flow_pb2",
    "WorkerHealth": "event_pb2",
    "WorkerHeartbeatRequest": "event_pb2",
    "WorkerHeartbeatResponse": "event_pb2",
    "WorkerShutdownMode": "event_pb2",
}

if TYPE_CHECKING:
    from graphmill.proto import allocation_description_pb2 as allocation_description_pb2
    from graphmill.proto import attr_value_pb2 as attr_value_pb2
    from graphmill.proto import calibration_statistics_pb2 as calibration_statistics_pb2
    from graphmill.proto import checkpoint_state_pb2 as checkpoint_state_pb2
    from graphmill.proto import chunk_pb2 as chunk_pb2
    from graphmill.proto import cluster_pb2 as cluster_pb2
    from graphmill.proto import config_pb2 as config_pb2
    from graphmill.proto import control_flow_pb2 as control_flow_pb2
    from graphmill.proto import coordination_config_pb2 as coordination_config_pb2
    from graphmill.proto import cost_graph_pb2 as cost_graph_pb2
    from graphmill.proto import debug_event_pb2 as debug_event_pb2
    from graphmill.proto import debug_pb2 as debug_pb2
    from graphmill.proto import device_attributes_pb2 as device_attributes_pb2
    from graphmill.proto import device_filters_pb2 as device_filters_pb2
    from graphmill.proto import device_properties_pb2 as device_properties_pb2
    from graphmill.proto import error_codes_pb2 as error_codes_pb2
    from graphmill.proto import event_pb2 as event_pb2
    from graphmill.proto import example_pb2 as example_pb2
    from graphmill.proto import feature_pb2 as feature_pb2
    from graphmill.proto import fingerprint_pb2 as fingerprint_pb2
    from graphmill.proto import full_type_pb2 as full_type_pb2
    from graphmill.proto import function_pb2 as function_pb2
    from graphmill.proto import graph_debug_info_pb2 as graph_debug_info_pb2
    from graphmill.proto import graph_pb2 as graph_pb2
    from graphmill.proto import histogram_pb2 as histogram_pb2
    from graphmill.proto import kernel_def_pb2 as kernel_def_pb2
    from graphmill.proto import log_memory_pb2 as log_memory_pb2
    from graphmill.proto import master_pb2 as master_pb2
    from graphmill.proto import meta_graph_pb2 as meta_graph_pb2
    from graphmill.proto import named_tensor_pb2 as named_tensor_pb2
    from graphmill.proto import node_def_pb2 as node_def_pb2
    from graphmill.proto import op_def_pb2 as op_def_pb2
    from graphmill.proto import queue_runner_pb2 as queue_runner_pb2
    from graphmill.proto import resource_handle_pb2 as resource_handle_pb2
    from graphmill.proto import rewriter_config_pb2 as rewriter_config_pb2
    from graphmill.proto import rpc_options_pb2 as rpc_options_pb2
    from graphmill.proto import saved_model_pb2 as saved_model_pb2
    from graphmill.proto import saved_object_graph_pb2 as saved_object_graph_pb2
    from graphmill.proto import saved_tensor_slice_pb2 as saved_tensor_slice_pb2
    from graphmill.proto import saver_pb2 as saver_pb2
    from graphmill.proto import splitter_versions_pb2 as splitter_versions_pb2
    from graphmill.proto import status_pb2 as status_pb2
    from graphmill.proto import step_stats_pb2 as step_stats_pb2
    from graphmill.proto import struct_pb2 as struct_pb2
    from graphmill.proto import summary_pb2 as summary_pb2
    from graphmill.proto import tensor_bundle_pb2 as tensor_bundle_pb2
    from graphmill.proto import tensor_description_pb2 as tensor_description_pb2
    from graphmill.proto import tensor_pb2 as tensor_pb2
    from graphmill.proto import tensor_shape_pb2 as tensor_shape_pb2
    from graphmill.proto import tensor_slice_pb2 as tensor_slice_pb2
    from graphmill.proto import tensor_transfer_pb2 as tensor_transfer_pb2
    from graphmill.proto import tensorflow_server_pb2 as tensorflow_server_pb2
    from graphmill.proto import trackable_object_graph_pb2 as trackable_object_graph_pb2
    from graphmill.proto import transport_options_pb2 as transport_options_pb2
    from graphmill.proto import types_pb2 as types_pb2
    from graphmill.proto import variable_pb2 as variable_pb2
    from graphmill.proto import verifier_config_pb2 as verifier_config_pb2
    from graphmill.proto import versions_pb2 as versions_pb2
    from graphmill.proto import worker_pb2 as worker_pb2
    from graphmill.proto.allocation_description_pb2 import AllocationDescription as AllocationDescription
    from graphmill.proto.step_stats_pb2 import AllocationRecord as AllocationRecord
    from graphmill.proto.step_stats_pb2 import AllocatorMemoryUsed as AllocatorMemoryUsed
    from graphmill.proto.meta_graph_pb2 import AssetFileDef as AssetFileDef
    from graphmill.proto.attr_value_pb2 import AttrValue as AttrValue
    from graphmill.proto.rewriter_config_pb2 import AutoParallelOptions as AutoParallelOptions
    from graphmill.proto.config_pb2 import BatchingOptions as BatchingOptions
    from graphmill.proto.struct_pb2 import BoundedTensorSpecProto as BoundedTensorSpecProto
    from graphmill.proto.tensor_bundle_pb2 import BundleEntryProto as BundleEntryProto
    from graphmill.proto.tensor_bundle_pb2 import BundleHeaderProto as BundleHeaderProto
    from graphmill.proto.feature_pb2 import BytesList as BytesList
    from graphmill.proto.calibration_statistics_pb2 import CalibrationStatistics as CalibrationStatistics
    from graphmill.proto.calibration_statistics_pb2 import CalibrationStatisticsMap as CalibrationStatisticsMap
    from graphmill.proto.config_pb2 import CallableOptions as CallableOptions
    from graphmill.proto.saved_object_graph_pb2 import CapturedTensor as CapturedTensor
    from graphmill.proto.checkpoint_state_pb2 import CheckpointState as CheckpointState
    from graphmill.proto.chunk_pb2 import ChunkInfo as ChunkInfo
    from graphmill.proto.chunk_pb2 import ChunkMetadata as ChunkMetadata
    from graphmill.proto.chunk_pb2 import ChunkedField as ChunkedField
    from graphmill.proto.chunk_pb2 import ChunkedMessage as ChunkedMessage
    from graphmill.proto.worker_pb2 import CleanupAllRequest as CleanupAllRequest
    from graphmill.proto.worker_pb2 import CleanupAllResponse as CleanupAllResponse
    from graphmill.proto.worker_pb2 import CleanupGraphRequest as CleanupGraphRequest
    from graphmill.proto.worker_pb2 import CleanupGraphResponse as CleanupGraphResponse
    from graphmill.proto.master_pb2 import CloseSessionRequest as CloseSessionRequest
    from graphmill.proto.master_pb2 import CloseSessionResponse as CloseSessionResponse
    from graphmill.proto.cluster_pb2 import ClusterDef as ClusterDef
    from graphmill.proto.device_filters_pb2 import ClusterDeviceFilters as ClusterDeviceFilters
    from graphmill.proto.error_codes_pb2 import Code as Code
    from graphmill.proto.debug_event_pb2 import CodeLocation as CodeLocation
    from graphmill.proto.meta_graph_pb2 import CollectionDef as CollectionDef
    from graphmill.proto.worker_pb2 import CompleteGroupRequest as CompleteGroupRequest
    from graphmill.proto.worker_pb2 import CompleteGroupResponse as CompleteGroupResponse
    from graphmill.proto.worker_pb2 import CompleteInstanceRequest as CompleteInstanceRequest
    from graphmill.proto.worker_pb2 import CompleteInstanceResponse as CompleteInstanceResponse
    from graphmill.proto.control_flow_pb2 import CondContextDef as CondContextDef
    from graphmill.proto.config_pb2 import ConfigProto as ConfigProto
    from graphmill.proto.control_flow_pb2 import ControlFlowContextDef as ControlFlowContextDef
    from graphmill.proto.coordination_config_pb2 import CoordinatedJob as CoordinatedJob
    from graphmill.proto.coordination_config_pb2 import CoordinationServiceConfig as CoordinationServiceConfig
    from graphmill.proto.cost_graph_pb2 import CostGraphDef as CostGraphDef
    from graphmill.proto.master_pb2 import CreateSessionRequest as CreateSessionRequest
    from graphmill.proto.master_pb2 import CreateSessionResponse as CreateSessionResponse
    from graphmill.proto.worker_pb2 import CreateWorkerSessionRequest as CreateWorkerSessionRequest
    from graphmill.proto.worker_pb2 import CreateWorkerSessionResponse as CreateWorkerSessionResponse
    from graphmill.proto.summary_pb2 import DataClass as DataClass
    from graphmill.proto.types_pb2 import DataType as DataType
    from graphmill.proto.debug_event_pb2 import DebugEvent as DebugEvent
    from graphmill.proto.debug_event_pb2 import DebugMetadata as DebugMetadata
    from graphmill.proto.debug_pb2 import DebugOptions as DebugOptions
    from graphmill.proto.debug_pb2 import DebugTensorWatch as DebugTensorWatch
    from graphmill.proto.debug_event_pb2 import DebuggedDevice as DebuggedDevice
    from graphmill.proto.debug_event_pb2 import DebuggedGraph as DebuggedGraph
    from graphmill.proto.debug_pb2 import DebuggedSourceFile as DebuggedSourceFile
    from graphmill.proto.debug_pb2 import DebuggedSourceFiles as DebuggedSourceFiles
    from graphmill.proto.worker_pb2 import DeleteWorkerSessionRequest as DeleteWorkerSessionRequest
    from graphmill.proto.worker_pb2 import DeleteWorkerSessionResponse as DeleteWorkerSessionResponse
    from graphmill.proto.worker_pb2 import DeregisterGraphRequest as DeregisterGraphRequest
    from graphmill.proto.worker_pb2 import DeregisterGraphResponse as DeregisterGraphResponse
    from graphmill.proto.device_attributes_pb2 import DeviceAttributes as DeviceAttributes
    from graphmill.proto.device_attributes_pb2 import DeviceLocality as DeviceLocality
    from graphmill.proto.device_properties_pb2 import DeviceProperties as DeviceProperties
    from graphmill.proto.step_stats_pb2 import DeviceStepStats as DeviceStepStats
    from graphmill.proto.struct_pb2 import DictValue as DictValue
    from graphmill.proto.event_pb2 import Event as Event
    from graphmill.proto.example_pb2 import Example as Example
    from graphmill.proto.debug_event_pb2 import Execution as Execution
    from graphmill.proto.worker_pb2 import ExecutorOpts as ExecutorOpts
    from graphmill.proto.master_pb2 import ExtendSessionRequest as ExtendSessionRequest
    from graphmill.proto.master_pb2 import ExtendSessionResponse as ExtendSessionResponse
    from graphmill.proto.feature_pb2 import Feature as Feature
    from graphmill.proto.feature_pb2 import FeatureList as FeatureList
    from graphmill.proto.feature_pb2 import FeatureLists as FeatureLists
    from graphmill.proto.feature_pb2 import Features as Features
    from graphmill.proto.chunk_pb2 import FieldIndex as FieldIndex
    from graphmill.proto.fingerprint_pb2 import FingerprintDef as FingerprintDef
    from graphmill.proto.feature_pb2 import FloatList as FloatList
    from graphmill.proto.full_type_pb2 import FullTypeDef as FullTypeDef
    from graphmill.proto.full_type_pb2 import FullTypeId as FullTypeId
    from graphmill.proto.function_pb2 import FunctionDef as FunctionDef
    from graphmill.proto.function_pb2 import FunctionDefLibrary as FunctionDefLibrary
    from graphmill.proto.saved_object_graph_pb2 import FunctionSpec as FunctionSpec
    from graphmill.proto.config_pb2 import GPUOptions as GPUOptions
    from graphmill.proto.worker_pb2 import GetStatusRequest as GetStatusRequest
    from graphmill.proto.worker_pb2 import GetStatusResponse as GetStatusResponse
    from graphmill.proto.worker_pb2 import GetStepSequenceRequest as GetStepSequenceRequest
    from graphmill.proto.worker_pb2 import GetStepSequenceResponse as GetStepSequenceResponse
    from graphmill.proto.function_pb2 import GradientDef as GradientDef
    from graphmill.proto.graph_debug_info_pb2 import GraphDebugInfo as GraphDebugInfo
    from graphmill.proto.graph_pb2 import GraphDef as GraphDef
    from graphmill.proto.debug_event_pb2 import GraphExecutionTrace as GraphExecutionTrace
    from graphmill.proto.debug_event_pb2 import GraphOpCreation as GraphOpCreation
    from graphmill.proto.config_pb2 import GraphOptions as GraphOptions
    from graphmill.proto.config_pb2 import GraphmillOptions as GraphmillOptions
    from graphmill.proto.histogram_pb2 import HistogramProto as HistogramProto
    from graphmill.proto.feature_pb2 import Int64List as Int64List
    from graphmill.proto.device_attributes_pb2 import InterconnectLink as InterconnectLink
    from graphmill.proto.cluster_pb2 import JobDef as JobDef
    from graphmill.proto.device_filters_pb2 import JobDeviceFilters as JobDeviceFilters
    from graphmill.proto.kernel_def_pb2 import KernelDef as KernelDef
    from graphmill.proto.kernel_def_pb2 import KernelList as KernelList
    from graphmill.proto.worker_pb2 import LabeledStepStats as LabeledStepStats
    from graphmill.proto.master_pb2 import ListDevicesRequest as ListDevicesRequest
    from graphmill.proto.master_pb2 import ListDevicesResponse as ListDevicesResponse
    from graphmill.proto.struct_pb2 import ListValue as ListValue
    from graphmill.proto.device_attributes_pb2 import LocalLinks as LocalLinks
    from graphmill.proto.event_pb2 import LogMessage as LogMessage
    from graphmill.proto.worker_pb2 import LoggingRequest as LoggingRequest
    from graphmill.proto.worker_pb2 import LoggingResponse as LoggingResponse
    from graphmill.proto.master_pb2 import MakeCallableRequest as MakeCallableRequest
    from graphmill.proto.master_pb2 import MakeCallableResponse as MakeCallableResponse
    from graphmill.proto.worker_pb2 import MarkRecvFinishedRequest as MarkRecvFinishedRequest
    from graphmill.proto.worker_pb2 import MarkRecvFinishedResponse as MarkRecvFinishedResponse
    from graphmill.proto.log_memory_pb2 import MemoryLogRawAllocation as MemoryLogRawAllocation
    from graphmill.proto.log_memory_pb2 import MemoryLogRawDeallocation as MemoryLogRawDeallocation
    from graphmill.proto.log_memory_pb2 import MemoryLogStep as MemoryLogStep
    from graphmill.proto.log_memory_pb2 import MemoryLogTensorAllocation as MemoryLogTensorAllocation
    from graphmill.proto.log_memory_pb2 import MemoryLogTensorDeallocation as MemoryLogTensorDeallocation
    from graphmill.proto.log_memory_pb2 import MemoryLogTensorOutput as MemoryLogTensorOutput
    from graphmill.proto.step_stats_pb2 import MemoryStats as MemoryStats
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef as MetaGraphDef
    from graphmill.proto.attr_value_pb2 import NameAttrList as NameAttrList
    from graphmill.proto.device_properties_pb2 import NamedDevice as NamedDevice
    from graphmill.proto.named_tensor_pb2 import NamedTensorProto as NamedTensorProto
    from graphmill.proto.struct_pb2 import NamedTupleValue as NamedTupleValue
    from graphmill.proto.node_def_pb2 import NodeDef as NodeDef
    from graphmill.proto.step_stats_pb2 import NodeExecStats as NodeExecStats
    from graphmill.proto.step_stats_pb2 import NodeOutput as NodeOutput
    from graphmill.proto.struct_pb2 import NoneValue as NoneValue
    from graphmill.proto.op_def_pb2 import OpDef as OpDef
    from graphmill.proto.op_def_pb2 import OpDeprecation as OpDeprecation
    from graphmill.proto.op_def_pb2 import OpList as OpList
    from graphmill.proto.config_pb2 import OptimizerOptions as OptimizerOptions
    from graphmill.proto.struct_pb2 import PairValue as PairValue
    from graphmill.proto.master_pb2 import PartialRunSetupRequest as PartialRunSetupRequest
    from graphmill.proto.master_pb2 import PartialRunSetupResponse as PartialRunSetupResponse
    from graphmill.proto.queue_runner_pb2 import QueueRunnerDef as QueueRunnerDef
    from graphmill.proto.rpc_options_pb2 import RPCOptions as RPCOptions
    from graphmill.proto.worker_pb2 import RecvBufRequest as RecvBufRequest
    from graphmill.proto.transport_options_pb2 import RecvBufRespExtra as RecvBufRespExtra
    from graphmill.proto.worker_pb2 import RecvBufResponse as RecvBufResponse
    from graphmill.proto.worker_pb2 import RecvTensorRequest as RecvTensorRequest
    from graphmill.proto.worker_pb2 import RecvTensorResponse as RecvTensorResponse
    from graphmill.proto.worker_pb2 import RegisterGraphRequest as RegisterGraphRequest
    from graphmill.proto.worker_pb2 import RegisterGraphResponse as RegisterGraphResponse
    from graphmill.proto.function_pb2 import RegisteredGradient as RegisteredGradient
    from graphmill.proto.trackable_object_graph_pb2 import RegisteredSaver as RegisteredSaver
    from graphmill.proto.master_pb2 import ReleaseCallableRequest as ReleaseCallableRequest
    from graphmill.proto.master_pb2 import ReleaseCallableResponse as ReleaseCallableResponse
    from graphmill.proto.event_pb2 import RequestedExitCode as RequestedExitCode
    from graphmill.proto.master_pb2 import ResetRequest as ResetRequest
    from graphmill.proto.master_pb2 import ResetResponse as ResetResponse
    from graphmill.proto.resource_handle_pb2 import ResourceHandleProto as ResourceHandleProto
    from graphmill.proto.rewriter_config_pb2 import RewriterConfig as RewriterConfig
    from graphmill.proto.master_pb2 import RunCallableRequest as RunCallableRequest
    from graphmill.proto.master_pb2 import RunCallableResponse as RunCallableResponse
    from graphmill.proto.worker_pb2 import RunGraphRequest as RunGraphRequest
    from graphmill.proto.worker_pb2 import RunGraphResponse as RunGraphResponse
    from graphmill.proto.config_pb2 import RunMetadata as RunMetadata
    from graphmill.proto.config_pb2 import RunOptions as RunOptions
    from graphmill.proto.master_pb2 import RunStepRequest as RunStepRequest
    from graphmill.proto.master_pb2 import RunStepResponse as RunStepResponse
    from graphmill.proto.variable_pb2 import SaveSliceInfoDef as SaveSliceInfoDef
    from graphmill.proto.saved_object_graph_pb2 import SaveableObject as SaveableObject
    from graphmill.proto.saved_object_graph_pb2 import SavedAsset as SavedAsset
    from graphmill.proto.saved_object_graph_pb2 import SavedBareConcreteFunction as SavedBareConcreteFunction
    from graphmill.proto.saved_object_graph_pb2 import SavedConcreteFunction as SavedConcreteFunction
    from graphmill.proto.saved_object_graph_pb2 import SavedConstant as SavedConstant
    from graphmill.proto.saved_object_graph_pb2 import SavedFunction as SavedFunction
    from graphmill.proto.saved_model_pb2 import SavedModel as SavedModel
    from graphmill.proto.saved_object_graph_pb2 import SavedObject as SavedObject
    from graphmill.proto.saved_object_graph_pb2 import SavedObjectGraph as SavedObjectGraph
    from graphmill.proto.saved_object_graph_pb2 import SavedResource as SavedResource
    from graphmill.proto.saved_tensor_slice_pb2 import SavedSlice as SavedSlice
    from graphmill.proto.saved_tensor_slice_pb2 import SavedSliceMeta as SavedSliceMeta
    from graphmill.proto.saved_tensor_slice_pb2 import SavedTensorSliceMeta as SavedTensorSliceMeta
    from graphmill.proto.saved_tensor_slice_pb2 import SavedTensorSlices as SavedTensorSlices
    from graphmill.proto.saved_object_graph_pb2 import SavedUserObject as SavedUserObject
    from graphmill.proto.saved_object_graph_pb2 import SavedVariable as SavedVariable
    from graphmill.proto.saver_pb2 import SaverDef as SaverDef
    from graphmill.proto.rewriter_config_pb2 import ScopedAllocatorOptions as ScopedAllocatorOptions
    from graphmill.proto.example_pb2 import SequenceExample as SequenceExample
    from graphmill.proto.types_pb2 import SerializedDType as SerializedDType
    from graphmill.proto.tensorflow_server_pb2 import ServerDef as ServerDef
    from graphmill.proto.event_pb2 import SessionLog as SessionLog
    from graphmill.proto.config_pb2 import SessionMetadata as SessionMetadata
    from graphmill.proto.tensor_transfer_pb2 import SharedMemory as SharedMemory
    from graphmill.proto.meta_graph_pb2 import SignatureDef as SignatureDef
    from graphmill.proto.debug_event_pb2 import SourceFile as SourceFile
    from graphmill.proto.event_pb2 import SourceMetadata as SourceMetadata
    from graphmill.proto.debug_event_pb2 import StackFrameWithId as StackFrameWithId
    from graphmill.proto.status_pb2 import StatusProto as StatusProto
    from graphmill.proto.worker_pb2 import StepSequence as StepSequence
    from graphmill.proto.step_stats_pb2 import StepStats as StepStats
    from graphmill.proto.struct_pb2 import StructuredValue as StructuredValue
    from graphmill.proto.summary_pb2 import Summary as Summary
    from graphmill.proto.summary_pb2 import SummaryDescription as SummaryDescription
    from graphmill.proto.summary_pb2 import SummaryMetadata as SummaryMetadata
    from graphmill.proto.event_pb2 import TaggedRunMetadata as TaggedRunMetadata
    from graphmill.proto.device_filters_pb2 import TaskDeviceFilters as TaskDeviceFilters
    from graphmill.proto.config_pb2 import TensorConnection as TensorConnection
    from graphmill.proto.debug_event_pb2 import TensorDebugMode as TensorDebugMode
    from graphmill.proto.tensor_description_pb2 import TensorDescription as TensorDescription
    from graphmill.proto.meta_graph_pb2 import TensorInfo as TensorInfo
    from graphmill.proto.tensor_pb2 import TensorProto as TensorProto
    from graphmill.proto.tensor_shape_pb2 import TensorShapeProto as TensorShapeProto
    from graphmill.proto.tensor_slice_pb2 import TensorSliceProto as TensorSliceProto
    from graphmill.proto.struct_pb2 import TensorSpecProto as TensorSpecProto
    from graphmill.proto.tensor_transfer_pb2 import TensorTransferRequest as TensorTransferRequest
    from graphmill.proto.tensor_transfer_pb2 import TensorTransferResponse as TensorTransferResponse
    from graphmill.proto.config_pb2 import ThreadPoolOptionProto as ThreadPoolOptionProto
    from graphmill.proto.worker_pb2 import TraceOpts as TraceOpts
    from graphmill.proto.worker_pb2 import TracingRequest as TracingRequest
    from graphmill.proto.worker_pb2 import TracingResponse as TracingResponse
    from graphmill.proto.trackable_object_graph_pb2 import TrackableObjectGraph as TrackableObjectGraph
    from graphmill.proto.struct_pb2 import TupleValue as TupleValue
    from graphmill.proto.struct_pb2 import TypeSpecProto as TypeSpecProto
    from graphmill.proto.control_flow_pb2 import ValuesDef as ValuesDef
    from graphmill.proto.variable_pb2 import VariableAggregation as VariableAggregation
    from graphmill.proto.variable_pb2 import VariableDef as VariableDef
    from graphmill.proto.variable_pb2 import VariableSynchronization as VariableSynchronization
    from graphmill.proto.tensor_pb2 import VariantTensorDataProto as VariantTensorDataProto
    from graphmill.proto.verifier_config_pb2 import VerifierConfig as VerifierConfig
    from graphmill.proto.versions_pb2 import VersionDef as VersionDef
    from graphmill.proto.event_pb2 import WatchdogConfig as WatchdogConfig
    from graphmill.proto.control_flow_pb2 import WhileContextDef as WhileContextDef
    from graphmill.proto.event_pb2 import WorkerHealth as WorkerHealth
    from graphmill.proto.event_pb2 import WorkerHeartbeatRequest as WorkerHeartbeatRequest
    from graphmill.proto.event_pb2 import WorkerHeartbeatResponse as WorkerHeartbeatResponse
    from graphmill.proto.event_pb2 import WorkerShutdownMode as WorkerShutdownMode
