"""Invoke tasks: ``invoke --list`` shows them. The same namespace is the command ``ipuenv``."""

from ipuenv.front.tasks import namespace

__all__ = ["namespace"]
