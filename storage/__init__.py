"""Durable state: tables, migrations, the group-commit writer and one module an aggregate.

Nothing in here knows HTTP or a generated operation.
"""
