"""Resources, which outlive a step: variables, tables, queues, session tensors."""
