"""Servers of five sign-in systems, for tests: each strict in what its public sources state, and written from these alone."""
