"""Which program to try next, and when to stop: pure logic over a tree, no input or output."""
