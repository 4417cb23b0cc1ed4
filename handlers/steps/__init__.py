"""Commands that run as the steps of something: of an install on this server, of a join on a node."""
