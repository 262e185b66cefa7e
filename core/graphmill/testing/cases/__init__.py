r"""Op cases as data: inputs, attrs and expected results, one file per op family.

`<family>.toml` (or `<family>.<part>.toml`) has the cases, `results/<same stem>.npz` TensorFlow's
results, written by `tools/make_op_cases.py`. `graphmill.testing.case` reads the files.
`tools/grow_op_cases.py` writes the files `<family>.types.toml`: they cover the element types of
TensorFlow's CPU kernels that no other file covers.

A table is an op and its cases
------------------------------
The header names the op (or several, in quotes, separated by spaces). `in` lists the inputs in OpDef
order. Every key that is not one of the reserved keys below is an attr. Type and number attrs that
follow from the inputs can be omitted.

    [[MatMul]]
    each.T = ["float32", "float64", "int32"]                 # a sweep: three cases
    each.in = [["T[2,3]", "T[3,4]"], ["T[0,3]", "T[3,2]"]]   # times two
    transpose_b = false

    [["Sin Cos Tan"]]                                        # one table, three ops
    each.T = ["float32", "complex64"]
    in = ["T[2,3] -4..4"]

    [[MatMul]]
    in = ["float32[2,3]", "float32[4,5]"]
    error = "InvalidArgument"                                # the class without "Error"

Inputs
------
A string is `<dtype>[<shape>] <how>`; the dtype may be the name of a type attr of the table (`T`).

    "float32[2,3]"               the default: floats in [-2, 2), integers in -9..9 (unsigned 0..9),
                                 any bool, short words for strings, both parts of complex numbers
    "T[2,3] 0.5..4"              floats in [0.5, 4); integers from 0 to 4, both included
    "T[5] distinct"              unique values: 0..n-1 shuffled (floats: scaled and shifted)
    "T[6] iota"                  0, 1, 2 …
    "T[4] fill 7"                all equal
    "T[8] choice 1 2 5"          drawn from these
    "T[4] sorted", "T[4] 0..9 sorted"      ascending along the last axis
    "T[3,3] spd"                 symmetric (Hermitian), positive definite
    "T special"                  values that reveal mistakes: zeros of both signs, halves,
                                 extremes, inf, nan (floats); 0, 1, -1, smallest, largest …
                                 (integers); one-dimensional. With a shape: drawn from these
    "T special finite"           the same without inf and nan; "T special small" also without the
                                 huge and tiny ones
    "T special column"           with shape [n, 1]: combined with "T special" it gives every pair
    "T[4] 0..1 nan"              the second element replaced by nan ("inf" likewise)
    "T: [[1, 2], [3, nan]]"      these values (a Python literal, which may use nan and inf)
    "string: [b'\xff', 'é']"    strings; text is UTF-8

A number, a bool or a list of them is a tensor of int32, float32 or bool. A list of strings is a
list input: `in = [["T[2]", "T[3]"], 0]` are inputs of ConcatV2 with N=2; `[]` is a list input of
length 0.

The drawn values depend only on the op, the text of the input and its position, so adding a case
does not change others. `draw = 3` draws other values.

Attrs
-----
Types are names ("float32"), lists are lists, shapes are lists with -1 for unknown (or "unknown"),
tensors are input strings, functions are names of `functions`.

Sweeps
------
`each.<key> = [...]` makes one case per value, for an attr or a reserved key; several `each` give
the product. `each.case = [{...}, {...}]` merges each of these tables into the case, for keys that
vary together.

Reserved keys
-------------
    in           inputs in OpDef order
    each         sweeps
    label        a name in the id, instead of the table's index
    error        expected error class without "Error"; sessions also check that it names the node
    error_from   "values" if the error depends on input values, which a compiled kernel cannot check
    compare      "close" (default), "exact", "shape" (dtype and shape only), "set" (in any order)
    unspecified  [3, 4]: outputs with undefined content in TensorFlow: dtype and shape only
    close        {rtol = 1e-3, atol = 0, why = "..."}: overrides the tolerances of tolerances.toml
    skip         {jax = "why"}: backends (numpy, jax, session, jit) that do not run this case
    differs      "why": graphmill's result differs on purpose; `error` is graphmill's error, if any
    expect       graphmill's outputs, written like inputs, if its result `differs`
    draw         index of the draw
    note         a remark

Programs
--------
Ops with state or references need other nodes. Instead of `in`, a table may have `nodes`; the op in
the header is the one that the case counts for. Such cases run only in a session.

    [[AssignAddVariableOp]]
    each.dtype = ["float32", "int64"]
    feed = { x = "dtype[2,3]", d = "dtype[2,3]" }
    nodes = [
      "v = VarHandleOp(dtype=dtype, shape=[2, 3])",
      "init = AssignVariableOp(v, x)",
      "add = AssignAddVariableOp(v, d)",
      "y = ReadVariableOp(v, dtype=dtype, after=[add])",
    ]
    run = ["init", "y", "y"]          # three steps in one session; "a b" fetches two in one step

A node is `name = Op(input, ..., attr=value, after=[node, ...])`. `OP` is the op of the header, and
`Mine>Op` an op of a plugin. `u[1]` is output 1 of u, and `[a, b]` a list input. An attr value is a
Python literal, a dtype name, or the name of an attr or sweep of the table. An op without outputs
has no result. `error` is the error that a step must raise. `functions` has texts such as
`"f(x: float32, n: int32) -> (float32): y = Mul(x, x); return y"`, used as attr values by name.

Ids
---
`<op>/<label or index of the op's table>/<swept values>`, for instance `MatMul/0/float32/1`. In a
file `math.special.toml`, the part precedes the label: `Lgamma/special.0/float32`.
"""
