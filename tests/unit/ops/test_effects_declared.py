"""Every op that uses files, network, processes, Python, clock or random state declares it.

Suspects are found by their definitions and names; those without effects are listed with a reason
that a person has reviewed.
"""

from __future__ import annotations

import re

import pytest

from graphmill.ops.definition.effects import EFFECTS, effects_of, listed_effects
from graphmill.ops.definition.op_registry import OpRegistry

# What a name tells: a pattern to the effects of which one must be declared.
NAMES = {
    r"ReadFile|WriteFile|MatchingFiles|^Save|^Restore|TextFile|TFRecord(?!Writer)|FixedLengthRecord"
    r"|TextLine|WholeFile|Checkpoint|LMDB|CSVDataset|Snapshot.*Dataset|LoadDataset|ImmutableConst"
    r"|FileSystem|SummaryFileWriter|LoadAndRemap|VocabRemapping": {"fs.read", "fs.write"},
    r"^Collective(?!Permute)|Nccl|MPI|Grpc|^Rpc|TryRpc|DataService|Bigtable|BigQuery|Kafka|Kinesis"
    r"|Ignite|SqlDataset|RemoteCall|RemoteFused": {"net"},
    r"^(Eager)?PyFunc": {"python"},
    r"^Abort$": {"process"},
    r"Sleep|Timestamp|LatencyStats": {"clock"},
    r"Random|Multinomial|Shuffle(?!Queue)|CandidateSampler|StatefulUniform|StatefulTruncated"
    r"|StatefulStandard|^Rng|SeedGenerator|FractionalAvgPool$|FractionalMaxPool$|TruncatedNormal$"
    r"|SampleDistorted|NonDeterministicInts": {"rng"},
    r"^Print": {"log"},
}
INNOCENT = {
    "CollectivePermute": "an op of XLA, within one program",
    "FileSystemSetConfiguration": "sets options of a file system and opens no file",
    "DeleteRandomSeedGenerator": "drops a generator; nothing is drawn",
    "DeleteSeedGenerator": "drops a generator; nothing is drawn",
    "DummySeedGenerator": "hands on a handle; nothing is drawn",
    "RandomIndexShuffle": "permutes by a seed that is an input; draws nothing of its own",
    "SingleImageRandomDotStereograms": "draws from a generator that begins again at every call",
}
# Effects that our kernel has beyond those of the op, with the reason.
OURS = {
    re.compile("^Debug"): {"python": "hands the value to the watch of the session, in Python"},
}
STATELESS = re.compile(r"^Stateless|Grad$|^Xla|^Risc|^_")


def suspects():
    ops = OpRegistry()
    for name in ops.names():
        for pattern, effects in NAMES.items():
            if re.search(pattern, name) and name not in INNOCENT and not STATELESS.search(name):
                yield pytest.param(ops.get(name), effects, id=f"{name}-{'-'.join(sorted(effects))}")


@pytest.mark.parametrize(("op", "effects"), list(suspects()))
def test_op_with_a_telling_name_declares_the_effect(op, effects):
    assert effects_of(op) & effects, f"{op.name} declares {sorted(effects_of(op))}"


def ours(name):
    """Return the effects of our kernels that the op does not declare."""
    return {effect for name_of, found in OURS.items() if name_of.search(name) for effect in found}


def ops_with_kernels(host):
    """Return the names of TensorFlow's ops that have a kernel."""
    return sorted(set(host.kernels.ops()) & set(OpRegistry().names()))


def test_stateful_op_declares_an_effect_or_is_listed(graphmill_host):
    for name in ops_with_kernels(graphmill_host):
        op = graphmill_host.ops.get(name)
        if op.is_stateful:
            assert effects_of(op) or name in listed_effects(), name


def test_effects_of_a_kernel_are_among_those_of_its_op(graphmill_host):
    for name in ops_with_kernels(graphmill_host):
        op = graphmill_host.ops.get(name)
        for registration in graphmill_host.kernels.registrations(op):
            extra = registration.definition.effects - effects_of(op) - ours(name)
            assert not extra, f"{registration.definition.source} has {sorted(extra)} for {name}"


def test_listed_ops_and_effects_exist():
    known = set(OpRegistry().names())
    for name, effects in listed_effects().items():
        assert name in known
        assert effects <= EFFECTS
