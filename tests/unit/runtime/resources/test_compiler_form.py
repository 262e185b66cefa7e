"""Variables hold a compiler's form of their values until somebody reads them."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.runtime.process import effects
from graphmill.runtime.resources import compiler_form, exclusive_update
from graphmill.runtime.resources.compiler_form import (
    drop_form,
    forms_of,
    kind_of,
    register_form,
    set_forms,
)
from graphmill.runtime.resources.exclusive_update import acquire, release, value_of, writable
from graphmill.runtime.resources.variables import Ref, Variable, slot_of

needs_gil = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="values are converted at once"
)


class Form:
    """A form that remembers how often it was converted."""

    def __init__(self, *elements: float) -> None:
        self._array = np.array(elements, np.float32)
        self._array.flags.writeable = False
        self.shape = self._array.shape
        self.num_converted = 0

    def convert(self) -> np.ndarray:
        self.num_converted += 1
        return self._array.view()


register_form(Form, Form.convert)


def set_form(variable, form):
    with variable.lock:
        set_forms([variable], [form])


@pytest.fixture(params=[Variable, Ref])
def variable(request):
    return request.param(dtypes.float32, (2,), "v")


@needs_gil
def test_form_is_converted_by_readers_only(variable):
    form = Form(1, 2)
    set_form(variable, form)
    set_form(variable, form)
    assert slot_of(variable) is form
    assert form.num_converted == 0
    assert variable.value.tolist() == [1, 2]
    assert form.num_converted == 1


def test_assigned_value_is_returned_itself(variable):
    set_form(variable, Form(1, 2))
    value = variable.value = np.zeros(2, np.float32)
    assert variable.value is value
    variable.value = None
    assert not variable.is_initialized


def test_variable_keeps_its_kind(variable):
    kind = type(variable)
    set_form(variable, Form(1, 2))
    assert isinstance(variable, kind)
    assert kind_of(variable) is kind
    assert type(variable).__name__ == kind.__name__
    assert kind_of(3) is int


def test_without_the_gil_values_are_converted_at_once(variable, monkeypatch):
    monkeypatch.setattr(effects, "has_gil", lambda: False)
    kind = type(variable)
    set_form(variable, Form(1, 2))
    assert type(variable) is kind
    assert type(slot_of(variable)) is np.ndarray


def test_variable_of_another_class_gets_the_value():
    class Special(Variable):
        __slots__ = ()

    variable = Special(dtypes.float32, (2,))
    set_form(variable, Form(1, 2))
    assert type(variable) is Special
    assert type(slot_of(variable)) is np.ndarray


def test_a_fork_converts_forms(variable):
    forms = [Form(1, 2), Form(3, 4)]
    set_form(variable, forms[0])
    compiler_form._suspend()
    try:
        assert slot_of(variable).tolist() == [1, 2]
        set_form(variable, forms[1])
        assert slot_of(variable).tolist() == [3, 4]
    finally:
        compiler_form._resume()


@needs_gil
def test_a_fork_does_not_wait_for_a_locked_variable(variable):
    form = Form(1, 2)
    set_form(variable, form)
    with variable.lock:
        compiler_form._suspend()
        compiler_form._resume()
    assert slot_of(variable) is form


def test_value_is_updated_in_a_copy(variable):
    set_form(variable, Form(1, 2))
    before = variable.value
    with variable.lock, writable(variable) as array:
        array += 1
    assert before.tolist() == [1, 2]
    assert variable.value.tolist() == [2, 3]


@needs_gil
def test_forms_of_variables(variable):
    form, other = Form(1, 2), Variable(dtypes.float32)
    set_form(variable, form)
    assert forms_of([other, variable, other], Form) == [None, form, None]
    assert forms_of([variable], np.ndarray) == [None]
    variable.value = np.zeros(2, np.float32)
    assert forms_of([variable], Form) == [None]


def test_variable_that_cannot_be_acquired_has_a_value(variable, monkeypatch):
    """A program that overwrites a value's memory makes a copy if there is an array of it."""
    monkeypatch.setattr(exclusive_update, "counts_prove_ownership", lambda: False)
    set_form(variable, Form(1, 2))
    with variable.lock:
        assert not acquire(variable)
    assert type(slot_of(variable)) is np.ndarray
    assert variable.value.tolist() == [1, 2]


@needs_gil
def test_acquired_variable_has_a_value(variable):
    set_form(variable, Form(1, 2))
    with variable.lock:
        assert acquire(variable)
        assert value_of(variable).tolist() == [1, 2]
        release(variable)
    drop_form(variable)  # it holds none
    assert variable.value.tolist() == [1, 2]


def test_shapes(variable):
    other = Variable(dtypes.float32)
    assert Variable.shapes_of([variable, other]) is None
    set_form(variable, Form(1, 2))
    other.value = np.zeros((3, 4))
    assert Variable.shapes_of([variable, other]) == [(2,), (3, 4)]


@needs_gil
def test_shape_of_a_value_that_is_being_replaced_is_waited_for(variable):
    variable.value = np.zeros(2, np.float32)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(Variable.shapes_of([variable])))
    with variable.lock:
        assert acquire(variable)
        compiler_form._set(variable, None)
        reader.start()
        reader.join(0.05)
        compiler_form._set(variable, np.zeros(3))
        release(variable)
    reader.join()
    assert seen == [[(3,)]]


@needs_gil
def test_reader_that_waited_gets_a_value(variable):
    """The variable may hold a form when the reader has waited for an update in place."""
    variable.value = np.zeros(2, np.float32)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(variable.value))
    with variable.lock:
        assert acquire(variable)
        reader.start()
        reader.join(0.05)
        release(variable)
        set_forms([variable], [Form(1, 2)])
    reader.join()
    assert seen[0].tolist() == [1, 2]


def test_readers_see_the_old_value_or_the_new_one(variable):
    """Forms, values and updates in place follow each other while two threads read."""
    variable.value = np.zeros(2, np.float32)
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            value = variable.value
            is_whole = type(value) is np.ndarray and value[0] == value[1]
            wrong.extend([] if is_whole else [value])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1000):
        set_form(variable, Form(number, number))
        with variable.lock, writable(variable) as array:
            array += 1
        with variable.lock, writable(variable) as array:
            array += 1
        set_form(variable, Form(number, number))
        variable.value = np.full(2, number, np.float32)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
