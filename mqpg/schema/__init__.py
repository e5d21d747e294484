"""The schema in the broker's database: its sources, its versions, how it is installed and upgraded.

`mqpg.schema.migrate` is what other modules and users call.
"""
