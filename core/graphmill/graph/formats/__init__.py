"""Read and write graphs: messages, model files, large constants."""
