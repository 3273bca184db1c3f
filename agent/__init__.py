"""The engine: searches for faster programs in a detached process (``python -P -m agent VERB``)."""
