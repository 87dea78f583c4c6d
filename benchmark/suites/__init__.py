"""The tables, as data, and what turns a row into a run."""
