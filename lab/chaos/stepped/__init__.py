"""The folder that comes first in the PYTHONPATH of nodes with a clock of their own."""
