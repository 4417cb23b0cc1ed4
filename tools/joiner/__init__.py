"""The node's side of a join: how it knows its founder, what it keeps, and how it runs and reports its steps."""
