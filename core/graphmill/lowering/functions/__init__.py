"""Functions: their bodies after graph passes, and running them."""
