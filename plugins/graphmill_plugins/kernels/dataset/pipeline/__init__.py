"""The datasets of a pipeline and their iterators, which the kernels of this family create."""
