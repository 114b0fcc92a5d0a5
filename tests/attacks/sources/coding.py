# coding: rot13
"""Says that it is written in another alphabet."""
