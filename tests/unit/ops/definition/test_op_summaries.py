"""Each op with a built-in kernel has a summary of one sentence."""

from __future__ import annotations

import graphmill
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.ops.definition.op_summaries import bundled_summaries, summary_of
from graphmill.plugin.host import default_host

LONGEST = 116


def test_every_op_with_a_kernel_has_a_summary() -> None:
    kernels = set(default_host().kernels.ops()) & set(bundled_ops().names())
    assert sorted(kernels - bundled_summaries().keys()) == []


def test_summaries_are_sorted_and_of_known_ops() -> None:
    names = list(bundled_summaries())
    assert names == sorted(names)
    assert sorted(set(names) - set(bundled_ops().names())) == []


def test_a_summary_is_one_sentence() -> None:
    for name, summary in bundled_summaries().items():
        assert summary == summary.strip(), name
        assert summary[0].isupper(), name
        assert summary.endswith("."), name
        assert ". " not in summary, name
        assert len(summary) <= LONGEST, name


def test_a_plugins_op_has_the_first_line_of_its_docstring() -> None:
    @graphmill.op("Mine>Halve")
    def halve(x: graphmill.float32) -> graphmill.float32:
        """Halve each element.

        Integers are not accepted.
        """

    function = graphmill.op_function(halve)
    assert summary_of(function.__graphmill_op__) == "Halve each element."
    assert (function.__doc__ or "").startswith("Halve each element.\n")


def test_function_of_an_op_has_its_summary() -> None:
    assert graphmill.ops.nn.conv2d.__doc__.startswith("Convolve images ")
