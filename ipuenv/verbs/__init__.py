"""Verbs: what a user asks for, as lists of stages."""
