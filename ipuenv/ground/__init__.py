"""Ground floor: errors, the one place that starts processes, the one that prints, settings, profiles."""
