"""The ops that each module has kernels for; made by tools/make_kernel_index.py."""

from __future__ import annotations

OPS: dict[str, str] = {
    "array.assign": "ResourceStridedSliceAssign StridedSliceAssign",
    "array.block": (
        "BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth"
    ),
    "array.check_numerics": "CheckNumerics CheckNumericsV2",
    "array.concat_split": "Concat ConcatOffset ConcatV2 Pack ParallelConcat Split SplitV Unpack",
    "array.diagonal": (
        "BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag Diag DiagPart "
        "MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 "
        "MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3"
    ),
    "array.edit_distance": "EditDistance",
    "array.fingerprint": "Fingerprint",
    "array.gather": "Gather GatherNd GatherV2",
    "array.identity": (
        "Const DebugGradientIdentity DebugGradientRefIdentity DeepCopy Empty GuaranteeConst "
        "HostConst Identity IdentityN Placeholder PlaceholderV2 PlaceholderWithDefault "
        "PreventGradient RefIdentity Snapshot StopGradient _EagerConst"
    ),
    "array.immutable_const": "ImmutableConst",
    "array.multi_hot": "_MultiHot",
    "array.pad": "MirrorPad MirrorPadGrad Pad PadV2",
    "array.patches": "ExtractImagePatches ExtractVolumePatches",
    "array.permute": (
        "InvertPermutation LowerBound OneHot Reverse ReverseSequence ReverseV2 Roll UnravelIndex "
        "UpperBound"
    ),
    "array.scatter": (
        "InplaceAdd InplaceSub InplaceUpdate ScatterNd ScatterNdNonAliasingAdd TensorScatterAdd "
        "TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate"
    ),
    "array.shape": (
        "Bitcast BroadcastArgs BroadcastGradientArgs BroadcastTo ConjugateTranspose EnsureShape "
        "ExpandDims Fill OnesLike Rank Reshape Shape ShapeN Size Squeeze Tile TileGrad Transpose "
        "ZerosLike"
    ),
    "array.slice": "Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate",
    "array.unique": "ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where",
    "array.variant": "ZerosLike",
    "audio.microfrontend": "AudioMicrofrontend",
    "audio.spectrogram": "AudioSpectrogram Mfcc",
    "audio.wav": "DecodeWav EncodeWav",
    "control_flow.ops": (
        "Abort ControlTrigger Enter Exit LoopCond Merge NextIteration NoOp RefEnter RefExit "
        "RefMerge RefNextIteration RefSelect RefSwitch Switch SyncDevice _SwitchN"
    ),
    "control_flow.transfer": "Recv Send _CopyToDevice _CopyToHost _HostRecv _HostSend _Recv _Send",
    "data_flow.accumulator": (
        "AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep "
        "AccumulatorTakeGradient ConditionalAccumulator ResourceAccumulatorApplyGradient "
        "ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep "
        "ResourceAccumulatorTakeGradient ResourceConditionalAccumulator "
        "SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator"
    ),
    "data_flow.barrier": (
        "Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize "
        "BarrierTakeMany"
    ),
    "data_flow.enqueue_dequeue": (
        "QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 "
        "QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2"
    ),
    "data_flow.partition_stitch": "DynamicPartition DynamicStitch ParallelDynamicStitch",
    "data_flow.queue": (
        "FIFOQueue FIFOQueueV2 FakeQueue PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue "
        "PriorityQueueV2 QueueClose QueueCloseV2 QueueIsClosed QueueIsClosedV2 QueueSize "
        "QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2"
    ),
    "data_flow.record_input": "RecordInput",
    "data_flow.session_tensor": (
        "DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor"
    ),
    "data_flow.stack": (
        "Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2"
    ),
    "data_flow.staging": (
        "MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey "
        "OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage "
        "OrderedMapUnstage OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage"
    ),
    "dataset.assertions": "AssertNextDataset AssertPrevDataset ExperimentalAssertNextDataset",
    "dataset.auto_shard": "AutoShardDataset ExperimentalAutoShardDataset",
    "dataset.choose_fastest": (
        "ChooseFastestBranchDataset ChooseFastestDataset ExperimentalChooseFastestDataset"
    ),
    "dataset.compression": "CompressElement UncompressElement",
    "dataset.data_service": (
        "DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 "
        "DistributedSave IteratorGetModelProto RegisterDataset RegisterDatasetV2"
    ),
    "dataset.files.lmdb": "ExperimentalLMDBDataset LMDBDataset",
    "dataset.files.save_load": "LoadDataset SaveDataset SaveDatasetV2",
    "dataset.files.snapshots": (
        "ListSnapshotChunksDataset SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader "
        "SnapshotDatasetV2 SnapshotNestedDatasetReader"
    ),
    "dataset.files.sql": "ExperimentalSqlDataset SqlDataset",
    "dataset.functions": (
        "DirectedInterleaveDataset ExperimentalDirectedInterleaveDataset "
        "ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset "
        "ExperimentalMapAndBatchDataset ExperimentalParallelInterleaveDataset "
        "ExperimentalScanDataset ExperimentalTakeWhileDataset FilterDataset FlatMapDataset "
        "GroupByReducerDataset GroupByWindowDataset InterleaveDataset "
        "LegacyParallelInterleaveDatasetV2 MapAndBatchDataset MapDataset ParallelFilterDataset "
        "ParallelInterleaveDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 "
        "ParallelInterleaveDatasetV4 ParallelMapDataset ParallelMapDatasetV2 ScanDataset "
        "TakeWhileDataset"
    ),
    "dataset.handles": (
        "AnonymousMemoryCache AnonymousRandomSeedGenerator AnonymousSeedGenerator "
        "DeleteMemoryCache DeleteRandomSeedGenerator DeleteSeedGenerator DummyIterationCounter "
        "DummyMemoryCache DummySeedGenerator"
    ),
    "dataset.iterators.consume": (
        "ComputeBatchSize DatasetCardinality DatasetToSingleElement DatasetToTFRecord "
        "ExperimentalDatasetCardinality ExperimentalDatasetToTFRecord InitializeTableFromDataset "
        "ReduceDataset"
    ),
    "dataset.iterators.iterator_state": "DeserializeIterator SerializeIterator",
    "dataset.iterators.multi_device": (
        "AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator "
        "MultiDeviceIterator MultiDeviceIteratorFromStringHandle "
        "MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit "
        "MultiDeviceIteratorToStringHandle"
    ),
    "dataset.iterators.ops": (
        "AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 DeleteIterator "
        "ExperimentalIteratorGetDevice Iterator IteratorFromStringHandle "
        "IteratorFromStringHandleV2 IteratorGetDevice IteratorGetNext IteratorGetNextAsOptional "
        "IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator OneShotIterator"
    ),
    "dataset.iterators.optional": (
        "OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone"
    ),
    "dataset.iterators.random_access": (
        "GetElementAtIndex GlobalShuffleDataset IndexFlatMapDataset WeightedFlatMapDataset"
    ),
    "dataset.options": "GetOptions",
    "dataset.pace": (
        "ExperimentalSleepDataset ExperimentalThreadPoolDataset ExperimentalThreadPoolHandle "
        "SleepDataset ThreadPoolDataset ThreadPoolHandle"
    ),
    "dataset.parse_example": (
        "ExperimentalParseExampleDataset ParseExampleDataset ParseExampleDatasetV2"
    ),
    "dataset.regroup": (
        "DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset "
        "ExperimentalRebatchDataset ExperimentalSlidingWindowDataset RebatchDataset "
        "SlidingWindowDataset"
    ),
    "dataset.sampling": "SamplingDataset",
    "dataset.serialization": "DatasetFingerprint DatasetFromGraph DatasetToGraph DatasetToGraphV2",
    "dataset.sources": (
        "CSVDataset CSVDatasetV2 ExperimentalCSVDataset ExperimentalMatchingFilesDataset "
        "ExperimentalRandomDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 "
        "GeneratorDataset ListDataset MatchingFilesDataset RandomDataset RandomDatasetV2 "
        "RangeDataset SparseTensorSliceDataset TFRecordDataset TFRecordDatasetV2 TensorDataset "
        "TensorSliceDataset TextLineDataset WindowOp"
    ),
    "dataset.stats": (
        "BytesProducedStatsDataset ExperimentalBytesProducedStatsDataset "
        "ExperimentalLatencyStatsDataset ExperimentalSetStatsAggregatorDataset "
        "ExperimentalStatsAggregatorHandle ExperimentalStatsAggregatorSummary LatencyStatsDataset "
        "SetStatsAggregatorDataset StatsAggregatorHandle StatsAggregatorHandleV2 "
        "StatsAggregatorSetSummaryWriter StatsAggregatorSummary"
    ),
    "dataset.transforms": (
        "AssertCardinalityDataset BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 "
        "ConcatenateDataset ExperimentalIgnoreErrorsDataset "
        "ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset "
        "ExperimentalPrivateThreadPoolDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset "
        "FinalizeDataset IgnoreErrorsDataset MaxIntraOpParallelismDataset ModelDataset "
        "NonSerializableDataset OptimizeDataset OptimizeDatasetV2 OptionsDataset "
        "PaddedBatchDataset PaddedBatchDatasetV2 ParallelBatchDataset PrefetchDataset "
        "PrivateThreadPoolDataset RebatchDatasetV2 RepeatDataset RewriteDataset ShardDataset "
        "ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2 ShuffleDataset ShuffleDatasetV2 "
        "ShuffleDatasetV3 SkipDataset TakeDataset UnbatchDataset UniqueDataset WindowDataset "
        "ZipDataset"
    ),
    "dataset.wrapped": "UnwrapDatasetVariant WrapDatasetVariant",
    "distributed.collective": (
        "CollectiveAllToAllV2 CollectiveBcastRecv CollectiveBcastRecvV2 CollectiveBcastSend "
        "CollectiveBcastSendV2 CollectiveGather CollectiveGatherV2 CollectiveReduce "
        "CollectiveReduceScatterV2 CollectiveReduceV2"
    ),
    "distributed.collective_group": (
        "CollectiveAllToAllV3 CollectiveAssignGroupV2 CollectiveInitializeCommunicator "
        "CollectiveReduceV3"
    ),
    "functional.batch": "BatchFunction",
    "functional.batch_tensors": "Batch",
    "functional.gradient": "SymbolicGradient",
    "functional.map_defun": "MapDefun",
    "functional.ops": (
        "Case DeviceIndex FakeParam For If PartitionedCall RemoteCall StatefulPartitionedCall "
        "StatelessCase StatelessIf StatelessWhile ToBool While _Arg _ArrayToList _DeviceArg "
        "_DeviceRetval _If _ListToArray _Retval _While"
    ),
    "functional.py_func": "EagerPyFunc PyFunc PyFuncStateless",
    "functional.unbatch": "Unbatch",
    "functional.unbatch_grad": "UnbatchGrad",
    "image.boxes": (
        "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 "
        "NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps"
    ),
    "image.codec": (
        "DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng DecodeWebP "
        "ExtractJpegShape"
    ),
    "image.color": "AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation HSVToRGB RGBToHSV",
    "image.combined_boxes": "CombinedNonMaxSuppression",
    "image.distort": (
        "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 "
        "StatelessSampleDistortedBoundingBox"
    ),
    "image.draw": "DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpse ExtractGlimpseV2",
    "image.encode": "EncodeJpeg EncodeJpegVariableQuality EncodePng",
    "image.random_crop": "RandomCrop",
    "image.resample": (
        "ResizeArea ResizeBicubic ResizeBicubicGrad ScaleAndTranslate ScaleAndTranslateGrad"
    ),
    "image.resize": "CropAndResize ResizeBilinear ResizeNearestNeighbor",
    "image.resize_grad": (
        "CropAndResizeGradBoxes CropAndResizeGradImage ResizeBilinearGrad ResizeNearestNeighborGrad"
    ),
    "image.transform": "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    "io.checkpoint": (
        "MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename "
        "ShardedFilespec"
    ),
    "io.file": "MatchingFiles ReadFile WriteFile",
    "io.reader": (
        "FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 "
        "LMDBReader ReaderNumRecordsProduced ReaderNumRecordsProducedV2 "
        "ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo "
        "ReaderReadUpToV2 ReaderReadV2 ReaderReset ReaderResetV2 ReaderRestoreState "
        "ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2 TFRecordReader "
        "TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2"
    ),
    "io.remap": "GenerateVocabRemapping LoadAndRemapMatrix",
    "jax.array_index": (
        "Gather GatherNd GatherV2 InplaceAdd InplaceSub InplaceUpdate ScatterNd "
        "ScatterNdNonAliasingAdd StridedSliceGrad TensorScatterAdd TensorScatterMax "
        "TensorScatterMin TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate"
    ),
    "jax.array_other": "Bitcast LowerBound UnravelIndex UpperBound",
    "jax.linalg_ops": (
        "BandedTriangularSolve BatchMatrixTriangularSolve Lu MatrixExponential "
        "MatrixTriangularSolve TridiagonalSolve"
    ),
    "jax.math_complex": "Acos Acosh Asin Asinh Atan Atanh Cos Exp Log Sqrt",
    "jax.math_count": "Bincount DenseBincount HistogramFixedWidth",
    "jax.math_cumulative": "Cumprod Cumsum CumulativeLogsumexp",
    "jax.math_gamma": "Igamma IgammaGradA Igammac",
    "jax.math_other": "Complex Exp Log Pow Sqrt",
    "jax.math_segment": (
        "SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 SparseSegmentMeanGrad "
        "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments "
        "SparseSegmentSumGrad SparseSegmentSumWithNumSegments UnsortedSegmentMax "
        "UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum _SegmentRows"
    ),
    "jax.math_special": (
        "BesselI0 BesselI0e BesselI1 BesselI1e Betainc Digamma Erf Erfc Erfinv Expint Lgamma Ndtri "
        "Polygamma Spence Zeta"
    ),
    "jax.math_trigonometric": "Cos Sin Tan",
    "jax.nn_block_lstm": "BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2",
    "jax.nn_conv": (
        "Conv Conv2D Conv3D DepthwiseConv2dNative _FusedConv2D _FusedConv3D "
        "_FusedDepthwiseConv2dNative"
    ),
    "jax.nn_conv_grad": (
        "Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilter Conv3DBackpropFilterV2 "
        "Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropFilter "
        "DepthwiseConv2dNativeBackpropInput"
    ),
    "jax.nn_pool": "AvgPool AvgPool3D MaxPool MaxPool3D MaxPoolV2 TopK TopKV2",
    "jax.nn_pool_grad": "AvgPool3DGrad AvgPoolGrad MaxPool3DGrad MaxPoolGrad MaxPoolGradV2",
    "jax.random_gamma": "RandomGammaGrad",
    "jax.random_truncated": "StatelessTruncatedNormal StatelessTruncatedNormalV2",
    "linalg.decompositions": (
        "BatchCholesky BatchCholeskyGrad BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd "
        "Cholesky CholeskyGrad Eig Lu MatrixExponential MatrixLogarithm MatrixSquareRoot Qr "
        "SelfAdjointEig SelfAdjointEigV2 Svd"
    ),
    "linalg.einsum": "Einsum",
    "linalg.solve": (
        "BandedTriangularSolve BatchMatrixDeterminant BatchMatrixInverse BatchMatrixSolve "
        "BatchMatrixSolveLs BatchMatrixTriangularSolve LogMatrixDeterminant MatrixDeterminant "
        "MatrixInverse MatrixSolve MatrixSolveLs MatrixTriangularSolve TridiagonalMatMul "
        "TridiagonalSolve"
    ),
    "logging.debug": (
        "Copy CopyHost DebugIdentity DebugIdentityV3 DebugNanCount DebugNumericSummary "
        "DebugNumericSummaryV2"
    ),
    "logging.debug_events": "DebugIdentityV2",
    "logging.ops": "Assert Print PrintV2 Timestamp",
    "lookup.ops": (
        "AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable "
        "AnonymousMutableHashTableOfTensors HashTable HashTableV2 InitializeTable "
        "InitializeTableV2 LookupTableExport LookupTableExportV2 LookupTableFind LookupTableFindV2 "
        "LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2 "
        "LookupTableRemoveV2 LookupTableSize LookupTableSizeV2 MutableDenseHashTable "
        "MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors "
        "MutableHashTableOfTensorsV2 MutableHashTableV2"
    ),
    "lookup.text_file": "InitializeTableFromTextFile InitializeTableFromTextFileV2",
    "math.cast": "Cast _HostCast",
    "math.clustering": "KMC2ChainInitialization KmeansPlusPlusInitialization",
    "math.compare": (
        "ApproximateEqual ClipByValue Equal Greater GreaterEqual Less LessEqual LogicalAnd "
        "LogicalNot LogicalOr NotEqual Select SelectV2"
    ),
    "math.complex": "Angle Complex ComplexAbs Conj Imag Real",
    "math.composition": "_UnaryOpsComposition",
    "math.count": (
        "Bincount Bucketize DenseBincount DenseCountSparseOutput HistogramFixedWidth "
        "RaggedBincount RaggedCountSparseOutput SparseBincount SparseCountSparseOutput"
    ),
    "math.cumulative": "Cumprod Cumsum CumulativeLogsumexp",
    "math.division": (
        "Div DivNoNan FloorDiv FloorMod Mod MulNoNan RealDiv TruncateDiv TruncateMod Xdivy Xlog1py "
        "Xlogy"
    ),
    "math.elementwise": (
        "Abs AccumulateNV2 Acos Acosh Add AddN AddV2 Asin Asinh Atan Atan2 Atanh BitwiseAnd "
        "BitwiseOr BitwiseXor Ceil Cos Cosh Exp Expm1 Floor Inv Invert IsFinite IsInf IsNan "
        "LeftShift Log Log1p Maximum Minimum Mul Neg NextAfter PopulationCount Pow Reciprocal "
        "RightShift Rint Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square SquaredDifference Sub Tan "
        "Tanh"
    ),
    "math.fused_matmul": "_FusedMatMul",
    "math.gradient": "InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad",
    "math.igamma_grad": "IgammaGradA",
    "math.matmul": "BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul SparseMatMul",
    "math.reduction": "All Any ArgMax ArgMin EuclideanNorm Max Mean Min Prod Sum",
    "math.requantize": (
        "RequantizationRange RequantizationRangePerChannel Requantize RequantizePerChannel"
    ),
    "math.segment": (
        "SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 "
        "SegmentSum SegmentSumV2 SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 "
        "SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad "
        "SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments SparseSegmentSum "
        "SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments "
        "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum _SegmentRows"
    ),
    "math.sequence": "LinSpace Range",
    "math.sobol": "SobolSample",
    "math.special": (
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 "
        "BesselK1e BesselY0 BesselY1 Betainc Dawsn Digamma Erf Erfc Erfinv Expint FresnelCos "
        "FresnelSin Igamma Igammac Lgamma Ndtri Polygamma Spence Zeta"
    ),
    "math.stochastic_cast": "StochasticCastToInt",
    "math.variant": "AddN",
    "math.vector": "CompareAndBitpack Cross NearestNeighbors",
    "nn.activation": "Elu LeakyRelu LogSoftmax Relu Relu6 Selu Softmax Softplus Softsign",
    "nn.activation_grad": (
        "BiasAddGrad EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad"
    ),
    "nn.approx_top_k": "ApproxTopK",
    "nn.conv.fused": "FusedPadConv2D FusedResizeAndPadConv2D",
    "nn.conv.grad_kernels": (
        "Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilter Conv3DBackpropFilterV2 "
        "Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropFilter "
        "DepthwiseConv2dNativeBackpropInput"
    ),
    "nn.conv.kernels": (
        "Conv Conv2D Conv3D DepthwiseConv2dNative _FusedConv2D _FusedConv3D "
        "_FusedDepthwiseConv2dNative"
    ),
    "nn.ctc.decode": "CTCBeamSearchDecoder CTCGreedyDecoder",
    "nn.ctc.loss": "CTCLoss CTCLossV2",
    "nn.data_format": "DataFormatDimMap DataFormatVecPermute",
    "nn.dilation": "Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput",
    "nn.isotonic": "IsotonicRegression",
    "nn.loss": (
        "InTopK InTopKV2 L2Loss SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits "
        "TopK TopKV2"
    ),
    "nn.norm.fused": "_FusedBatchNormEx",
    "nn.norm.global_norm": "BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad",
    "nn.norm.grad_kernels": "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 LRNGrad",
    "nn.norm.kernels": "BiasAdd BiasAddV1 FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 LRN",
    "nn.nth_element": "NthElement",
    "nn.pool.argmax": (
        "MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradWithArgmax "
        "MaxPoolWithArgmax"
    ),
    "nn.pool.fractional": (
        "FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad"
    ),
    "nn.pool.grad_kernels": "AvgPool3DGrad AvgPoolGrad MaxPool3DGrad MaxPoolGrad MaxPoolGradV2",
    "nn.pool.kernels": "AvgPool AvgPool3D MaxPool MaxPool3D MaxPoolV2",
    "nn.recurrent.block_lstm": "BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2",
    "nn.recurrent.kernels": "GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad",
    "nn.sampling.accidental_hits": "_AccidentalHits",
    "nn.sampling.candidates": (
        "AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler "
        "LearnedUnigramCandidateSampler LogUniformCandidateSampler "
        "ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler"
    ),
    "parsing.csv": "DecodeCSV",
    "parsing.decode_proto": "DecodeProtoV2",
    "parsing.encode_proto": "EncodeProto",
    "parsing.example": "ParseExample ParseExampleV2 ParseSingleExample",
    "parsing.json_example": "DecodeJSONExample",
    "parsing.number": "StringToNumber",
    "parsing.sequence": "ParseSequenceExample ParseSequenceExampleV2 ParseSingleSequenceExample",
    "parsing.tensor": "DecodeCompressed DecodePaddedRaw DecodeRaw ParseTensor SerializeTensor",
    "parsing.variant_tensor": "ParseTensor SerializeTensor",
    "quantized.arithmetic": "QuantizedAdd QuantizedMul",
    "quantized.calibration": "CustomAggregator",
    "quantized.calibration_saver": "CalibrationStatisticsSaver",
    "quantized.convert": "Dequantize QuantizeV2",
    "quantized.fake_quant": (
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient"
    ),
    "quantized.fused_convolution": (
        "QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize "
        "QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias "
        "QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize "
        "QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize "
        "QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize "
        "QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias "
        "QuantizedDepthwiseConv2DWithBiasAndRelu "
        "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize"
    ),
    "quantized.fused_ops": "_FusedQuantizedConv2D _FusedQuantizedDepthwiseConv2D _QuantizedMatMul",
    "quantized.fused_product": (
        "QuantizedMatMulWithBias QuantizedMatMulWithBiasAndDequantize "
        "QuantizedMatMulWithBiasAndRelu QuantizedMatMulWithBiasAndReluAndRequantize "
        "QuantizedMatMulWithBiasAndRequantize"
    ),
    "quantized.layers": (
        "QuantizeDownAndShrinkRange QuantizedAvgPool QuantizedBiasAdd QuantizedConcat "
        "QuantizedConcatV2 QuantizedConv2D QuantizedMatMul QuantizedMaxPool QuantizedRelu "
        "QuantizedRelu6 QuantizedReshape _QuantizedMaxPool3D"
    ),
    "quantized.norm": "QuantizedBatchNormWithGlobalNormalization QuantizedInstanceNorm",
    "quantized.packed": "XlaDequantize",
    "quantized.resize": "QuantizedResizeBilinear",
    "quantized.round_trip": (
        "QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 "
        "QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad"
    ),
    "quantized.uniform": (
        "UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue "
        "UniformRequantize"
    ),
    "quantized.uniform_products": (
        "UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot "
        "UniformQuantizedDotHybrid"
    ),
    "ragged.cross": "RaggedCross",
    "ragged.ops": (
        "RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedRange RaggedTensorToSparse"
    ),
    "ragged.to_tensor": "RaggedTensorToTensor",
    "ragged.variant": "RaggedTensorFromVariant RaggedTensorToVariant RaggedTensorToVariantGradient",
    "random.binomial": "StatefulRandomBinomial StatelessRandomBinomial",
    "random.gamma_grad": "RandomGammaGrad",
    "random.generator": (
        "NonDeterministicInts RngReadAndSkip RngSkip StatefulStandardNormal "
        "StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt "
        "StatefulUniformInt"
    ),
    "random.index_shuffle": "RandomIndexShuffle",
    "random.rejection": (
        "ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2 "
        "StatelessParameterizedTruncatedNormal StatelessRandomGammaV2 StatelessRandomGammaV3 "
        "StatelessRandomPoisson"
    ),
    "random.stateful": (
        "Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal"
    ),
    "random.stateless": (
        "StatelessMultinomial StatelessRandomGetAlg StatelessRandomGetKeyCounter "
        "StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2 "
        "StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 "
        "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 "
        "StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2"
    ),
    "signal.fft": (
        "BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D FFT FFT2D FFT3D IFFT "
        "IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D"
    ),
    "sparse.arithmetic": (
        "SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul "
        "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseSoftmax "
        "SparseSparseMaximum SparseSparseMinimum SparseTensorDenseAdd"
    ),
    "sparse.cholesky": "SparseMatrixOrderingAMD SparseMatrixSparseCholesky",
    "sparse.cross": "SparseCross SparseCrossV2",
    "sparse.cross_hashed": "SparseCrossHashed",
    "sparse.csr": (
        "CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor "
        "DenseToCSRSparseMatrix SparseMatrixMatMul SparseMatrixNNZ SparseMatrixSparseMatMul "
        "SparseMatrixTranspose SparseTensorToCSRSparseMatrix"
    ),
    "sparse.dense": "SparseToDense",
    "sparse.layout": (
        "SparseConcat SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseReshape "
        "SparseSlice SparseSliceGrad SparseSplit"
    ),
    "sparse.matmul": "SparseTensorDenseMatMul",
    "sparse.serialize": (
        "AddManySparseToTensorsMap AddSparseToTensorsMap DeserializeManySparse DeserializeSparse "
        "SerializeManySparse SerializeSparse TakeManySparseFromTensorsMap"
    ),
    "sparse.sets": (
        "DenseToDenseSetOperation DenseToSparseSetOperation SetSize SparseToSparseSetOperation"
    ),
    "state.mutex": "ConsumeMutexLock MutexLock MutexV2",
    "state.ref": (
        "Assign AssignAdd AssignSub CountUpTo DestroyTemporaryVariable IsVariableInitialized "
        "TemporaryVariable Variable VariableV2"
    ),
    "state.resource": (
        "AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp "
        "DisableCopyOnRead ReadVariableOp ResourceCountUpTo VarHandleOp VarIsInitializedOp "
        "VariableShape _ReadVariablesOp _VarHandlesOp"
    ),
    "state.scatter": (
        "ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv ResourceScatterMax "
        "ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdMax "
        "ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub "
        "ResourceScatterUpdate ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd "
        "ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate"
    ),
    "string.basic": (
        "DecodeBase64 EncodeBase64 StringJoin StringLength StringLower StringStrip StringUpper "
        "Substr"
    ),
    "string.format": "AsString StringFormat",
    "string.hash": (
        "StringToHashBucket StringToHashBucketFast StringToHashBucketStrong _TensorToHashBucketFast"
    ),
    "string.reduce": "ReduceJoin UnsortedSegmentJoin",
    "string.regex": "RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace",
    "string.script": "UnicodeScript",
    "string.split": "StringNGrams StringSplit StringSplitV2",
    "string.unicode": "UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode",
    "summary.protos": (
        "AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary "
        "TensorSummary TensorSummaryV2"
    ),
    "summary.writers": (
        "CloseSummaryWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent SummaryWriter "
        "WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary "
        "WriteRawProtoSummary WriteScalarSummary WriteSummary"
    ),
    "tensor_array.bulk": (
        "TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather "
        "TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayPack TensorArrayScatter "
        "TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySplit TensorArraySplitV2 "
        "TensorArraySplitV3 TensorArrayUnpack"
    ),
    "tensor_array.ops": (
        "TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayGrad "
        "TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayRead "
        "TensorArrayReadV2 TensorArrayReadV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3 "
        "TensorArrayV2 TensorArrayV3 TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3"
    ),
    "tensor_list.ops": (
        "EmptyTensorList TensorListConcatLists TensorListElementShape TensorListFromTensor "
        "TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack "
        "TensorListPushBackBatch TensorListReserve TensorListResize TensorListSetItem"
    ),
    "tensor_list.stack_concat": (
        "TensorListConcat TensorListConcatV2 TensorListGather TensorListScatter "
        "TensorListScatterIntoExistingList TensorListScatterV2 TensorListSplit TensorListStack"
    ),
    "tensor_map.ops": (
        "EmptyTensorMap TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup "
        "TensorMapSize TensorMapStackKeys"
    ),
    "training.ops": (
        "ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam "
        "ApplyAddSign ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent "
        "ApplyMomentum ApplyPowerSign ApplyProximalAdagrad ApplyProximalGradientDescent "
        "ApplyRMSProp ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad "
        "ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam "
        "ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp "
        "ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent "
        "ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign "
        "ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent ResourceApplyRMSProp "
        "ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA "
        "ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl "
        "ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum "
        "ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent "
        "ResourceSparseApplyRMSProp SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradDA "
        "SparseApplyAdagradV2 SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 "
        "SparseApplyMomentum SparseApplyProximalAdagrad SparseApplyProximalGradientDescent "
        "SparseApplyRMSProp"
    ),
    "training.sdca": "SdcaFprint SdcaShrinkL1",
    "training.sdca_optimizer": "SdcaOptimizer SdcaOptimizerV2",
    "training.word2vec": "NegTrain Skipgram",
    "variant.composite_tensor": (
        "CompositeTensorVariantFromComponents CompositeTensorVariantToComponents"
    ),
    "xla.call_module": "XlaCallModule",
    "xla.control_flow": "XlaIf XlaWhile",
    "xla.conv": "XlaConv XlaConvV2",
    "xla.gather": "XlaGather",
    "xla.ops": (
        "XlaBroadcastHelper XlaDot XlaDotV2 XlaDynamicSlice XlaDynamicUpdateSlice XlaEinsum "
        "XlaKeyValueSort XlaOptimizationBarrier XlaPad XlaReducePrecision XlaSelfAdjointEig "
        "XlaSetBound XlaSharding XlaSort XlaSvd"
    ),
    "xla.random": "XlaRngBitGenerator",
    "xla.reduce": "XlaReduce XlaReduceWindow XlaVariadicReduce XlaVariadicReduceV2",
    "xla.scatter": "XlaScatter XlaSelectAndScatter",
    "xla.sort": "XlaVariadicSort",
}
