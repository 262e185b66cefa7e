"""What users pass to op functions, and the graph that receives the nodes."""
