"""The command line: one module per verb or group of verbs. It decides nothing; planning and applying are libraries."""
