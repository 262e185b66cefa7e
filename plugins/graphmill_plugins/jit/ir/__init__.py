"""What a node becomes on its way into a program: forms, sources, routines, signatures, handles."""
