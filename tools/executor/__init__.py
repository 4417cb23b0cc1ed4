"""The executor: a child process of `serve` that carries runs out, so that they neither slow nor crash admission."""
