"""Random graphs with a fault fail as in TensorFlow, and the error names the node.

`GRAPHMILL_WRONG_PROGRAMS=1000` compares 1,000 programs, `GRAPHMILL_WRONG_PROGRAMS=700:800` those of
the seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.graphs.wrong_programs import WrongProgram

from graphmill import errors
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.oracle.tensorflow_oracle import session_config

pytestmark = pytest.mark.oracle

FRONT_END = {"InvalidArgument", "NotFound", "AlreadyExists"}
"""Our classes where TensorFlow's Python refuses a program before its runtime sees it."""


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_WRONG_PROGRAMS", "200").rpartition(":")
    return range(int(first or 0), int(end))


def ours(program, host, mode):
    """Return the values, or the class of the error, and the error."""
    from graphmill.session.session import Session

    try:
        with Session(graph=program.graph_def, host=host, config=jit_config(mode)) as session:
            return session.run(program.fetches, program.feeds), None
    except errors.OpError as error:
        return errors.error_class(error.code).__name__.removesuffix("Error"), error


def theirs(program, tf):
    """Return the values, or the class of the error, and whether the runtime raised it."""
    try:
        with tf.Graph().as_default() as graph:
            content = program.graph_def.SerializeToString()
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
        with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
            return session.run(program.fetches, program.feeds), True
    except tf.errors.OpError as error:
        return type(error).__name__.removesuffix("Error"), True
    except (ValueError, TypeError, KeyError) as error:
        return type(error).__name__, False


@pytest.mark.parametrize("seed", seeds())
def test_a_wrong_program_fails_alike(seed, tf, graphmill_host):
    compare(tf, graphmill_host, seed)


def compare(tf, host, seed):
    program = WrongProgram(seed, host.ops)
    expected, from_runtime = theirs(program, tf)
    for mode in ("off", "eager"):
        found, error = ours(program, host, mode)
        where = f"{mode}, {program.fault}: {found!r} ({error}), not {expected!r}"
        if not isinstance(expected, str):
            assert error is None, where
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, 2e-4, 2e-3, err_msg=where)
        elif from_runtime:
            assert found == expected, where
        else:
            assert found in FRONT_END, where
        if error is not None:
            names = {node.name for node in program.graph_def.node} | {"nowhere"}
            assert error.node or any(name in error.message for name in names), where
