"""Starting the engine, knowing that it answers, and stopping it."""
