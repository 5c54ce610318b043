"""What this machine is: probing it, and the facts that planning reads."""
