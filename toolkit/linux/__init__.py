"""What Linux tells of processes and does to them, beyond Python; standard library only, as the warden needs it."""
