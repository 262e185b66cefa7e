"""Options as messages, bytes or dicts (clause S1)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphmill import errors, proto
from graphmill.session.options import as_message, copy_message, run_options_of
from graphmill.timeline import StepTrace

LEVEL_5 = proto.ConfigProto()
LEVEL_5.graph_options.optimizer_options.opt_level = 5  # type: ignore[assignment]


def test_s1_none_means_the_defaults() -> None:
    assert as_message(proto.ConfigProto, None, "config") == proto.ConfigProto()


def test_s1_message_is_used_unchanged() -> None:
    config = proto.ConfigProto(allow_soft_placement=True)
    assert as_message(proto.ConfigProto, config, "config") is config


def test_s1_bytes_and_dicts_become_the_message() -> None:
    config = proto.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
    from_bytes = as_message(proto.ConfigProto, config.SerializeToString(), "config")
    from_dict = as_message(
        proto.ConfigProto, {"allow_soft_placement": True, "device_count": {"CPU": 2}}, "config"
    )
    assert from_bytes == from_dict == config


class Foreign:
    """A message of another library, as TensorFlow's ConfigProto is."""

    DESCRIPTOR = SimpleNamespace(name="ConfigProto")

    def __init__(self) -> None:
        self.content = proto.ConfigProto(inter_op_parallelism_threads=3).SerializeToString()

    def SerializeToString(self) -> bytes:
        return self.content

    def ParseFromString(self, content: bytes) -> None:
        self.content = content


def test_s1_a_message_of_another_library_is_read() -> None:
    assert as_message(proto.ConfigProto, Foreign(), "config").inter_op_parallelism_threads == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "config is a int; expected a ConfigProto message, its bytes, or a dict"),
        ([], "config is a list"),
        (proto.RunOptions(), "config is a RunOptions"),
        (b"\xff\xff\xff", "config: the bytes are not a valid ConfigProto"),
        (
            {"alow_soft_placement": True},
            r"config has no field .*; did you mean 'allow_soft_placement'.* \(ConfigProto has the ",
        ),
        (
            {"graphmill": {"jti": "off"}},
            r"config.graphmill has no field 'jti'.*\(GraphmillOptions has the fields .*, jit, ",
        ),
        (
            {"session_inter_op_thread_pool": [{}, {"num_thread": 1}]},
            "session_inter_op_thread_pool has no field 'num_thread'; did you mean 'num_threads'",
        ),
        (
            {"clusterDef": {"job": [{"nam": "worker"}]}},
            r"config.clusterDef.job has no field 'nam'; did you mean 'name'",
        ),
        (
            {
                "graph_options": {
                    "rewrite_options": {
                        "custom_optimizers": [{"parameter_map": {"a": {"ss": ""}}}],
                    }
                }
            },
            "config.graph_options.rewrite_options.custom_optimizers.parameter_map has no field",
        ),
        (
            {"graph_options": {"optimizer_options": {"opt_level": "L7"}}},
            r"config.graph_options.optimizer_options.opt_level is 'L7'.*\(expected one of L1, L0",
        ),
        ({"allow_soft_placement": "maybe"}, "config: "),
        ({"device_count": 5}, "config: "),
        ({"gpu_options": 5}, "config: "),
        ({"session_inter_op_thread_pool": {"a": 1}}, "session_inter_op_thread_pool has no field"),
        ({"inter_op_parallelism_threads": 1.5}, "config: "),
        ({"inter_op_parallelism_threads": 2**40}, "config: "),
        ({5: 5}, "config: "),
    ],
    ids=repr,
)
def test_s1_invalid_config_is_invalid_argument(value: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        as_message(proto.ConfigProto, value, "config")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("graph_options.optimizer_options", LEVEL_5),
        (
            "graph_options.rewrite_options",
            {"graph_options": {"rewrite_options": {"constant_folding": 99}}},
        ),
    ],
    ids=["message", "dict"],
)
def test_s1_unknown_numbers_of_enums_are_invalid(path: str, value: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=rf"config\.{path}\.\w+ is \d+; expected"):
        as_message(proto.ConfigProto, value, "config")


def test_s6_enums_in_lists_and_maps_are_checked() -> None:
    config = proto.ConfigProto(device_count={"CPU": 1})
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    entry.parameter_map["rate"].type = 1
    as_message(proto.ConfigProto, config, "config")
    entry.parameter_map["rate"].type = 999
    with pytest.raises(errors.InvalidArgumentError, match=r"parameter_map\.type is 999"):
        as_message(proto.ConfigProto, config, "config")


def test_s6_metadata_has_the_callers_class() -> None:
    source = proto.RunMetadata()
    source.step_stats.dev_stats.add(device="/cpu:0")
    target = proto.RunMetadata()
    target.step_stats.dev_stats.add(device="old")
    copy_message(source, target)
    assert target == source
    foreign = Foreign()
    copy_message(source, foreign)  # type: ignore[arg-type]
    assert foreign.content == source.SerializeToString()


def test_run_options_are_given_in_any_form() -> None:
    expected = proto.RunOptions(timeout_in_ms=7)
    for options in (expected, expected.SerializeToString(), {"timeout_in_ms": 7}):
        assert run_options_of(options) == expected
    assert run_options_of(None) is None


def test_a_step_trace_requests_a_full_trace() -> None:
    full = proto.RunOptions.FULL_TRACE
    assert run_options_of(None, StepTrace()).trace_level == full
    assert run_options_of({"timeout_in_ms": 7}, StepTrace()).timeout_in_ms == 7
    assert run_options_of(None, proto.RunMetadata()) is None
