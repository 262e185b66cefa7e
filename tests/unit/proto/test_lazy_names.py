"""`graphmill.proto` imports only the requested messages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphmill import proto
from graphmill.proto._index import MODULE_OF


def loaded_after(statement: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after `statement`."""
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_no_protobuf():
    loaded = loaded_after("from graphmill import proto")
    assert not [name for name in loaded if name.startswith("google")]
    assert not [name for name in loaded if name.endswith("_pb2")]


def test_message_loads_only_required_modules():
    loaded = loaded_after("from graphmill import proto; proto.GraphDef")
    assert "graphmill.proto.node_def_pb2" in loaded
    assert "graphmill.proto.config_pb2" not in loaded
    assert "graphmill.proto.meta_graph_pb2" not in loaded


@pytest.mark.parametrize("name", MODULE_OF)
def test_every_name_is_found(name):
    module = getattr(proto, MODULE_OF[name])
    assert getattr(proto, name) is getattr(module, name)


def test_every_message_and_enum_has_a_name():
    for module in sorted(set(MODULE_OF.values())):
        file = getattr(proto, module).DESCRIPTOR
        assert {*file.message_types_by_name, *file.enum_types_by_name} <= MODULE_OF.keys()


def test_outer_package_wins_for_messages_of_one_name():
    assert proto.VersionDef.DESCRIPTOR.full_name == "graphmill.VersionDef"
    assert proto.splitter_versions_pb2.VersionDef is not proto.VersionDef


def test_names_can_be_imported_and_listed():
    from graphmill.proto import GraphDef, graph_pb2

    assert GraphDef is graph_pb2.GraphDef
    assert {"GraphDef", "DataType", "config_pb2"} <= set(dir(proto))


@pytest.mark.parametrize("name", ["GrafDef", "graf_pb2", "__wrapped__"])
def test_a_wrong_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"'graphmill.proto' has no attribute '{name}'"):
        getattr(proto, name)
