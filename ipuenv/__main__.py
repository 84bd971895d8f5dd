"""``python -m ipuenv``."""

from ipuenv.front.cli import main

if __name__ == "__main__":
    main()
