"""Shape functions that several families use, and those that traits imply."""
