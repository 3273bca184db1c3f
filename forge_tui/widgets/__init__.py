"""Widgets of the watch screen: all draw lines of styled text and repaint only lines that differ."""
