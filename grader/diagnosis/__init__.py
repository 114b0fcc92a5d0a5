"""From the calls that a check made to the mistake behind its failure."""
