"""Lists of what is asked: numbered, signed by people, each with the hash of the list before."""
