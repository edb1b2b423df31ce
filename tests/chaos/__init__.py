"""The matrices of kills and faults: what they count, and running all of them with one line of counts at the end."""
