"""What schemathesis has to know of each API beyond its document: one module an API, which it loads by its name."""
