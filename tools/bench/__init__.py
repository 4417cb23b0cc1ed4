"""`gatehouse bench`: Gatehouse beside its two peers under the same load; nothing here takes part in serving."""
