"""The migrations, one module each, in the order of their numbers; one that was released is never changed."""
