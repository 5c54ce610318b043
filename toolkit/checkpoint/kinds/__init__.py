"""The kinds of source: where a checkpoint's files are, why they are not, and how to get them."""
