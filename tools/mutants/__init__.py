"""Changes the documents, one constraint at a time, and finds whether a check or a test notices."""
