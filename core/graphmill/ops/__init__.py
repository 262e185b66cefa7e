"""Ops: what TensorFlow's ops take and give, as data, and one Python function for each.

Definitions are in `op_defs.jsonl`, one line per op, parsed when an op is first asked for
(`graphmill.ops.op_registry`). They are facts about TensorFlow: the ops that the 2.21 wheel
registers (`tools/make_op_defs.py` compares), and those that only 1.15 had, from its list of ops and
its C++ registrations. Descriptions are left out.
"""
