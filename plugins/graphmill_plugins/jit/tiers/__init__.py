"""The tiers of a cluster: which one serves a signature, and which events change that.

`states` holds the states, the events and the transition table; `tier_machine` sends the events;
`signature_table` holds the signatures and limits how many have programs; `program_builder` calls
the compiler; `signature_records` writes the records that `explain` shows, which no decision reads.
docs/explanation/tier-states.md has a diagram.
"""
