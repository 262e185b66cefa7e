"""Find the codec of a variant value, by its class or by the type name in a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from graphmill.runtime.variants.variant_codec import VariantCodec, VariantRegistry


def codec_names(variants: VariantRegistry) -> dict[type[Any], str]:
    """Return the names of all codecs by the class of their values; imports every codec.

    Raises:
        PluginError: a registered codec cannot be imported.
    """
    return {codec.value_class: name for name, codec in variants.items()}


def codec_of_value(
    value: object, names: dict[type[Any], str], variants: VariantRegistry
) -> tuple[str, VariantCodec]:
    """Return the type name and the codec of a value, whose class or base class has one.

    Args:
        value: the object in the variant.
        names: what `codec_names` returned.
        variants: the codecs.

    Raises:
        UnimplementedError: the type of the value has no codec.
    """
    for base in type(value).__mro__:
        name = names.get(base)
        if name is not None:
            return name, variants.get(name)
    raise UnimplementedError(
        f"a variant that holds a {type(value).__name__} cannot leave its process: its type has no "
        "codec. Place the nodes that create and use it on one task, or register a codec in "
        f"{variants.hook}. There are codecs for {_known(variants)}"
    )


def codec_of_name(type_name: str, variants: VariantRegistry) -> VariantCodec:
    """Return the codec of a type name in a message.

    Raises:
        UnimplementedError: the type has no codec.
        PluginError: its codec cannot be imported.
    """
    codec = variants.find(type_name)
    if codec is None:
        raise UnimplementedError(
            f"a variant of type {type_name[:100]!r} was received, which has no codec here; a "
            f"plugin registers one in {variants.hook}. There are codecs for {_known(variants)}"
        )
    return codec


def _known(variants: VariantRegistry) -> str:
    return ", ".join(variants.keys()) or "no type"
