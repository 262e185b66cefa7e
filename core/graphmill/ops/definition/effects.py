"""The effects of ops, as data.

The effects of an op are all that a call may have. Often they depend on an attr or input:
`CacheDataset` writes a file only if it is given a name. The table is used to check a graph before
it runs, and to decide which nodes may be folded, repeated or removed. Ops that call functions have
no effects of their own: those of the functions' bodies count. An op that returns random numbers has
the effect `rng`, even if it does not declare it.

The effects: `fs.read`, `fs.write` (files), `net` (other machines), `process` (starts or ends one),
`python` (calls back into Python), `clock` (depends on time, or waits), `rng` (depends on a random
seed of its own), `state` (reads or changes variables, resources, queues), `log` (prints or
reports).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.ops.definition.op_traits import EFFECTS, Randomness

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import ArgDef, OpDef

__all__ = ["EFFECTS", "effects_of", "listed_effects", "randomness_of"]

_NONE: Final = ""

# Maps sets of effects to the ops with exactly these effects. Ops that are not listed have "state"
# if they are stateful or use references or resources, and no effects otherwise.
_TABLE: Final[dict[str, str]] = {
    # TensorFlow declares these as stateful, to prevent pruning or merging; they have no effects.
    _NONE: """
        Assert BipartiteMatch Case CheckNumerics CheckNumericsV2 DatasetToSingleElement DeepCopy
        DeviceIndex Empty ExperimentalGroupByReducerDataset GraphDefVersion GroupByReducerDataset
        GuaranteeConst If ListDataset RangeDataset Recv ReduceDataset RequiresOlderGraphVersion
        RiscWhile Send SparseTensorSliceDataset StatefulPartitionedCall StatelessRandomGetAlg
        TensorDataset TensorSliceDataset While XlaDequantize XlaIf XlaWhile _Arg _DeviceArg
        _DeviceRetval _HostRecv _HostSend _If _ParallelConcatStart _Recv _Retval _Send _While
    """,
    "fs.read": """
        CSVDataset CSVDatasetV2 DecodeProtoV2 EncodeProto ExperimentalCSVDataset
        ExperimentalLMDBDataset ExperimentalMatchingFilesDataset FixedLengthRecordDataset
        FixedLengthRecordDatasetV2 GenerateVocabRemapping ImmutableConst LMDBDataset
        ListSnapshotChunksDataset LoadAndRemapMatrix LoadDataset MatchingFiles MatchingFilesDataset
        ReadFile Restore RestoreSlice RestoreV2 SequenceFileDataset SnapshotChunkDataset
        SnapshotDatasetReader SnapshotNestedDatasetReader TFRecordDataset TFRecordDatasetV2
        TextLineDataset
    """,
    "fs.read state": """
        FixedLengthRecordReader FixedLengthRecordReaderV2 InitializeTRTResource
        InitializeTableFromTextFile InitializeTableFromTextFileV2 LMDBReader ReaderRead
        ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 TFRecordReader TFRecordReaderV2 TextLineReader
        TextLineReaderV2 WholeFileReader WholeFileReaderV2
    """,
    "fs.read rng": "FixedUnigramCandidateSampler RecordInput SkipGramGenerateCandidates Skipgram",
    "fs.write": """
        CalibrationStatisticsSaver DatasetToTFRecord DumpTensor ExperimentalDatasetToTFRecord Save
        SaveDataset SaveDatasetV2 SaveSlices SaveV2 WriteFile
    """,
    "fs.write state": """
        CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter FlushSummaryWriter
        ImportEvent SerializeTRTResource StatsAggregatorSetSummaryWriter
    """,
    "fs.write clock state": """
        WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary
        WriteRawProtoSummary WriteScalarSummary WriteSummary
    """,
    "fs.read fs.write": "CacheDataset MergeV2Checkpoints SnapshotDataset SnapshotDatasetV2",
    "fs.read fs.write state": "CacheDatasetV2",
    "fs.read net": "ExperimentalSqlDataset SqlDataset DTensorRestoreV2",
    "fs.write net": "DistributedSave",
    "fs.read fs.write process": "DecodeAudio DecodeAudioV2 DecodeVideo EncodeAudio EncodeAudioV2",
    "fs.write net log": """
        DebugIdentity DebugIdentityV3 DebugNanCount DebugNumericSummary DebugNumericSummaryV2
    """,
    "fs.write net log clock state": "DebugIdentityV2",
    # Their handles are strings, so their definitions do not reveal the state.
    "state": """
        DatasetFromGraph TensorArrayCloseV2 TensorArrayConcatV2 TensorArrayGatherV2
        TensorArrayGradV2 TensorArrayReadV2 TensorArrayScatterV2 TensorArraySizeV2
        TensorArraySplitV2 TensorArrayV2 TensorArrayWriteV2
    """,
    "log": "Print",
    "fs.write log": "PrintV2",
    "clock": """
        ExperimentalLatencyStatsDataset ExperimentalSleepDataset LatencyStatsDataset SleepDataset
        SleepIdentityOp SleepOp Timestamp
    """,
    "clock state": "Unbatch",
    "process": "Abort",
    # Custom calls run functions that the process has registered.
    "python": "EagerPyFunc PyFunc PyFuncStateless XlaCustomCall XlaCustomCallV2",
    "net": """
        CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveAssignGroupV2 CollectiveBcastRecv
        CollectiveBcastRecvV2 CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather
        CollectiveGatherV2 CollectiveReduce CollectiveReduceScatterV2 CollectiveReduceV2
        CollectiveReduceV3 DTensorAllGather DTensorAllReduce DTensorAllScatter DTensorAllToAll
        DTensorReduceScatter DataServiceDataset DataServiceDatasetV2 FileSystemSetConfiguration
        GcsConfigureBlockCache GcsConfigureCredentials GenerateBigQueryReaderPartitions
        IgniteDataset KafkaDataset KinesisDataset MPIAllgather MPIAllreduce MPIInit MPILocalRank
        MPIRank MPISize NcclAllReduce NcclBroadcast NcclReduce RegisterDataset RegisterDatasetV2
        RemoteCall RemoteFusedGraphExecute Rpc TryRpc _NcclBroadcastRecv _NcclBroadcastSend
        _NcclReduceRecv _NcclReduceSend
    """,
    "net state": """
        BigQueryReader BigtableClient BigtableLookupDataset BigtablePrefixKeyDataset
        BigtableRangeKeyDataset BigtableSampleKeyPairsDataset BigtableSampleKeysDataset
        BigtableScanDataset BigtableTable CollectiveInitializeCommunicator
        ConfigureAndInitializeGlobalTPU ConfigureDistributedTPU ConnectTPUEmbeddingHosts
        DTensorSetGlobalTPUArray DataServiceDatasetV3 DataServiceDatasetV4 DatasetToBigtable
        DeleteRpcFutureResource RpcCall RpcCheckStatus RpcClient RpcGetValue RpcServer
        RpcServerRegister RpcServerStart ShutdownDistributedTPU ShutdownTPUSystem WorkerHeartbeat
        _ConfigureDistributedTPU _DisconnectHostFromDistributedTPUSystem
        _InitializeHostForDistributedTPU _SetGlobalTPUArray _ShutdownDistributedTPU
        _WaitForDistributedTPU
    """,
    "rng": """
        AllCandidateSampler CudnnRNN CudnnRNNV2 CudnnRNNV3 ExperimentalRandomDataset ExtractGlimpse
        ExtractGlimpseV2 FractionalAvgPool FractionalMaxPool LogUniformCandidateSampler Multinomial
        NonDeterministicInts ParameterizedTruncatedNormal RandomCrop RandomDataset RandomGamma
        RandomPoisson RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform
        RandomUniformInt RiscRandomUniform SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
        SamplingDataset SdcaOptimizer SdcaOptimizerV2 ShuffleAndRepeatDataset ShuffleDataset
        StochasticHardRoutingFunction ThreadUnsafeUnigramCandidateSampler TruncatedNormal
        UniformCandidateSampler
    """,
    "rng state": """
        AnonymousRandomSeedGenerator AnonymousSeedGenerator Batch GlobalShuffleDataset
        LearnedUnigramCandidateSampler NegTrain RandomDatasetV2 RandomShuffleQueue
        RandomShuffleQueueV2 RngReadAndSkip RngSkip ShuffleAndRepeatDatasetV2 ShuffleDatasetV2
        ShuffleDatasetV3 StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2
        StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt StatefulUniformInt
    """,
}

_STATE: Final = frozenset({"state"})
_RNG: Final = frozenset({"rng"})


@cache
def listed_effects() -> dict[str, frozenset[str]]:
    """Return the effects of the ops in the table, by name."""
    return {
        name: frozenset(effects.split())
        for effects, names in _TABLE.items()
        for name in names.split()
    }


def effects_of(op_def: OpDef) -> frozenset[str]:
    """Return the declared effects of an op, or those that its definition implies."""
    known = op_def.effects
    if known is None:
        known = op_def.effects = _find_effects(op_def)
    return known


def _find_effects(op_def: OpDef) -> frozenset[str]:
    effects = op_def.traits.effects
    if effects is None:
        touches = any(map(_touches_state, (*op_def.input_args, *op_def.output_args)))
        effects = _STATE if op_def.is_stateful or touches else frozenset()
    return effects if randomness_of(op_def) is Randomness.NONE else effects | _RNG


def randomness_of(op_def: OpDef) -> Randomness:
    """Return the source of an op's random numbers, as declared or as its attrs imply."""
    declared = op_def.traits.randomness
    if declared is not None:
        return declared
    has_seeds = op_def.is_stateful and op_def.has_attr("seed") and op_def.has_attr("seed2")
    return Randomness.SEEDED if has_seeds else Randomness.NONE


def _touches_state(arg: ArgDef) -> bool:
    return arg.is_ref or arg.type is dtypes.resource
