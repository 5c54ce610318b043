"""What cannot work, or is likely not to, with the reason and the fix."""
