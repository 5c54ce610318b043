"""Changes on the disk that survive a kill, a power cut and a second process."""
