"""What people see: tables and texts made from plain data."""
