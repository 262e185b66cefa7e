"""Old public names still work and warn."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import dtypes, functions, train
from graphmill.backprop.backward_pass import BackwardPass
from graphmill.backprop.forward_op import ForwardOp
from graphmill.backprop.gradient_options import GradientOptions
from graphmill.deprecations import (
    RENAMED_MODULES,
    RENAMED_NAMES,
    RENAMED_PASSES,
    deprecated_aliases,
    install_module_aliases,
    names_pass,
    renamed_arguments,
)
from graphmill.explain.compilation import ClusterRecord, Compilation
from graphmill.explain.step import StepRecord
from graphmill.lowering.functions.function_runtime import FunctionLibraryRuntime
from graphmill.lowering.passes import DISABLE_VARIABLE, is_switched_off
from graphmill.runtime.devices.allocator import LimitedAllocator
from graphmill.runtime.resources.variables import Variable
from graphmill.runtime.state_machine import Transition
from graphmill.spi import kernels
from graphmill.testing.fakes.fault_injection import Faults
from graphmill.testing.runners.subprocess_runner import CaseProcess
from graphmill.testing.runners.tier_runner import TierResult

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = [(module, old) for module, names in RENAMED_NAMES.items() for old in names]


@pytest.fixture(autouse=True)
def forget_old_modules() -> Iterator[None]:
    install_module_aliases()
    yield
    for old in RENAMED_MODULES:
        sys.modules.pop(old, None)


@pytest.mark.parametrize("old", sorted(RENAMED_MODULES))
def test_renamed_module_is_importable_by_its_old_name(old: str) -> None:
    new = RENAMED_MODULES[old]
    with pytest.warns(DeprecationWarning, match=new.replace(".", r"\.")):
        module = importlib.import_module(old)
    assert module is importlib.import_module(new)
    assert module.__spec__ is not None
    assert module.__spec__.name == new


@pytest.mark.parametrize(("module", "old"), NAMES)
def test_renamed_name_is_found_by_its_old_name(module: str, old: str) -> None:
    new = RENAMED_NAMES[module][old]
    found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(found, old) is getattr(found, new)


def test_old_name_of_the_plugin_interface_warns_where_it_is_used() -> None:
    with pytest.warns(DeprecationWarning, match="'UNIQUE_INDICES'") as caught:
        _ = kernels.DISTINCT_ROWS
    assert caught[0].filename == __file__


def test_old_attribute_of_a_variable_is_the_new_one() -> None:
    variable = Variable(dtypes.float32)
    cache = ((lambda: None), (lambda: 1))
    with pytest.warns(DeprecationWarning, match="'compiler_cache'") as caught:
        variable.kept = cache
    assert caught[0].filename == __file__
    assert variable.compiler_cache is cache
    with pytest.warns(DeprecationWarning, match="'compiler_cache'"):
        assert variable.kept is cache


def test_old_method_of_the_function_library_runtime_calls_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = FunctionLibraryRuntime.__new__(FunctionLibraryRuntime)
    monkeypatch.setattr(FunctionLibraryRuntime, "has_random_ops", lambda _, name: name == "drawn")
    with pytest.warns(DeprecationWarning, match="'has_random_ops'") as caught:
        assert runtime.draws_numbers("drawn")
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "record",
    [
        ClusterRecord("cluster", ()),
        StepRecord((), (), (), 0, 0, "auto", "", (), {}),
    ],
    ids=["ClusterRecord", "StepRecord"],
)
def test_old_attribute_of_a_record_is_the_new_one(record: Any) -> None:
    with pytest.warns(DeprecationWarning, match="'history'") as caught:
        assert record.story is record.history
    assert caught[0].filename == __file__


def test_old_method_of_faults_is_the_new_one() -> None:
    faults = Faults()
    with pytest.warns(DeprecationWarning, match="'release'") as caught:
        faults.let_go()
    assert caught[0].filename == __file__
    faults.wait_for_delay()  # returns at once


def test_old_attribute_of_a_tier_result_is_the_new_one() -> None:
    result = TierResult([], frozenset(), [])
    with pytest.warns(DeprecationWarning, match="'results'") as caught:
        assert result.answers is result.results
    assert caught[0].filename == __file__


def test_old_method_of_a_case_process_is_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CaseProcess, "run", lambda _, text: text)
    with (
        CaseProcess("numpy") as process,
        pytest.warns(DeprecationWarning, match="'run'") as caught,
    ):
        assert process.ask("case") == "case"  # type: ignore[comparison-overlap]
    assert caught[0].filename == __file__


def test_old_attribute_of_a_forward_op_is_the_new_one() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [])
        backward = BackwardPass(graph, graphmill.default_host(), "gradients", (), GradientOptions())
    op = ForwardOp(x.op, backward)
    with pytest.warns(DeprecationWarning, match="'backward_pass'") as caught:
        assert op.walk is op.backward_pass
    assert caught[0].filename == __file__


def test_old_method_of_a_session_is_the_new_one() -> None:
    with graphmill.Session() as session:
        with pytest.warns(DeprecationWarning, match="'loading_a_model'") as caught:
            reading = session.reading_its_model()
        assert caught[0].filename == __file__
        with reading:
            pass


def test_records_have_old_keys_as_plain_values() -> None:
    compilation = Compilation()
    cluster = ClusterRecord("cluster", ())
    cluster.loops.append(ClusterRecord("loop", ()))
    cluster.loops[0].history.add(Transition("s", "a", "b", "c"))
    compilation.clusters.append(cluster)
    step = StepRecord((), (), (), 0, 0, "auto", "", (), {"cpu": compilation}).as_dict()
    loop = step["compilations"]["cpu"]["clusters"][0]["loops"][0]
    assert loop["story"] == loop["history"] != []
    assert step["story"] == step["history"] == []


def test_allocator_with_old_method_names_works() -> None:
    freed = []
    with pytest.warns(DeprecationWarning, match=r"Old\._\w+ is now") as caught:

        class Old(LimitedAllocator):
            def _take(self, num_bytes: int) -> Any:
                return super()._take(num_bytes)  # type: ignore[misc]

            def _give_back(self, memory: Any) -> None:
                freed.append(memory)

    assert caught[0].filename == __file__
    assert len(caught) == 2
    allocator = Old("a device")
    memory = allocator.allocate(8)
    allocator.deallocate(memory)
    assert freed[0] is memory


@pytest.mark.parametrize("module", sorted(RENAMED_NAMES))
def test_unknown_name_is_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match="never_there"):
        _ = importlib.import_module(module).never_there


@pytest.mark.parametrize("old", sorted(RENAMED_PASSES))
def test_renamed_pass_is_switched_off_by_its_old_name(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = RENAMED_PASSES[old]
    monkeypatch.setenv(DISABLE_VARIABLE, f"other,{old}")
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now '{new}'"):
        assert is_switched_off(new)
    assert not is_switched_off("constant_folding")


def test_pass_is_named_by_its_new_name_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    assert names_pass(frozenset({"read_before_write"}), "read_before_write")
    assert not recwarn.list


def test_unknown_module_of_the_kit_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"graphmill\.testing\.never_there"):
        importlib.import_module("graphmill.testing.never_there")


@renamed_arguments(variable="var")
def twice(var: int, factor: int = 2) -> int:
    """Return a product."""
    return var * factor


def test_renamed_argument_is_accepted_by_its_old_name() -> None:
    old: Any = {"variable": 3}
    with pytest.warns(DeprecationWarning, match="the argument 'variable' of twice is now 'var'"):
        assert twice(**old, factor=5) == 15
    assert twice(3) == twice(var=3) == 6
    with pytest.raises(TypeError, match="both 'var' and its old name 'variable'"):
        twice(var=3, **old)
    assert list(inspect.signature(twice).parameters) == ["var", "factor"]


@deprecated_aliases(dim="axis")
def along(value: int, axis: int | None = None) -> tuple[int, int | None]:
    """Return the arguments."""
    return value, axis


def test_deprecated_alias_is_accepted_with_a_warning() -> None:
    call: Any = along
    with pytest.warns(DeprecationWarning, match="'dim' of along is deprecated, as in TensorFlow"):
        assert call(1, dim=3) == (1, 3)
    assert call(1, dim=None, axis=2) == (1, 2)
    with pytest.raises(ValueError, match="Cannot specify both 'dim' and 'axis'"):
        call(1, 0, dim=3)
    with pytest.raises(TypeError, match="None for 'axis'"):
        call(1, None, dim=3)
    assert list(inspect.signature(along).parameters) == ["value", "axis"]


def test_functions_accept_the_deprecated_names_of_tensorflow() -> None:
    names: Any = functions
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [2, 1, 3])
        with pytest.warns(DeprecationWarning, match="deprecated, as in TensorFlow"):
            results = [
                names.reduce_sum(x, reduction_indices=[0], keep_dims=True),
                names.argmax(x, dimension=2),
                names.expand_dims(x, dim=0),
                names.squeeze(x, squeeze_dims=[1]),
                names.moments(x, [0], keep_dims=True)[0],
            ]
    shapes = [(1, 1, 3), (2, 1), (1, 2, 1, 3), (2, 3), (1, 1, 3)]
    assert [result.shape for result in results] == shapes


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (graphmill.variables_initializer, "variables", "var_list"),
        (graphmill.Graph.device, "spec", "device_name_or_function"),
        (graphmill.saved_model.load, "path", "export_dir"),
        (train.add_queue_runner, "runner", "qr"),
        (train.get_checkpoint_state, "folder", "checkpoint_dir"),
        (train.latest_checkpoint, "folder", "checkpoint_dir"),
        (train.latest_checkpoint, "state_file", "latest_filename"),
        (train.list_variables, "path", "ckpt_dir_or_file"),
        (train.load_checkpoint, "path", "ckpt_dir_or_file"),
        (train.ExponentialMovingAverage.average, "variable", "var"),
        (train.ExponentialMovingAverage.average_name, "variable", "var"),
        (
            train.ExponentialMovingAverage.variables_to_restore,
            "variables",
            "moving_avg_variables",
        ),
        (train.Optimizer.get_slot, "variable", "var"),
    ],
)
def test_argument_has_the_name_that_tensorflow_uses(function: Any, old: str, new: str) -> None:
    assert new in inspect.signature(function).parameters
    arguments: Any = {old: None}
    with (
        pytest.warns(DeprecationWarning, match=f"'{old}' of .* is now '{new}'"),
        contextlib.suppress(Exception),  # none of these is a valid call
    ):
        function(**arguments)
