"""Reading and writing graphs: messages, model files, large constants."""
