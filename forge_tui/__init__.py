"""The command line and the screen. They reach the engine through the store alone."""
