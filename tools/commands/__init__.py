"""The groups of the `gatehouse` command, one module each; a module is imported when its command is called."""
