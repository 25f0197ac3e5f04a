"""What the scripts call: each module is one command, with a ``main`` that takes arguments."""
