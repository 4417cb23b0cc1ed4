"""The coordinator: signed product events become runs of workflows, and an operator watches over them."""
