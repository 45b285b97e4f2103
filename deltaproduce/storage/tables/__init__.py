"""The tables of a store: how they are reached, what is read, committed and maintained."""
