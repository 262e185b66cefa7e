"""Static inference of shapes and values, before a graph runs."""
