"""The table of nodes fits a terminal, and is complete elsewhere."""

from __future__ import annotations

from graphmill.cli.output.formatting import Table
from graphmill.cli.output.node_table import node_blocks
from graphmill.explain.step import NodeRecord


def record(name: str, op: str = "Neg", kernel: str = "math.unary.neg") -> NodeRecord:
    return NodeRecord(
        *(name, op, "/job:localhost/replica:0/task:0/device:CPU:0"),
        *("the session has one device", kernel, "kernels", "numpy", ()),
    )


def widest(table: Table) -> int:
    cells = [table.columns, *table.rows]
    return sum(max(len(str(row[i])) for row in cells) + 2 for i in range(len(table.columns)))


def test_names_are_complete_without_a_terminal() -> None:
    line, table = node_blocks([record("a/b/c"), record("a/b/d")], None)
    assert line == "placement of all nodes: the session has one device"
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["a/b/c", "a/b/d"]
    assert list(table.columns) == ["node", "op", "device", "kernel", "backend", "tier"]


def test_added_nodes_and_nodes_that_have_not_run_are_marked() -> None:
    records = [record("a"), record("b")]
    *_, table = node_blocks(records, None, {"b"}, has_run=False)
    assert isinstance(table, Table)
    assert [(row[1], row[-1]) for row in table.rows] == [
        ("Neg", "not run yet"),
        ("Neg (added)", "not run yet"),
    ]


def test_nodes_are_listed_below_their_scope() -> None:
    *_, table = node_blocks([record("a/b/c"), record("a/b/d"), record("e"), record("f/g")], 200)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["a/b/", "  c", "  d", "e", "f/g"]


def test_columns_with_one_value_become_lines() -> None:
    *notes, table = node_blocks([record("a"), record("b", kernel="other")], 200)
    assert isinstance(table, Table)
    assert list(table.columns) == ["node", "op", "kernel", "tier"]
    assert "device of all nodes: CPU:0" in notes


def test_narrow_terminal_omits_columns_with_a_note() -> None:
    records = [record("scope/" + "long" * 20 + str(n), kernel=f"kernel{n}" * 4) for n in range(2)]
    blocks = node_blocks(records, 60)
    (table,) = (block for block in blocks if isinstance(block, Table))
    assert isinstance(table, Table)
    assert list(table.columns) == ["node", "op", "tier"]
    assert widest(table) <= 60
    assert str(blocks[-1]).startswith("left out")
    assert table.rows[1][0] != table.rows[2][0]


def test_no_nodes_are_an_empty_table() -> None:
    (table,) = node_blocks([], 80)
    assert isinstance(table, Table)
    assert table.rows == []
