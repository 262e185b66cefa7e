"""Resources: what outlives a step (variables, tables, queues, session tensors)."""
