"""The tiers of a cluster: which one serves a signature, and what changes that.

`states` has the states, the events and the table of transitions; `machine` sends the events;
`signature_table` keeps the signatures and shares out the places for compiled ones; `program_maker`
asks the compiler; `signature_records` writes what `explain` shows. Nothing here reads a record.
docs/explanation/tier-states.md draws it.
"""
