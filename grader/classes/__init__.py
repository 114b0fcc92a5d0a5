"""A class of submissions: found, graded by several workers, kept in a journal, and shown."""
