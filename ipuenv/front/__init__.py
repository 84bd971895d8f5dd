"""Front: the Invoke namespace, the Nox sessions, the generated pages."""
