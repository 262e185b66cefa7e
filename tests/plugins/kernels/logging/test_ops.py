"""Assert, Print and PrintV2 write the expected text to the expected stream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels._strings import string_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel


def test_assert_shows_its_data(call: Callable[..., Any]) -> None:
    data = [string_scalar(b"x ="), np.arange(5)]
    assert call("Assert", np.bool_(True), data) is None
    with pytest.raises(errors.InvalidArgumentError) as caught:
        call("Assert", np.bool_(False), data, summarize=2)
    assert caught.value.message == "assertion failed: [x =] [0 1...]"


def test_print_stops_after_first_n(
    bind_kernel: Callable[..., OpKernel], ctx: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    value, data = np.array([1.5]), [np.arange(4), string_scalar(b"s")]
    compute = bind_kernel("Print", value, data, message="now: ", first_n=2).compute
    for _ in range(3):
        assert compute(ctx, value, *data) is value
    assert capsys.readouterr().err == "now: [0 1 2...][s]\n" * 2


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_print_v2_writes_to_a_stream(
    bind_kernel: Callable[..., OpKernel],
    ctx: Any,
    capsys: pytest.CaptureFixture[str],
    stream: str,
) -> None:
    text = string_scalar("é".encode())
    bind_kernel("PrintV2", text, output_stream=stream, end="!").compute(ctx, text)
    captured = capsys.readouterr()
    assert (captured.out if stream == "stdout" else captured.err) == "é!"


def test_print_v2_writes_to_the_log(
    bind_kernel: Callable[..., OpKernel], ctx: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = string_scalar(b"careful")
    with caplog.at_level(logging.INFO, logger="graphmill.print"):
        bind_kernel("PrintV2", text, output_stream="log(warning)").compute(ctx, text)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "careful")
    ]


def test_print_v2_to_a_file_is_refused(bind_kernel: Callable[..., OpKernel], ctx: Any) -> None:
    text = string_scalar(b"x")
    with pytest.raises(errors.UnimplementedError, match="file:///tmp/x"):
        bind_kernel("PrintV2", text, output_stream="file:///tmp/x").compute(ctx, text)
