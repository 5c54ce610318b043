"""Run folders: logs, state and receipts."""
