"""The plumbing that every API shares: from a connection to a typed request, and from a typed answer to bytes."""
