"""Helpers that tests of several folders share.

Test modules import from here, never from another test module.
"""
