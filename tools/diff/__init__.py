"""What a change of the documents does to clients: each difference as breaking, risky or safe, in its direction."""
