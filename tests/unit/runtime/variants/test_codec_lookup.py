"""Codecs are found by type name and by the class of a value; a missing one is a typed error."""

from __future__ import annotations

import types
from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.registry import PluginError, Provenance, instance_of
from graphmill.runtime.variants.codec_lookup import codec_names, codec_of_name, codec_of_value
from graphmill.runtime.variants.variant_codec import VariantCodec, VariantData, VariantRegistry

MINE = Provenance("mine")


class Animal:
    """The value of a variant type."""


class Cat(Animal):
    """A value of a subclass."""


CODEC = VariantCodec(Animal, lambda value: VariantData(), lambda data: Animal())


def registry(value: object = CODEC) -> VariantRegistry:
    made = VariantRegistry(
        "variant", hook="graphmill_register_variants", prepare=instance_of(VariantCodec)
    )
    made.add("Mine>Animal", value, owner=MINE)
    return made


def of_value(value: object, variants: VariantRegistry) -> tuple[str, VariantCodec]:
    return codec_of_value(value, codec_names(variants), variants)


def test_codecs_are_found_by_class_and_by_name() -> None:
    assert of_value(Animal(), registry()) == ("Mine>Animal", CODEC)
    assert codec_of_name("Mine>Animal", registry()) is CODEC


def test_a_subclass_is_encoded_as_its_base() -> None:
    assert of_value(Cat(), registry())[0] == "Mine>Animal"


def test_a_value_without_a_codec_names_its_class_and_the_hook() -> None:
    with pytest.raises(errors.UnimplementedError, match=r"holds a int .*register_variants"):
        of_value(5, registry())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(errors.UnimplementedError, match=r"'Mine>Dog'.*codecs for Mine>Animal"):
        codec_of_name("Mine>Dog", registry())
    with pytest.raises(errors.UnimplementedError, match="codecs for no type"):
        codec_of_name("x" * 1000, VariantRegistry("variant"))


def test_error_of_an_invalid_codec_names_the_plugin() -> None:
    with pytest.raises(PluginError, match=r"'Mine>Animal'.*'mine'"):
        codec_of_name("Mine>Animal", registry(Animal))


def test_plugin_registers_its_own_codec() -> None:
    plugin = types.ModuleType("zoo")

    @graphmill.hookimpl
    def graphmill_register_variants(variants: Any) -> None:
        variants.add("Zoo>Animal", CODEC)

    vars(plugin)["graphmill_register_variants"] = graphmill_register_variants
    host = graphmill.Host([plugin])
    assert of_value(Cat(), host.variants)[0] == "Zoo>Animal"
