"""What the shape functions of several families use, and those that traits imply."""
