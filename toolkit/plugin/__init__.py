"""What runs inside vLLM; nothing else imports it."""
