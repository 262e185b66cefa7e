"""The tiers of a cluster: which one serves a signature, and what changes that.

`states` holds the states, the events and the transition table; `tier_machine` sends the events;
`signature_table` holds the signatures and limits how many have programs; `program_builder` calls
the compiler; `signature_records` writes what `explain` shows, and no decision reads a record.
docs/explanation/tier-states.md has a diagram.
"""
