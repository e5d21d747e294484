"""The schema in the broker's database: its sources, its versions, how it is installed and upgraded.

`mqpg.migrate` is what other modules and users call.
"""
